"""Logs in JSON: one schema in every process, through start, trouble and end, and no secret in any line."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from authfabric.processes.launcher import ReplicaProcess
from authfabric.scenarios.testbed import Domain, ServerMode, stage
from authz import Identity
from bus.runtime import FORMAT_VARIABLE, LEVEL_VARIABLE, LogLine
from bus.runtime.logs import JsonFormatter, TextFormatter, log_settings
from tests.waiting import eventually

POLICIES = "- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}"
_PEM = re.compile(r"-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----", re.DOTALL)


def lines_of(text: str) -> list[LogLine]:
    return [msgspec.json.decode(line, type=LogLine, strict=True) for line in text.splitlines()]


def secrets_below(folder: Path) -> dict[str, str]:
    """Each private key in the files of a folder, in all forms in which it could be written, and where it stands."""
    found = {}
    for file in folder.rglob("*"):
        text = file.read_text(errors="replace").replace("\\n", "\n") if file.is_file() else ""
        for body in _PEM.findall(text):
            whole = base64.b64decode("".join(body.split()))
            forms = [whole, whole[-32:]]  # PKCS#8 of an Ed25519 key ends with the key
            found |= {
                form: file.name
                for raw in forms
                for form in (
                    base64.b64encode(raw).decode().rstrip("="),
                    base64.urlsafe_b64encode(raw).decode().rstrip("="),
                    raw.hex(),
                    repr(raw)[2:-1],
                )
            }
    return found


async def start_all(met: Domain, owner: Identity) -> None:
    await met.release(POLICIES)
    await asyncio.gather(
        met.start_roles(Identity.generate()), met.start_pdp(), met.start_broker([met], owner)
    )
    words = ["gateway", "serve", "--anonymous", "--listen", "127.0.0.1:0", "--domain", met.name]
    words += ["--url", met.url, "--trust", str(met.key.public)]
    met.processes["gateway"] = await ReplicaProcess.launch("gateway", words, met.access("gateway"))


@pytest.mark.parametrize(
    "ground", [ServerMode.SECURED, ServerMode.ACCOUNTS], ids=lambda each: each.name.lower()
)
async def test_every_process_logs_by_one_schema_and_no_secret(ground, monkeypatch):
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    monkeypatch.setenv(LEVEL_VARIABLE, "debug")
    monkeypatch.setenv("AUTHFABRIC_PASSPHRASE", "a passphrase that must not be logged")
    async with stage(["met"], ground) as (met,):
        owner = Identity.generate()
        await start_all(met, owner)
        password = met.url.partition("@")[0].rpartition(":")[2] if "@" in met.url else ""
        hidden = secrets_below(met.folder)
        assert hidden
        hidden |= {"a passphrase that must not be logged": "the environment"}
        hidden |= {password: "the URL"} if password else {}
        assert met.server is not None
        await met.server.stop()
        running = list(met.processes.values())
        await eventually(lambda: all("authfabric.bus" in each.log or not each.running for each in running))
        await asyncio.gather(*(each.stop() for each in running))
        logs = {each.name: each.log for each in running}
        assert not [each.name for each in running if "@" in each.ready.url]
        await met.server.start()
    for name, log in logs.items():
        lines = lines_of(log)
        assert lines, name
        assert {each.pid for each in lines} == {running[list(logs).index(name)].pid}
        assert not [where for secret, where in hidden.items() if secret in log], name
    commands = {each.process for log in logs.values() for each in lines_of(log)}
    assert commands == {"roles serve", "pdp serve", "broker serve", "gateway serve"}


def run(program: str, **environment: str) -> list[LogLine]:
    """What a process logs that does this after logs are configured."""
    begin = "from authfabric.cli import *; configure_logs(LogFormat.JSON, LogLevel.INFO, 'test'); "
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True, timeout=60)
    return lines_of(done.stderr)


def test_errors_that_were_not_foreseen_and_what_is_printed_are_lines_too():
    (line,) = run("raise KeyError('a\\nb')")
    assert (line.level, line.message) == ("critical", "ended by an error that was not foreseen")
    assert line.error.startswith("Traceback")
    assert line.error.endswith("KeyError: 'a\\nb'")
    (line,) = run("import threading; threading.Thread(target=lambda: 1 / 0).start()")
    assert line.error.endswith("ZeroDivisionError: division by zero")
    (line,) = run("import warnings; warnings.warn('old')")
    assert (line.level, line.logger) == ("warning", "py.warnings")
    two = run("print('100 %s', file=sys.stderr); print('error: bad', end='', file=sys.stderr)")
    assert [(each.level, each.message) for each in two] == [("info", "100 %s"), ("error", "error: bad")]


def test_credentials_in_urls_are_left_out_of_messages_and_errors():
    record = logging.LogRecord("x", logging.ERROR, "", 0, "at nats://me:secret@a:1,tls://token@b", (), None)
    assert json.loads(JsonFormatter("test").format(record))["message"] == "at nats://a:1,tls://b"
    assert TextFormatter("%(message)s").format(record) == "at nats://a:1,tls://b"


def test_a_command_says_which_formats_there_are():
    with pytest.raises(ValueError, match="AUTHFABRIC_LOG_FORMAT is 'yaml': write text, json"):
        log_settings({FORMAT_VARIABLE: "yaml"})
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "authfabric",
            "--log-format",
            "json",
            "ask",
            "a",
            "/b",
            "c",
            "--url",
            "nats://me:secret@127.0.0.1:1",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    (line,) = lines_of(done.stderr)
    assert (line.process, line.level) == ("ask", "error")
