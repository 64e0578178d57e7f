"""The files for deployment fit what they are for: commands have those options, and metrics and pages are there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer import Context

from authfabric.cli import Commands
from tests.docs.test_metrics import metrics

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
PANELS = json.loads((ROOT / "deploy/grafana/authfabric.json").read_text())["panels"]
SUFFIXES = ("_total", "_bucket", "_info")


def named(expression: str) -> set[str]:
    """The metrics that an expression is about, as the code calls them."""
    found = set(re.findall(r"authfabric_\w+", expression))
    return {next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name) for name in found}


@pytest.mark.parametrize(
    "expression", [each["expr"] for each in ALERTS] + [p["targets"][0]["expr"] for p in PANELS]
)
def test_alerts_and_panels_are_about_metrics_that_there_are(expression):
    made = metrics()
    for name in named(expression):
        assert name in made
        counted = f"{name}_total" in expression
        assert counted == (made[name] == "counter")
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each["alert"])
def test_every_alert_leads_to_its_place_in_the_runbook(alert):
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), flags=re.M)
    assert anchor in {each.lower().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_with_options_that_it_has_and_is_confined(unit):
    text = unit.read_text()
    (line,) = re.findall(r"^ExecStart=(.+)$", text, flags=re.M)
    program, name, below, *words = shlex.split(line)
    assert program == "/opt/authfabric/bin/authfabric"
    group = Commands(name="authfabric")
    command = group.get_command(Context(group), name).commands[below]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    for confinement in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=\n",
        "UMask=0077",
    ):
        assert confinement in text
