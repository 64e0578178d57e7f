"""The files for deployment fit what they are for: commands have those options, and metrics and pages are there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer import Context
from typer.testing import CliRunner

from authfabric.cli import Commands, app
from tests.docs.test_metrics import metrics

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
PANELS = json.loads((ROOT / "deploy/grafana/authfabric.json").read_text())["panels"]
MANIFESTS = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/authfabric.yaml").read_text()))
COMPOSE = yaml.safe_load((ROOT / "deploy/container/compose.yaml").read_text())
KUBERNETES = "1.33"
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
    for confinement in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=\n",
        "UMask=0077",
    ):
        assert confinement in text
    (line,) = re.findall(r"^ExecStart=(.+)$", text, flags=re.M)
    program, name, below, *words = shlex.split(line)
    if program == "/opt/authfabric/bin/nats-server":
        assert (name, below) == ("-c", "/etc/authfabric/nats.conf")
        return
    assert program == "/opt/authfabric/bin/authfabric"
    group = Commands(name="authfabric")
    command = group.get_command(Context(group), name).commands[below]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_a_manifest_is_what_kubernetes_takes_and_its_pods_are_confined(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    if "template" not in manifest["spec"]:
        return
    pod = manifest["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    for container in (*pod["initContainers"], *pod["containers"]):
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"]
        assert not confined["allowPrivilegeEscalation"]
        assert confined["capabilities"]["drop"] == ["ALL"]


def test_a_manifest_runs_commands_with_options_that_they_have():
    group = Commands(name="authfabric")
    pods = [each["spec"]["template"]["spec"] for each in MANIFESTS if "template" in each["spec"]]
    words = [container["args"] for pod in pods for container in pod["containers"] if "args" in container]
    for name, below, *more in words:
        command = group.get_command(Context(group), name).commands[below]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in more if word.startswith("--")} <= known
    assert len(words) == 2


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_of_the_compose_file_is_confined_and_runs_a_command_with_options_that_it_has(name):
    service = COMPOSE["services"][name]
    assert (service["user"], service["read_only"], service["cap_drop"]) == ("10001:10001", True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    if name.startswith("nats-"):
        assert service["entrypoint"] == ["nats-server", "-c", "/etc/authfabric/nats.conf"]
        return
    group = Commands(name="authfabric")
    first, below, *words = service["command"]
    command = group.get_command(Context(group), first).commands[below]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_compose_file_gives_each_service_what_the_command_before_it_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes = "a=nats-a,b=nats-b,c=nats-c"
    assert f"--nodes {nodes} " in (ROOT / "deploy/container/compose.yaml").read_text()
    words = ["domain", "init", "shop", "--name", "shop", "--nodes", nodes, "--unencrypted"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    for name, service in COMPOSE["services"].items():
        given = [each.split(":") for each in service["volumes"]]
        (config,) = [Path(here) for here, there, *_ in given if there == "/etc/authfabric"]
        assert config.parts[-2] == name.rpartition("-")[2]
        named = [
            *service.get("entrypoint", []),
            *service.get("command", []),
            *service.get("environment", {}).values(),
        ]
        inside = [each for each in named if each.startswith("/etc/authfabric/")]
        assert inside
        for each in inside:
            assert (config / each.removeprefix("/etc/authfabric/")).exists()
        kept = {here for here, *_ in given if not here.startswith("./")}
        assert kept <= set(COMPOSE["volumes"])
        assert bool(kept) == name.startswith("nats-")
    assert 'store_dir: "/var/lib/authfabric/jetstream"' in Path("shop/nodes/a/config/nats.conf").read_text()


def test_the_image_installs_pinned_packages_and_runs_as_nobody_special():
    text = (ROOT / "deploy/container/Containerfile").read_text()
    assert "--constraint /src/constraints.txt" in text
    assert re.findall(r"^USER (.+)$", text, flags=re.M) == ["10001:10001"]
    extras = set(re.findall(r"/src\[(.+)\]", text)[0].split(","))
    assert extras <= set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
