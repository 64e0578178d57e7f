"""The command line, as a shell sees it: what it prints, and with which code it ends."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import IO

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.settings import DEFAULT_POLICIES
from authz import Identity
from bus.nats.connector import connect
from bus.server.nats_server import free_ports


class Shell:
    """Runs `authfabric` with an environment of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._environment = {
            **os.environ,
            "XDG_STATE_HOME": str(state),
            "XDG_CACHE_HOME": str(state),
            "NO_COLOR": "1",
        }
        self._environment.pop("AUTHFABRIC_NATS_URL", None)

    def speaking(self, encoding: str) -> Shell:
        """The same, on a terminal that knows only these characters."""
        other = copy.copy(self)
        other._environment = {**self._environment, "PYTHONIOENCODING": encoding}
        return other

    def start(self, *words: str, out: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "authfabric", *words],
            stdout=out, stderr=subprocess.PIPE, text=True, env=self._environment,
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        process = self.start(*words)
        out, error = process.communicate(timeout=120)
        return process.returncode, out, error

    def python(self, program: str) -> tuple[int, str, str]:
        """The same of a Python program, such as a service."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=120,
        )
        return done.returncode, done.stdout, done.stderr

    def invoke(self, *words: str) -> tuple[int, str, str]:
        """The same without a process, where only what the command says is of interest."""
        result = CliRunner().invoke(app, words, env=self._environment)
        return result.exit_code, result.stdout, result.stderr


def read_document(process: subprocess.Popen[str]) -> dict[str, object]:
    """The first JSON document that a process prints."""
    assert process.stdout
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            return json.loads(text)
    raise AssertionError(f"it printed only `{text}`; {process.communicate()[1]}")


def child(parent: int, program: str) -> int:
    """The process that another has started to run this."""
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in children.read_text().split():
            if program in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "):
                return int(pid)
    raise AssertionError(f"{program} does not run")


@pytest.fixture(scope="module")
def up(tmp_path_factory) -> Iterator[tuple[Shell, dict[str, object]]]:
    """A fabric that `authfabric up` runs; ended by Ctrl-C, as a person would."""
    shell = Shell(tmp_path_factory.mktemp("state"))
    process = shell.start("up", "--port", "-1", "--replicas", "2", "--json")
    yield shell, read_document(process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error


@pytest.fixture
def shell(up) -> Shell:
    return up[0]


@pytest.fixture
def lonely(tmp_path) -> Shell:
    """A shell on a machine where no fabric runs."""
    return Shell(tmp_path)


class TestAsk:
    def test_allowed_is_0(self, shell):
        code, out, _ = shell.run("ask", "alice", "/sales/budget/New York", "read")
        assert code == 0
        assert out.startswith("allow  alice read /sales/budget/New York")

    def test_denied_is_1_and_json_says_by_what(self, shell):
        code, out, _ = shell.invoke("ask", "bob", "/sales/q1", "read", "--json")
        assert code == 1
        document = json.loads(out)
        assert (document["decision"], document["reason"]) == ("deny", "no-policy")
        assert (document["subject"], document["object"], document["action"]) == ("bob", "/sales/q1", "read")

    def test_attributes_are_json_or_text(self, shell):
        words = ["ask", "bob", "/sales/q1", "approve", "-s", "role=manager", "-o", "amount=500", "--json"]
        code, out, _ = shell.invoke(*words)
        assert (code, json.loads(out)["policies"]) == (0, ["managers-approve-sales"])

    def test_a_name_that_looks_like_markup_is_shown_as_it_is(self, shell):
        code, out, _ = shell.invoke("ask", "[/bold]", "/x[red]", "read")
        assert code == 1
        assert "[/bold] read /x[red]" in out

    def test_a_fabric_that_cannot_decide_is_3(self, shell):
        code, out, _ = shell.invoke("ask", "alice", "/x", "read", "--domain", "nobody", "--json")
        assert code == 3
        assert json.loads(out)["reason"] == "no-pdp"

    def test_no_fabric_is_3_in_one_line(self):
        (port,) = free_ports(1)
        result = CliRunner().invoke(app, ["ask", "alice", "/x", "read", "--url", f"nats://127.0.0.1:{port}"])
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith(f"error: not connected to `nats://127.0.0.1:{port}`")
        assert "start one with `authfabric up`" in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_no_fabric_is_a_denial_for_programs(self):
        (port,) = free_ports(1)
        words = ["ask", "alice", "/x", "read", "--explain", "--json", "--url", f"nats://127.0.0.1:{port}"]
        result = CliRunner().invoke(app, words)
        document = json.loads(result.stdout)
        assert (result.exit_code, document["decision"], document["reason"]) == (3, "deny", "not-connected")
        assert document["detail"] == f"not connected to `nats://127.0.0.1:{port}`: connection refused"

    def test_an_explanation_for_programs_has_names_for_everything(self, shell):
        code, out, _ = shell.invoke("ask", "alice", "/sales/q1", "read", "--explain", "--json")
        explanation = json.loads(out)["explanation"]
        assert (code, set(explanation)) == (0, {"policies", "others"})
        assert [each["policy"] for each in explanation["policies"]] == ["alice-reads-sales"]

    def test_an_explanation_names_every_condition_of_an_allow(self, shell):
        words = ("ask", "bob", "/sales/q1", "approve", "-s", "role=manager", "-o", "amount=5", "--explain")
        code, out, _ = shell.invoke(*words)
        assert code == 0
        assert [line.strip() for line in out.splitlines()[2:6]] == [
            'because object.id starts with "/sales/"; object.id is "/sales/q1"',
            'because action.id == "approve"',
            'because subject.role == "manager"',
            "because object.amount <= 10000; object.amount is 5",
        ]

    def test_a_name_cannot_pass_for_output(self, shell):
        code, out, _ = shell.invoke("ask", "alice", "/x\nallow  alice read /x\x1b[2K", "read")
        assert code == 1
        assert out.startswith(r"deny  alice read /x\nallow  alice read /x\x1b[2K")
        assert len(out.splitlines()) == 1

    def test_a_narrow_terminal_breaks_no_line(self, shell):
        _, out, _ = shell.run("ask", "alice", "/sales/" + "long/" * 40, "read")
        assert len(out.splitlines()) == 1

    def test_what_a_terminal_cannot_show_is_written_out(self, shell):
        code, out, error = shell.speaking("ascii").run("ask", "alice", "/sales/日本", "read")
        assert (code, error) == (0, "")
        assert out.startswith(r"allow  alice read /sales/\u65e5\u672c")

    @pytest.mark.parametrize(
        "words",
        [
            ["alice", "/x/../y", "read"],
            ["alice", "/x", "read", "-s", "long=" + "x" * 70_000],
            ["alice", "/x", ""],
            ["alice", "/x", "read", "-s", "role"],
            ["alice", "/x", "read", "--deadline", "0"],
        ],
    )
    def test_what_cannot_be_asked_is_2(self, words):
        result = CliRunner().invoke(app, ["ask", *words])
        assert (result.exit_code, result.stdout) == (2, "")
        assert "error" in result.stderr.lower()


class TestOutput:
    def test_output_that_cannot_be_written_is_3_in_one_line(self, lonely):
        with Path("/dev/full").open("wb") as full:
            process = lonely.start("doctor", "--url", "nats://127.0.0.1:1", out=full)
            _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (3, "error: [Errno 28] No space left on device\n")

    def test_the_version_is_said(self):
        result = CliRunner().invoke(app, ["--version"])
        assert (result.exit_code, result.stdout) == (0, f"authfabric {metadata.version('authfabric')}\n")


class TestDoctor:
    def test_a_well_fabric_is_0(self, shell, up):
        code, out, _ = shell.run("doctor", "--json", "--probes", "5")
        document = json.loads(out)
        unwell = [each for each in document["findings"] if not each["well"]]
        assert not [each for each in unwell if "round trip" not in each["found"]], (
            unwell
        )  # this machine may be slow
        assert (code == 0) == document["well"] == (not unwell)
        assert any(up[1]["url"] in each["found"] for each in document["findings"])

    def test_what_is_not_well_is_1_and_says_what_to_do(self):
        (port,) = free_ports(1)
        result = CliRunner().invoke(app, ["doctor", "--url", f"nats://127.0.0.1:{port}"])
        assert result.exit_code == 1
        assert "✗ connection: not connected" in result.stdout
        assert "→ start one with `authfabric up`" in result.stdout

    def test_it_says_whom_services_would_trust_and_how_to_set_that(self, monkeypatch):
        def said():
            result = CliRunner().invoke(app, ["doctor", "--json", "--url", "nats://127.0.0.1:1"])
            return next(each for each in json.loads(result.stdout)["findings"] if each["about"] == "trust")

        monkeypatch.setattr("authfabric.commands.begin.doctor.CONNECT_SECONDS", 0.05)  # there is no server
        monkeypatch.delenv("AUTHFABRIC_TRUST", raising=False)
        unset = said()
        assert (unset["well"], "refuse to start" in unset["found"]) == (False, True)
        assert unset["do"].startswith("export AUTHFABRIC_TRUST=")
        key = str(Identity.generate().public)
        monkeypatch.setenv("AUTHFABRIC_TRUST", key)
        finding = said()
        assert (finding["well"], finding["found"], finding["do"]) == (
            True,
            f"{key} (from AUTHFABRIC_TRUST)",
            "",
        )
        monkeypatch.setenv("AUTHFABRIC_TRUST", "nonsense")
        assert not said()["well"]

    def test_without_a_probe_there_is_nothing_to_say(self):
        assert CliRunner().invoke(app, ["doctor", "--probes", "0"]).exit_code == 2


class TestPdp:
    def test_it_answers_until_sigterm_and_ends_with_0(self, shell, up):
        words = [
            "--policies",
            str(Path("authfabric/defaults/policies").resolve()),
            "--json",
            "--url",
            up[1]["url"],
        ]
        process = shell.start("pdp", "serve", *words, "--serve", "domain:elsewhere", "--name", "elsewhere")
        document = read_document(process)
        assert document["serves"] == ["domain:elsewhere"]
        code, _, _ = shell.run("ask", "alice", "/sales/q1", "read", "--domain", "elsewhere")
        assert code == 0
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "draining: 0 questions left" in error
        assert re.search("ended: [12] questions answered", error)  # asked twice if the first answer was slow

    @pytest.mark.parametrize("words", [["--serve", "everything"], ["--max-queue", "0"]])
    def test_called_wrongly_is_2(self, words):
        assert CliRunner().invoke(app, ["pdp", "serve", *words]).exit_code == 2

    def test_without_a_server_is_3(self, monkeypatch):
        monkeypatch.setattr(
            "authfabric.processes.pdp_process.connect", partial(connect, connect_seconds=0.05)
        )
        (port,) = free_ports(1)
        words = ["pdp", "serve", "--policies", str(DEFAULT_POLICIES), "--url", f"nats://127.0.0.1:{port}"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 3
        assert result.stderr.startswith("error: not connected to")


class TestUp:
    def test_it_says_where_everything_is(self, up):
        _, document = up
        assert set(document["replicas"]) == {"pdp-1", "pdp-2"}
        assert document["url"].startswith("tls://127.0.0.1:")

    def test_what_dies_is_started_anew(self, lonely):
        process = lonely.start("up", "--port", "-1", "--replicas", "1", "--json")
        assert process.stderr
        try:
            read_document(process)
            for program, name in (("nats-server", "the NATS server"), ("pdp serve", "`pdp-1`")):
                os.kill(child(process.pid, program), signal.SIGKILL)
                said = [next(process.stderr) for _ in range(2)]
                assert f" {name} has ended" in said[0]  # after the time of day
                assert f" {name} runs again (pid {child(process.pid, program)})" in said[1]
            code, out, error = lonely.run("ask", "alice", "/sales/q1", "read", "--deadline", "30")
            assert (code, out[:5]) == (0, "allow"), error
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode == 0

    def test_a_port_that_is_taken_is_3(self, up):
        result = CliRunner().invoke(app, ["up", "--port", up[1]["url"].rpartition(":")[2]])
        assert result.exit_code == 3
        assert result.stderr.endswith("is in use: end what runs there, or choose another port\n")


def test_the_demo_loses_no_request(lonely):
    code, out, error = lonely.run("demo", "--seconds", "3", "--json")
    document = json.loads(out)
    assert (document["failed"], document["wrong"]) == ({}, 0), error
    assert code == 0
    assert document["requests"] > 0
    assert [each["event"].split()[0] for each in document["events"]][1:] == [
        "pdp-1",
        "pdp-2",
        "pdp-4",
        "pdp-2",
    ]
