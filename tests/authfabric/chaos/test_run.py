"""A short run of `authfabric chaos`: real servers and processes, struck by faults, keep every promise."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

KINDS = ("pdp-killed", "pdp-frozen", "pdp-lying", "pdp-slow", "push", "forged-messages", "forged-release")


async def command(*words: str) -> tuple[int | None, dict[str, object]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", "chaos", *words, "--json", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode, json.loads(output)


@pytest.mark.timeout(600)
async def test_a_fabric_struck_by_faults_keeps_every_promise(tmp_path):
    record = tmp_path / "record.ndjson"
    only = [word for kind in KINDS for word in ("--only", kind)]
    short = ("--small", "--seed", "7", "--minutes", "0.15")
    code, verdict = await command(*short, "--record", str(record), *only)
    assert verdict["violations"] == []
    assert code == 0
    assert verdict["holds"]
    assert int(str(verdict["requests"])) > 1000
    assert int(str(verdict["faults"])) >= 3
    again, same = await command("check", str(record))
    assert (again, same) == (0, verdict)
    with record.open("a") as file:
        file.write(
            '{"what":"answers","pep":"pep-1","question":"stranger /files/0","allowed":true,'
            '"epoch":1,"count":1,"first":1.0,"last":1.0,"policies":["lie"]}\n'
        )
    code, verdict = await command("check", str(record))
    assert (code, verdict["unauthorised"]) == (1, 1)
