"""Functions given to a broker are confined by the kernel, from before their module is loaded."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from pubsub_core.functions.functions_service import Functions, Limits
from tests.pubsub_core.functions import thief
from tests.pubsub_core.rules.test_live import policy, release, take

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines functions")

SECRET, PASSPHRASE = "the secret of a key", "the passphrase of a broker"
LIMITS = Limits(seconds=10.0)
ENVIRONMENT = ("environment", "environment-of-libc", "own-environment", "parents-environment")
READING = ("read", "read-of-the-system", "list", "inherited")
CHANGING = ("delete", "rename", "truncate", "truncate-by-opening", "change-mode", "make", "make-file")
CONNECTING = ("socket", "local-socket")
PROCESSES = ("fork", "execute", "signal", "trace")
ATTEMPTS = (*ENVIRONMENT, *READING, *CHANGING, *CONNECTING, *PROCESSES, "raise-limits")


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A folder with a module of functions and a key, in which a broker with a passphrase runs."""
    shutil.copy(thief.__file__, tmp_path / "thief.py")
    key = tmp_path / "secret.key"
    key.write_text(SECRET)
    key.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTHFABRIC_PASSPHRASE", PASSPHRASE)
    held = os.open(key, os.O_RDONLY)
    os.set_inheritable(held, True)
    yield key
    os.close(held)
    assert key.read_text() == SECRET
    assert key.stat().st_mode & 0o777 == 0o600
    assert {each.name for each in tmp_path.iterdir()} <= {"thief.py", "reader.py", "secret.key", "cache"}


@pytest.fixture
def stolen(house):
    """What functions get hold of by some attempts, when they are called and as they are loaded."""
    with Functions("thief", LIMITS) as functions:
        yield lambda *names: {
            words: found
            for name in names
            for words in (name, f"loaded {name}")
            if words != "loaded execute"
            and not str(found := functions.call("attempt", [words])).startswith("refused")
        }


def test_functions_find_no_secrets_in_the_environment(stolen):
    assert stolen(*ENVIRONMENT[:2]) == {}


def test_functions_read_nothing_but_their_package_and_libraries(stolen):
    assert stolen(*ENVIRONMENT, *READING) == {}


def test_functions_change_no_files(stolen):
    assert stolen(*CHANGING) == {}


def test_functions_open_no_connections_past_python(stolen):
    assert stolen(*CONNECTING) == {}


def test_functions_neither_start_nor_signal_nor_trace_processes(stolen):
    assert stolen(*PROCESSES, "raise-limits") == {}


async def test_functions_of_a_broker_can_do_nothing_but_compute(house, place):
    """On a real broker: what each attempt comes to is sent to a subscriber, who finds refusals only."""
    kind = await place.define("Attempt", ("words", "string"))
    rule = f"TRANSFORM EVENT {kind.name} TO {kind.name} ON notify EXECUTE attempt(words)"
    await release(place, policy("all", "subscribe", ("try", rule)))
    await place.broker("north", functions="thief", limits=LIMITS)
    client = await place.client("bob", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    tried = [words for name in ATTEMPTS for words in (f"loaded {name}", name) if words != "loaded execute"]
    for words in tried:
        await publisher.publish(words=words)
    await publisher.flush()
    found = dict(zip(tried, [each["words"] for _, each in await take(subscriber, len(tried))], strict=True))
    assert {words: loot for words, loot in found.items() if not str(loot).startswith("refused")} == {}


def test_nothing_beside_the_functions_is_loaded_before_they_are_confined(house):
    """Modules with the names of those that the process itself loads would run before it is confined."""
    copied = "import os\nopen('stolen', 'w').write(os.environ.get('PATH', ''))\nraise ImportError('stolen')\n"
    loaded = set(sys.stdlib_module_names) - set(sys.builtin_module_names) | {"msgspec", "sitecustomize"}
    beside = [house.with_name(f"{name}.py") for name in loaded]
    for file in beside:
        file.write_text(copied)
    try:
        with Functions("thief", LIMITS) as functions:
            assert str(functions.call("attempt", ["read"])).startswith("refused")
    finally:
        for file in beside:
            file.unlink()
    assert not house.with_name("stolen").exists()


def test_of_a_folder_of_libraries_functions_read_nothing_but_those(house, monkeypatch):
    """The folder with the keys, or one above it, may be among those that LD_LIBRARY_PATH names."""
    for folder in (".", str(house.parent), str(house.parent.parent)):
        monkeypatch.setenv("LD_LIBRARY_PATH", folder)
        with Functions("thief", LIMITS) as functions:
            assert str(functions.call("attempt", ["read"])).startswith("refused")


OWN_ENVIRONMENT = """
from pubsub_core.rules.context import Unknowable
from pubsub_core.functions.functions_service import Functions, Limits
with Functions("reader", Limits(seconds=10.0)) as functions:
    try:
        print(functions.call("read", ["secret.key"]))
    except Unknowable as error:
        print(error)
"""


def test_where_a_broker_runs_in_the_folder_of_its_environment_functions_do_not_read_it(tmp_path):
    """`python -m venv .` makes the folder of the keys the one of the libraries, too."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (libraries,) = tmp_path.glob("lib/python*/site-packages")
    (libraries / "fabric.pth").write_text(
        "\n".join([str(Path(__file__).parents[3]), *site.getsitepackages()])
    )
    (tmp_path / "reader.py").write_text("def read(name):\n    return open(name).read()\n")
    (tmp_path / "secret.key").write_text(SECRET)
    done = subprocess.run(
        [tmp_path / "bin" / "python", "-c", OWN_ENVIRONMENT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PermissionError" in done.stdout


UNABLE = """
import ctypes, errno, logging, struct, sys
from pubsub_core.functions import confinement
from pubsub_core.functions.functions_service import Functions, FunctionsRefused, Limits
steps = [confinement._step(0x20, 0), confinement._step(0x15, 444, 0, 1),
         confinement._step(0x06, 0x50000 | errno.ENOSYS), confinement._step(0x06, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(steps))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)), 0, 0) == 0
logging.basicConfig(stream=sys.stdout, format="%(message)s")
try:
    Functions("reader").__enter__()
except FunctionsRefused as error:
    print(error)
with Functions("reader", Limits(seconds=10.0, confined=False)) as functions:
    print(functions.call("read", ["secret.key"]))
"""
"""A process whose kernel knows no Landlock, as some containers and older kernels have it."""


def test_where_the_system_cannot_confine_functions_they_are_refused_unless_that_is_said(house):
    root = Path(__file__).parents[3]
    house.with_name("reader.py").write_text("def read(name):\n    return open(name).read()\n")
    done = subprocess.run(
        [sys.executable, "-c", UNABLE],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    refused, warned, read = done.stdout.splitlines()
    assert "the kernel offers no Landlock" in refused
    assert "--functions-unconfined" in refused
    assert "are NOT confined" in warned
    assert read == SECRET
