"""First contact: what `init` writes works, the schema says what the reader does, and `policy watch` sees each save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from authfabric.commands.begin.init import Framework, init, installed_from, next_steps
from authfabric.files import DEFAULT_POLICIES
from authz.errors import InvalidSyntax
from pdp.abac import policy_schema, read_policies
from pdp.bundle import PolicySet, read_cases, read_folder
from pdp.lint import check, run_cases
from pdp.lint import read_cases as parse_cases

ROOT = Path(__file__).parents[3]


def authfabric(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "authfabric", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("framework", ["fastapi", "flask", "django", "grpc", "faststream", "fastmcp"])
def test_what_init_writes_passes_its_own_tests(tmp_path: Path, framework: str):
    pytest.importorskip(framework)
    folder = tmp_path / "service"
    init(folder, Framework(framework))
    bundle = read_folder(folder / "policies")
    assert check(bundle) == []
    report = run_cases(PolicySet.read(bundle), parse_cases(read_cases(folder / "policies")))
    assert (report.failures, report.coverage) == ((), 1.0)
    assert len(report.outcomes) >= 4
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{folder}"}
    plugin = ["-p", "authfabric.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


FORGOTTEN = {
    "fastapi": """
@app.delete("/notes/{id}")
def forgotten(id: str): return {}
@app.post("/notes")
def checked_first(note: dict): return {}
""",
    "flask": """
@app.delete("/notes/<id>")
def forgotten(id): return {}
@app.post("/notes")
def checked_first(): abort(422)
""",
    "django": """
from django.views import View
class Forgotten(View):
    def get(self, request, id): return read(request, id)
    def delete(self, request, id): return JsonResponse({})
class CheckedFirst(View):
    def post(self, request): return JsonResponse({}, status=422)
urlpatterns = [path("notes/<str:id>", Forgotten.as_view()), path("notes", CheckedFirst.as_view())]
""",
}
"""Routes that somebody adds to a service, without a guard: one whose path has another that is guarded, and one that
looks at what is sent before anything else."""


@pytest.mark.parametrize("framework", FORGOTTEN)
def test_a_forgotten_route_fails_the_tests_that_init_writes(tmp_path: Path, framework: str):
    pytest.importorskip(framework)
    init(tmp_path, Framework(framework))
    service = tmp_path / "service.py"
    before, main, after = service.read_text().partition("\nif __name__")
    service.write_text(before + FORGOTTEN[framework] + main + after)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    plugin = ["-p", "authfabric.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-k", "every_route", *plugin]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "nobody protects: DELETE /notes/1" in ran.stdout, ran.stdout
    assert "call with what they take: POST /notes (422)" in ran.stdout, ran.stdout


def test_a_misspelt_attribute_is_found_in_what_init_writes(tmp_path: Path):
    authfabric("init", str(tmp_path), "--framework", "fastapi")
    file = tmp_path / "policies" / "notes.yaml"
    file.write_text(file.read_text().replace("$.owner", "$.onwer"))
    done = authfabric("policy", "check", str(tmp_path / "policies"))
    assert (done.returncode, "did you mean `owner`?" in done.stdout) == (1, True)


def test_the_next_steps_leave_out_what_was_done():
    watch = "authfabric policy watch policies    checks and tests them on save"
    new = next_steps(Path("notes"), Framework.GRPC, lambda module: module != "sqlalchemy")
    assert new[:3] == ["cd notes", f"pip install '{ROOT}[grpc,test,lists]'", "pytest"]
    assert (len(new), new[-1]) == (5, watch)
    assert next_steps(Path(), Framework.GRPC, lambda module: True)[0] == "pytest"
    assert next_steps(Path(), Framework.NONE, lambda module: False) == [watch]


def test_the_line_for_pip_names_the_clone_that_was_installed(tmp_path: Path):
    clone = tmp_path / "a clone"
    noted = json.dumps({"dir_info": {}, "url": clone.as_uri()})
    assert installed_from(noted) is None  # it is gone
    clone.mkdir()
    assert installed_from(noted) == str(clone)
    assert installed_from('{"url": "https://example.org/authfabric.tar.gz"}') is None
    assert installed_from(None) is None


def test_policy_watch_says_an_error_once(tmp_path: Path):
    authfabric("init", str(tmp_path), "--framework", "none")
    file = tmp_path / "policies" / "notes.yaml"
    file.write_text(file.read_text().replace("effect: allow", "effect: maybe", 1))
    done = authfabric("policy", "watch", str(file.parent), "--once")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("maybe") == 1


def test_init_overwrites_nothing(tmp_path: Path):
    mine = tmp_path / "policies" / "notes.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = authfabric("init", str(tmp_path), "--framework", "none")
    assert done.returncode != 0
    assert "there already" in done.stderr
    assert mine.read_text() == "mine"
    assert list(tmp_path.rglob("*.yaml")) == [mine]


def test_the_published_schema_is_the_one_that_the_command_prints():
    printed = authfabric("policy", "schema").stdout
    assert json.loads(printed) == policy_schema()
    assert (ROOT / "docs" / "policy.schema.json").read_text() == printed


GOOD = yaml.safe_load((DEFAULT_POLICIES / "example.yaml").read_text())


@pytest.mark.parametrize(
    "change",
    [
        {"effect": "maybe"},
        {"uid": 7},
        {"nonsense": 1},
        {"targets": {"subject": "ann"}},
        {"rules": {"subject": {"$.a": {"condition": "Equal", "value": 1}}}},
        {"rules": {"subject": {"$.a": {"condition": "Equals"}}}},
        {"rules": {"subject": {"$.a": {"condition": "IsIn", "values": 3}}}},
        {"priority": -1},
    ],
)
def test_the_schema_refuses_what_the_reader_does(change: dict):
    validator = jsonschema.Draft202012Validator(policy_schema())
    validator.validate(GOOD)
    bad = {**GOOD[0], **change}
    assert not validator.is_valid(bad)
    with pytest.raises(InvalidSyntax):
        read_policies(json.dumps(bad))


def test_policy_watch_checks_and_tests_on_each_save(tmp_path: Path):
    authfabric("init", str(tmp_path), "--framework", "none")
    policies = tmp_path / "policies"
    assert authfabric("policy", "watch", str(policies), "--once").returncode == 0
    command = [sys.executable, "-u", "-m", "authfabric", "policy", "watch", str(policies)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert read_until(watching, "4 of 4 cases passed")
            file = policies / "notes.yaml"
            good = file.read_text()
            file.write_text(good.replace("value: editor", "value: author"))
            assert read_until(watching, "3 of 4 cases passed")
            file.write_text(good.replace("effect: allow", "effect: maybe", 1))
            assert read_until(watching, "maybe")
            file.write_text(good)
            assert read_until(watching, "4 of 4 cases passed")
        finally:
            watching.kill()
    assert authfabric("policy", "watch", str(tmp_path / "nowhere")).returncode != 0


def read_until(watching: subprocess.Popen[str], words: str) -> bool:
    """Whether it says so; what it says ends only with the process."""
    return any(words in line for line in watching.stdout)
