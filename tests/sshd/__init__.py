"""A real OpenSSH server for tests, on a loopback port with keys of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bus.server.nats_server import free_ports

FOLDER = Path(__file__).parents[2] / ".cache" / "sshd"
"""Where `python -m tests.sshd` puts it."""
_BOUND = "mount --bind {passwd} /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec {command}"
"""What OpenSSH wants of a machine on which root runs it: a user and a folder. No other process sees them."""


@dataclass(frozen=True)
class SshServer:
    """One that runs: how to get in."""

    login: str
    options: tuple[str, ...]


def find_program(name: str) -> Path:
    """One of OpenSSH's programs; skips the test where there is none."""
    places = os.pathsep.join(
        [*(str(FOLDER / "usr" / part) for part in ("sbin", "bin")), os.environ["PATH"], "/usr/sbin"]
    )
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"there is no {name}: `make test` fetches it by apt-get, or install it")
    return Path(found)


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Let in who has the key, for the length of a block."""
    daemon, keygen = find_program("sshd"), find_program("ssh-keygen")
    for name in ("host", "user"):
        words = [str(keygen), "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, env=_environment())
    (port,) = free_ports(1)
    settings = {
        "ListenAddress": f"127.0.0.1:{port}", "HostKey": folder / "host", "PidFile": "none", "StrictModes": "no",
        "AuthorizedKeysFile": folder / "user.pub", "PasswordAuthentication": "no", "UsePAM": "no",
        "PermitRootLogin": "prohibit-password",
    }  # fmt: skip
    file = folder / "sshd_config"
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    command = [str(daemon), "-D", "-e", "-f", str(file)]
    if os.geteuid() == 0:
        passwd = folder / "passwd"
        users = Path("/etc/passwd").read_text()
        passwd.write_text(
            users + "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n" * ("\nsshd:" not in users)
        )
        inside = _BOUND.format(passwd=passwd, command=" ".join(command))
        command = ["unshare", "--mount", "sh", "-c", inside]
    log = folder / "sshd.log"
    with log.open("wb") as said, subprocess.Popen(command, stderr=said, env=_environment()) as running:
        try:
            _wait_listening(running, log)
            host_key = " ".join((folder / "host.pub").read_text().split()[:2])
            known = folder / "known_hosts"
            known.write_text(f"[127.0.0.1]:{port} {host_key}\n")
            yield SshServer(
                f"{getpass.getuser()}@127.0.0.1",
                (
                    "-F",
                    "none",
                    "-p",
                    str(port),
                    "-i",
                    str(folder / "user"),
                    "-o",
                    f"UserKnownHostsFile={known}",
                ),
            )
        finally:
            running.terminate()


def _wait_listening(running: subprocess.Popen[bytes], log: Path) -> None:
    while b"Server listening" not in log.read_bytes():
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(0.05)
            raise AssertionError(log.read_text())


def _environment() -> dict[str, str]:
    """With the libraries that were fetched along."""
    return {**os.environ, "LD_LIBRARY_PATH": str(FOLDER / "usr" / "lib" / f"{os.uname().machine}-linux-gnu")}
