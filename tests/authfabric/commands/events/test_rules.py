"""`authfabric rules fmt` and `check`: what they print, change, and end with."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from pubsub_core.types.event_type import AttributeType, EventType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.kinds import PITO, ids

EXAMPLES = sorted(Path(__file__).parents[4].glob("examples/*.rules"))
T = AttributeType


def rules(*arguments: object):
    return CliRunner().invoke(app, ["rules", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "care.rules"


def test_the_examples_are_laid_out_and_nothing_is_wrong_with_them():
    assert len(EXAMPLES) >= 2
    assert rules("fmt", "--check", *EXAMPLES).exit_code == 0
    result = rules("check", "--strict", *EXAMPLES)
    assert (result.exit_code, result.stdout) == (0, "nothing wrong\n")


def test_fmt_lays_out_in_place_and_with_check_changes_nothing(file):
    file.write_text("# why\nallow replay of t where x=1")
    result = rules("fmt", "--check", "--json", file)
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"ok": False, "changed": [str(file)]})
    assert file.read_text().startswith("# why\nallow")
    assert rules("fmt", file).exit_code == 0
    assert file.read_text() == "# why\nALLOW REPLAY OF t\n    WHERE x = 1\n"
    assert rules("fmt", "--check", file).exit_code == 0


def test_fmt_changes_no_file_if_one_cannot_be_read(file, tmp_path):
    file.write_text("allow replay of t")
    wrong = tmp_path / "wrong.rules"
    wrong.write_text("allow t")
    result = rules("fmt", file, wrong)
    assert result.exit_code == 3
    assert f"{wrong}:1:7" in result.stderr
    assert file.read_text() == "allow replay of t"


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("ALLOW t", "syntax", "expected"),
        ("RESTRICT DELIVERY OF t FILTER x = 1 OVERRIDES no", "syntax", "no rule `no` to override"),
        ("ALLOW REPLAY OF t WHERE treats(x)", "unknown-term", "`treats` is no fluent and no function"),
        ("ALLOW REPLAY OF t WHERE x > later(now(1))", "unknown-term", "`now(1)` does not fit: write `now()`"),
        ("ALLOW REPLAY OF t WHERE busy(x, y)", "unknown-term", "is about 2 things, and the fluent `busy` about 1"),
        ("TRANSFORM EVENT t TO t ON publish EXECUTE melt(x)", "invalid-step", "`melt(x)` is unknown"),
        ("TRANSFORM EVENT t TO t ON publish EXECUTE round(x)", "invalid-step", "write round(attribute, unit)"),
        ("AUTO REPLAY EVENT TYPE t DURING bsy(x) ON u", "unknown-term", "did you mean `busy`?"),
    ],
)  # fmt: skip
def test_check_finds_what_is_wrong_and_where(file, text, kind, part):
    fluent = "FLUENT busy(x) INITIATED BY a(x) TERMINATED BY b(x)\nALLOW SUBSCRIPTION TO t\n"
    file.write_text(fluent + text)
    result = rules("check", "--json", "--function", "later", file)
    assert result.exit_code == 1
    (finding,) = [each for each in json.loads(result.stdout)["findings"] if each["level"] == "error"]
    assert (finding["kind"], finding["file"], finding["line"]) == (kind, str(file), 3)
    assert part in finding["text"]


def test_functions_that_brokers_have_may_be_used(file):
    file.write_text("ALLOW REPLAY OF t WHERE isControlled(drug_id)")
    assert rules("check", file).exit_code == 1
    assert rules("check", "--function", "isControlled", file).exit_code == 0


def test_warnings_count_only_if_asked_to(file):
    file.write_text("RESTRICT DELIVERY OF t FILTER x = 1")
    assert rules("check", file).exit_code == 0
    assert rules("check", "--strict", file).exit_code == 1


@pytest.fixture
def types(tmp_path: Path) -> Path:
    folder = tmp_path / "types"
    folder.mkdir()
    new_id = ids()
    base = EventType.new("base", PITO.public, [("who", T.STRING), ("pulse", T.INTEGER)], new_id)
    child = EventType.new("child", PITO.public, [("place", T.GEO)], new_id, base)
    shown = EventType.new("shown", PITO.public, [("who", T.STRING), ("pulse", T.STRING)], new_id)
    for name, each in {"1": child, "2": base, "3": shown}.items():
        (folder / name).write_bytes(msgspec.json.encode(SignedType.sign(each, PITO)))
    return folder


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ALLOW SUBSCRIPTION TO bass", "no type `bass`: did you mean `base`?"),
        ("ALLOW SUBSCRIPTION TO base WHERE puls > 3", "`puls` is not an attribute of `base`: did you mean `pulse`?"),
        ("ALLOW SUBSCRIPTION TO child WHERE pulse = 'x'", "pulse"),
        ("ALLOW SUBSCRIPTION TO base WHERE known(user, plse)", "`plse` is not an attribute of `base`"),
        ("TRANSFORM EVENT base TO shown ON publish EXECUTE drop(plse)", "a step does not fit `base`"),
        ("TRANSFORM EVENT base TO shown ON publish EXECUTE round(pulse, 5)", "`pulse` becomes of type integer, and"),
        ("TRANSFORM EVENT child TO shown ON publish EXECUTE hash(pulse)", "`place` is left, and `shown` has no such"),
        ("FLUENT f(x) INITIATED BY base(who) TERMINATED BY base(whom)", "`whom` is not an attribute of `base`"),
    ],
)  # fmt: skip
def test_check_holds_rules_against_types(file, types, text, part):
    file.write_text(text)
    result = rules("check", "--json", "--function", "known", "--types", types, file)
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)["findings"]
    assert part in finding["text"]
    assert rules("check", "--function", "known", file).exit_code == 0


def test_rules_that_fit_their_types_are_well(file, types):
    file.write_text(
        "ALLOW SUBSCRIPTION TO child WHERE pulse > 3 AND place.lat > 50\n"
        "TRANSFORM EVENT child TO shown ON notify EXECUTE drop(place) THEN bucket(pulse, 'low', 50, 'high')\n"
    )
    result = rules("check", "--strict", "--types", types, file)
    assert (result.exit_code, result.stdout) == (0, "nothing wrong\n")


def test_a_folder_stands_for_the_rules_in_it_and_its_roles(tmp_path):
    inside = tmp_path / "bundle" / "more"
    inside.mkdir(parents=True)
    refused = rules("check", tmp_path / "bundle")
    assert (refused.exit_code, "holds no rules" in refused.stderr) == (3, True)
    (inside / "care.rules").write_text("a: ALLOW SUBSCRIPTION TO t\n    WHERE credentials(user, doctor)\n")
    (tmp_path / "bundle" / "other.rules").write_text("b: ALLOW REPLAY OF t WHERE user.x = 1\n")
    (tmp_path / "bundle" / "ward.oasis").write_text("role consultant\nrole doctor\nconsultant > doctor\n")
    (tmp_path / "bundle" / "open.yaml").write_text("[]\n")
    assert rules("check", tmp_path / "bundle").exit_code == 0
    changed = json.loads(rules("fmt", "--check", "--json", tmp_path / "bundle").stdout)
    assert changed["changed"] == [str(tmp_path / "bundle" / "other.rules")]
    asked = ("explain", tmp_path / "bundle", "--subject", "ann", "--type", "t", "--role")
    assert rules(*asked, "consultant").exit_code == 0
    assert rules(*asked, "porter").exit_code == 1


def test_among_types_other_files_may_stand_but_no_broken_definitions(file, types):
    file.write_text("ALLOW SUBSCRIPTION TO base\n")
    (types / "notes.txt").write_text("not a type")
    (types / "sub").mkdir()
    (types / "sub" / "key").write_bytes(b"\xff\xfe")
    assert rules("check", file, "--types", types).exit_code == 0
    (types / "broken.type").write_text("{}")
    broken = rules("check", file, "--types", types)
    assert (broken.exit_code, "is not a signed type" in broken.stderr) == (3, True)
    empty = types / "sub"
    nothing = rules("check", file, "--types", empty)
    assert (nothing.exit_code, "holds no definition of a type" in nothing.stderr) == (3, True)
