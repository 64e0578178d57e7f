"""Tables of attributes: what a PDP reads in them is what a job reads in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from authz.errors import InvalidSyntax
from authz.predicate import Path
from pdp.attributes.file_provider import FileProvider
from pdp.attributes.provider_reader import read_providers
from pdp.attributes.providers import ProviderFailed
from pdp.attributes.table_store import InvalidTable, read_table

PEOPLE = [
    {"id": "ann", "dept": "sales", "level": 3, "active": True, "roles": ["clerk"]},
    {"id": "bob", "dept": "tax, law", "level": 2.5, "active": False, "roles": []},
    {"id": "eve", "dept": "tax"},
]
CSV = """\
id,dept,level:number,active:boolean,roles:json
ann,sales,3,true,"[""clerk""]"
bob,"tax, law",2.5,false,[]
eve,tax,,,
"""
NAMES = frozenset({"dept", "level", "active", "roles"})


def write(folder, form):
    path = folder / f"people.{form}"
    if form == "csv":
        path.write_text(CSV)
    elif form == "jsonl":
        path.write_text("\n".join(map(json.dumps, PEOPLE)) + "\n\n")
    else:
        pq.write_table(pa.Table.from_pylist(PEOPLE), path)
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_every_form_says_the_same_of_everyone(form, tmp_path):
    found = read_table(write(tmp_path, form), NAMES)
    assert {name: dict(found[name]) for name in found} == {
        each["id"]: {key: value for key, value in each.items() if key != "id"} for each in PEOPLE
    }


def test_a_folder_is_all_its_files(tmp_path):
    for number, person in enumerate(PEOPLE):
        pq.write_table(pa.Table.from_pylist([person]).select(["id", "dept"]), tmp_path / f"{number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    found = read_table(tmp_path, frozenset({"dept"}))
    assert [found[name]["dept"] for name in ("ann", "bob", "eve")] == ["sales", "tax, law", "tax"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id,level:number\nann,high\n", "row 1: no number in `level`: `high`"),
        ("id,level:digits\nann,3\n", "column `level`: `digits` is no type"),
        ("id,level:number\nann,3,4\n", "row 1: a row of another length: `ann,3,4`"),
        ("id,level\nann,3\nann,4\n", "`ann` stands there twice, again as row 2"),
        ("name,level\nann,3\n", "there is no column `id`"),
        ("id,levle\nann,3\n", "column `level`: no row has this attribute"),
        ('id,level\nann,"3\n', "row 2: unexpected end of data"),
    ],
)
def test_a_table_that_a_job_would_refuse_is_refused(text, problem, tmp_path):
    (tmp_path / "people.csv").write_text(text)
    with pytest.raises(InvalidTable) as raised:
        read_table(tmp_path / "people.csv", frozenset({"level"}))
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({"id": ["ann", "ann"], "level": [1, 2]}, "a name stands there twice"),
        ({"id": ["ann", None], "level": [1, 2]}, "a row has no `id`"),
        ({"id": [1], "level": [1]}, "column `id`: names are text, not int64"),
        ({"id": ["ann"], "level": [b"x"]}, "column `level`: its type is binary"),
        ({"id": ["ann"], "level": pa.nulls(1, pa.int64())}, "column `level`: no row has this attribute"),
        ({"id": ["ann"]}, "there is no column `level`"),
    ],
)
def test_parquet_that_a_job_would_refuse_is_refused(rows, problem, tmp_path):
    pq.write_table(pa.table(rows), tmp_path / "people.parquet")
    with pytest.raises(InvalidTable) as raised:
        read_table(tmp_path / "people.parquet", frozenset({"level"}))
    assert problem in str(raised.value)


def test_what_is_no_parquet_is_refused(tmp_path):
    (tmp_path / "people.parquet").write_text("id")
    with pytest.raises(InvalidTable):
        read_table(tmp_path / "people.parquet", frozenset({"level"}))


def test_files_of_several_kinds_are_no_table(tmp_path):
    write(tmp_path, "csv")
    write(tmp_path, "jsonl")
    with pytest.raises(InvalidTable, match="files of one kind"):
        read_table(tmp_path, NAMES)


LEVEL = Path("subject", ("level",))


@pytest.mark.parametrize("form", ["csv", "parquet"])
async def test_a_provider_answers_from_a_table_and_reads_it_anew_when_it_changes(form, tmp_path):
    path = write(tmp_path, form)
    provider = FileProvider(path, frozenset({LEVEL}), lambda: 1000.0, 60.0)
    await provider.load()
    found = await provider.look_up("subject", frozenset({"ann", "eve", "zoe"}))
    assert {name: each.attributes for name, each in found.items()} == {"ann": {"level": 3}, "eve": {}}
    assert not await provider.look_up("object", frozenset({"ann"}))
    if form == "csv":
        path.write_text("id,level:number\nann,high\n")
        os.utime(path, ns=(1, 1))
        with pytest.raises(ProviderFailed, match="no number in `level`"):
            await provider.look_up("subject", frozenset({"ann"}))


def test_a_table_provides_attributes_of_one_kind_of_entities(tmp_path):
    for given in ("subject.a, object.b", "context.alert"):
        with pytest.raises(InvalidSyntax, match="a table holds entities of one kind"):
            read_providers(f"- {{file: people.csv, provides: [{given}]}}", "attributes.yaml", tmp_path)


def test_who_lacks_the_library_for_parquet_is_told_what_brings_it(tmp_path):
    path = write(tmp_path, "parquet")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path; from pdp.attributes.table_store import read_table\n"
        f"read_table(Path({str(path)!r}), frozenset({{'level'}}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'authfabric[spark]'" in done.stderr
