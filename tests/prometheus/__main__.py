"""Fetch a Prometheus from the system's packages, into `.cache/prometheus`: `python -m tests.prometheus`.

Nothing is installed on the machine. Where there is no apt, or it reaches nothing, the tests by a real Prometheus are
skipped, and say so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.prometheus import FOLDER


def main() -> None:
    fetching = FOLDER.with_name("prometheus-fetching")
    for folder in (fetching, FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    fetching.mkdir(parents=True)
    subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=fetching, check=True, timeout=120)
    (package,) = fetching.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(FOLDER)], check=True)
    shutil.rmtree(fetching)


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no Prometheus could be fetched, so its tests are skipped: {error}")
