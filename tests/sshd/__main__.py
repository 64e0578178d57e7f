"""Fetch an OpenSSH server from the system's packages, into `.cache/sshd`: `python -m tests.sshd`.

Nothing is installed on the machine. Where there is no apt, or it reaches nothing, the tests over SSH are skipped, and
say so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.sshd import FOLDER


def main() -> None:
    fetching = FOLDER.with_name("sshd-fetching")
    for folder in (fetching, FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    fetching.mkdir(parents=True)
    packages = ["openssh-server", "openssh-client", "libwrap0"]
    subprocess.run(["apt-get", "download", "-qq", *packages], cwd=fetching, check=True, timeout=120)
    for package in fetching.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(FOLDER)], check=True)
    shutil.rmtree(fetching)


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no OpenSSH server could be fetched, so its tests are skipped: {error}")
