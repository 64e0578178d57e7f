"""The Spark session: one way to start one, for every command, test and benchmark."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from spark_eval.errors import SessionFailed
from spark_eval.runtime.file_store import cache_folder
from spark_eval.runtime.java import find_java, make_home
from spark_eval.runtime.master import check_reachable

LOCAL = "local[*]"
Sessions: TypeAlias = Callable[[], SparkSession]
"""Gives the session; the first call starts it."""
PACKAGES = ("authz", "bus", "sdp_cache", "pdp", "pep", "spark_eval")
"""What tasks may import. On clusters it is shipped with the job."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING_SECONDS = 10.0
"""How long Java may take to end itself."""
REPEAT_SECONDS = 0.05
"""How long a signal that was lost takes to come once more."""
SETTLED_SECONDS = 30.0
"""Seconds without growth after which a class archive is finished: Java writes it while it ends."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where and how to run. `master` is any master URL of Spark, or `sc://HOST` for Spark Connect."""

    master: str = LOCAL
    verbose: bool = False
    """Let Spark say all it has to say."""
    long: bool = False
    """Hours of JVM work are ahead: let Java compile thoroughly, which would slow short jobs down."""
    memory: str = "2g"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings, which win over ours."""

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local[") or self.master == "local"

    @property
    def is_remote(self) -> bool:
        return self.master.startswith("sc://")


@contextlib.contextmanager
def open_session(options: SparkOptions | None = None) -> Iterator[SparkSession]:
    """A session for the length of a block; one that already runs is used as it is and left running."""
    running = _running()
    if running is not None:
        yield running
        return
    session = start_session(options or SparkOptions())
    try:
        yield session
    finally:
        if not _ended():
            session.stop()


def _running() -> SparkSession | None:
    """The session of this thread, or else of the process."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


@contextlib.contextmanager
def lazy_session(options: SparkOptions | None = None) -> Iterator[Sessions]:
    """A session for the length of a block, started when it is needed; signals end the block in order."""
    with ending_in_order(), contextlib.ExitStack() as stack:
        yield cache(lambda: stack.enter_context(open_session(options)))


class Ended(SystemExit):
    """The process is being ended by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Let whoever ends the process by a signal end its blocks too, so that what is half written vanishes.

    Java is ended first: nothing can be asked of it while a call is under way, and its tasks would write on into
    folders that are being removed. Python swallows what is raised in finalizers and while it forks: then it is raised
    again.
    """
    if threading.current_thread() is not threading.main_thread():  # no other may say what signals do
        yield
        return
    process, swallowed = os.getpid(), sys.unraisablehook

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a child that has not begun its own program: it ends with its parent
            return
        while frame is not None:
            if frame.f_code is again.__code__:  # what is raised in there is lost: the signal comes once more
                return
            frame = frame.f_back
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        _end_java()
        raise Ended(number)

    def repeat(number: int) -> None:
        while signal.getsignal(number) is end:
            os.kill(process, number)
            time.sleep(REPEAT_SECONDS)

    def again(found: sys.UnraisableHookArgs) -> None:
        if not isinstance(found.exc_value, Ended):
            swallowed(found)
        elif os.getpid() == process:
            signal.signal(found.exc_value.number, end)
            threading.Thread(target=repeat, args=(found.exc_value.number,), daemon=True).start()

    before = {each: signal.signal(each, end) for each in ENDING}
    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = swallowed
        for each, handler in before.items():
            signal.signal(each, handler)


def _end_java() -> None:
    process = _java()
    if process is not None:
        process.terminate()
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ended() -> bool:
    process = _java()
    return process is not None and process.poll() is not None


def _java() -> subprocess.Popen[bytes] | None:
    """The process that Spark was started in by this one."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def start_session(options: SparkOptions) -> SparkSession:
    """Start Spark, or reach the cluster asked for. Raises SessionFailed or JavaMissing."""
    check_reachable(options.master)
    try:
        session = _connect(options) if options.is_remote else _launch(options)
    except (PySparkException, Py4JError, OSError) as error:
        raise SessionFailed(options.master, str(error).strip().splitlines()[0]) from None
    if not options.is_local:
        ship(session)
    return session


def ship(session: SparkSession) -> None:
    """Give the cluster's workers the packages that tasks import."""
    archive = pack(cache_folder() / "spark")
    session.addArtifacts(str(archive), pyfile=True)


def to_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """A table as a DataFrame. Its parts are joined first: Spark would stop reading at the first that is empty."""
    return session.createDataFrame(table.combine_chunks())


def settings(options: SparkOptions, java_options: str) -> dict[str, str]:
    """What Spark is told, without the choice of master."""
    ours = {
        "spark.app.name": "authfabric",
        "spark.driver.memory": options.memory,
        "spark.driver.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Tables by name are not used: two runs started in one folder must not meet in a metastore there.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(cache_folder() / "spark" / "warehouse"),
    }
    if options.is_local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Over TCP each Python task waits 40 ms for an acknowledgement that is put off.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": _socket_folder(),
        }
    return {**ours, **options.settings}


@cache
def _socket_folder() -> str:
    """Where Java and Python meet: nobody else may look in. Not just anywhere: paths of sockets must be short."""
    folder = tempfile.mkdtemp(prefix="authfabric-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _connect(options: SparkOptions) -> SparkSession:
    builder = SparkSession.builder.remote(options.master)
    for name, value in options.settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _launch(options: SparkOptions) -> SparkSession:
    java = find_java()
    folder = cache_folder() / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    identity = hashlib.sha256(f"{java}{pyspark.__version__}{pyspark.__file__}".encode()).hexdigest()[:12]
    environment = {
        "JAVA_HOME": str(make_home(java, folder / f"java-{identity}")),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if options.is_local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(options.master)
    for name, value in settings(options, _java_options(options, folder, identity)).items():
        builder = builder.config(name, value)
    with _environment(environment), _interrupts():
        return builder.getOrCreate()


def _java_options(options: SparkOptions, folder: Path, identity: str) -> str:
    words = [_archive_option(folder, identity), "-Xlog:disable"]
    if not options.long:
        words.append("-XX:TieredStopAtLevel=1")
    if not options.verbose:
        words.append(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2-quiet.properties')}")
    return " ".join(words)


def _archive_option(folder: Path, identity: str) -> str:
    """Start from the archive of classes that an earlier start left (it more than halves the time), or leave one."""
    archive = folder / f"classes-{identity}.jsa"
    for passing in folder.glob(f"classes-{identity}.jsa.*"):
        with contextlib.suppress(FileNotFoundError):  # somebody else starting now was quicker
            if time.time() - passing.stat().st_mtime > SETTLED_SECONDS:
                passing.replace(archive)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive}"
    return f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()}"


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment in which Spark starts; afterwards it is as before."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """Keep what Ctrl-C does, unless that is what it does by default: Spark would have it do something else."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if handler is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def pack(folder: Path) -> Path:
    """The packages as one zip file, named by its content."""
    root = Path(__file__).parents[2]
    files = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    archive = folder / f"authfabric-{digest}.zip"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        passing = archive.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(passing, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in files:
                zipped.write(path, path.relative_to(root))
        passing.rename(archive)
    return archive
