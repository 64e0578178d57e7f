"""`authfabric init`: a folder to begin with, with policies, their tests, a service and its tests."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer

from authfabric.files import STARTERS
from authfabric.terminal import fail, out
from authz import AuthFabricError

COMMON = "common"
"""The starter's part that all frameworks share."""


class Framework(enum.StrEnum):
    FASTAPI = "fastapi"
    FLASK = "flask"
    DJANGO = "django"
    GRPC = "grpc"
    FASTSTREAM = "faststream"
    FASTMCP = "fastmcp"
    NONE = "none"


_RUN = {
    Framework.GRPC: "python service.py 50051    then call /notes.Notes/Read with the metadata user: ann",
    Framework.FASTSTREAM: "python service.py nats://127.0.0.1:4222    then request notes.read, header user: ann",
    Framework.FASTMCP: "python service.py 8000    then connect to /mcp with the header X-User: ann",
}
"""How the services run that are no web pages."""


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it. It may be there already.")] = Path(),
    framework: Annotated[Framework, typer.Option(help="What the service is made with.")] = Framework.FASTAPI,
) -> None:
    """Write a folder of policies with tests, and a service that is protected by them."""
    parts = [COMMON, *([] if framework is Framework.NONE else [framework.value])]
    files = {
        folder / path.relative_to(STARTERS / part).with_name(path.name.removesuffix(".txt")): path
        for part in parts
        for path in sorted((STARTERS / part).rglob("*.txt"))
    }
    taken = [str(path) for path in files if path.exists()]
    if taken:
        fail(
            AuthFabricError(f"`{taken[0]}` is there already, and nothing was written: choose an empty folder")
        )
    try:
        for path, source in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.read_text())
    except OSError as error:
        fail(AuthFabricError(f"`{path}` cannot be written: {error.strerror}"))
    for path in files:
        out.print(str(path), highlight=False)
    steps = next_steps(folder, framework, lambda module: find_spec(module) is not None)
    out.print("\nnext:", *steps, sep="\n  ", highlight=False, markup=False, soft_wrap=True)


def next_steps(folder: Path, framework: Framework, installed: Callable[[str], bool]) -> list[str]:
    """What is left to do; `installed` tells of modules whether they are."""
    steps = [] if folder == Path() else [f"cd {folder}"]
    if framework is not Framework.NONE:
        if not all(map(installed, (framework, "pytest", "sqlalchemy"))):
            steps.append(f"pip install '{_distribution()}[{framework},test,lists]'")
        steps.append("pytest")
        steps.append(
            _RUN.get(framework, "python service.py 8000    then ask for /notes/1 with the header X-User: ann")
        )
    return [*steps, "authfabric policy watch policies    checks and tests them on save"]


def _distribution() -> str:
    """What pip installs this from: the clone that it runs from, or was installed from, or the name."""
    clone = Path(__file__).parents[3]
    if (clone / "pyproject.toml").exists():
        return str(clone)
    return installed_from(metadata.distribution("authfabric").read_text("direct_url.json")) or "authfabric"


def installed_from(direct_url: str | None) -> str | None:
    """The folder in what pip notes of an installation (PEP 610); None if it was none, or is gone."""
    address = urlsplit(json.loads(direct_url)["url"] if direct_url else "")
    folder = Path(url2pathname(address.path))
    return str(folder) if address.scheme == "file" and folder.is_dir() else None
