"""Entities from files and tables: the same masks from every form, and clear errors for what cannot be used."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from authz import Entity
from authz.decision import Effect
from authz.predicate import And, Equal, Order, Overlaps, Path, Relate
from pdp.abac.policy import Policy
from spark_eval.entities.gathering import InvalidEntities
from spark_eval.entities.mask_tasks import MaskWork
from spark_eval.entities.store import BundledEntities, StoredEntities
from spark_eval.plans.plan import Rules, make_plan
from spark_eval.plans.split import Part

LEVEL, ROLES, DEPT = (Path("subject", (name,)) for name in ("level", "roles", "dept"))
PLAN = make_plan(
    [
        Rules(
            (
                Policy("high", Effect.ALLOW, And((Order(LEVEL, ">=", 3), Equal(Path("action"), "read")))),
                Policy("clerks", Effect.ALLOW, Overlaps(ROLES, ("clerk",))),
                Policy("same", Effect.ALLOW, Relate(DEPT, "==", Path("object", ("dept",)))),
            )
        )
    ]
)
PEOPLE = [
    {"id": "eve", "level": 1, "dept": "x"},
    {"id": "ann", "level": 3, "roles": ["clerk", "chief"], "dept": "y"},
    {"id": "bob", "roles": []},
]
CSV = 'id,level:number,roles:json,dept\neve,1,,x\nann,3,"[""clerk"", ""chief""]",y\nbob,,[],\n'


def stored(spark, source):
    return StoredEntities(str(source), lambda: spark)


def masks(entities, may_lack=()):
    return entities.masks(MaskWork(PLAN, Part.SUBJECT), may_lack)


def check(found):
    assert found.names == ["ann", "bob", "eve"]
    assert found.side.masks.tolist() == [[7], [4], [4]]
    (keys,) = found.side.keys
    assert [keys.values[code] for code in keys.codes] == [("y",), (None,), ("x",)]


@pytest.fixture
def files(tmp_path):
    pa.parquet.write_table(
        pa.Table.from_pylist(sorted(PEOPLE, key=len, reverse=True)), tmp_path / "people.parquet"
    )
    (tmp_path / "people.jsonl").write_text("\n".join(map(json.dumps, PEOPLE)) + "\n\n")
    (tmp_path / "people.csv").write_text(CSV)
    return tmp_path


@pytest.mark.parametrize("name", ["people.parquet", "people.jsonl", "people.csv"])
def test_every_form_gives_the_same_masks(spark, files, name):
    entities = stored(spark, files / name)
    check(masks(entities))
    assert entities.roles() == {"clerk", "chief"}


def test_entities_that_the_policies_bring_along_need_no_spark():
    entities = BundledEntities("here", [Entity(each["id"], each) for each in PEOPLE])
    check(masks(entities))
    assert entities.roles() == {"clerk", "chief"}
    assert entities.fingerprint() != BundledEntities("here", entities.entities[1:]).fingerprint()


def test_a_table_of_the_catalog_will_do(spark, files):
    spark.read.parquet(str(files / "people.parquet")).createOrReplaceTempView("people")
    check(masks(stored(spark, "people")))
    assert stored(spark, "people").fingerprint() == ""


def test_a_folder_of_files_is_read_whole(spark, tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    for number, person in enumerate(PEOPLE):
        (folder / f"{number}.jsonl").write_text(json.dumps(person))
    entities = stored(spark, folder)
    check(masks(entities))
    before = entities.fingerprint()
    (folder / "4.jsonl").write_text("")
    assert entities.fingerprint() != before


def test_values_of_several_types_in_one_json_file_stay_what_they_are(spark, tmp_path):
    people = [
        {"id": "a", "level": 3},
        {"id": "b", "level": "3"},
        {"id": "c", "level": [3], "roles": 1, "dept": 1},
    ]
    (tmp_path / "people.json").write_text("\n".join(map(json.dumps, people)))
    found = masks(stored(spark, tmp_path / "people.json"), ["subject.level"])
    assert (found.side.masks[:, 0] & 1).tolist() == [1, 0, 0]


def test_objects_have_a_mask_for_each_action(spark, tmp_path):
    (tmp_path / "things.csv").write_text("id,dept\n/b,x\n/a,y\n")
    work = MaskWork(PLAN, Part.PERMISSION, actions=[Entity("read"), Entity("write")])
    found = stored(spark, tmp_path / "things.csv").masks(work)
    assert found.names == ["/a", "/b"]
    assert found.side.masks.tolist() == [[7], [6], [7], [6]]


def test_values_are_of_the_types_that_the_manifest_gives(spark, files):
    for kind, column, heading in (("string", "level", "level:string"), ("number", "dept", "dept:number")):
        work = MaskWork(PLAN, Part.SUBJECT, types={Path("subject", (column,)): kind})
        expected = (
            f"column `{column}`: some values are no {kind}, which `subject.{column}` is in bundle.yaml;"
        )
        with pytest.raises(InvalidEntities, match=re.escape(expected)) as error:
            stored(spark, files / "people.csv").masks(work)
        assert f"in CSV its heading would be `{heading}` (3 rows read)" in str(error.value)
    fitting = MaskWork(PLAN, Part.SUBJECT, types={LEVEL: "number", ROLES: "list", DEPT: "string"})
    check(stored(spark, files / "people.csv").masks(fitting))


HEAD = "id,level:number,roles:json,dept"
BAD = [
    (
        "p.jsonl",
        '{"id": "a"}\nnot json\n[1]\n{"id": 7}\n',
        "p.jsonl`: 3 rows cannot be read, such as no JSON: `not json` (4 rows read)",
    ),
    (
        "p.jsonl",
        '{"id": "a", "level": 3, "dept": 1}\n',
        "p.jsonl`, column `roles`: no row has this attribute, which the policy `clerks` looks at (1 row read)",
    ),
    (
        "p.csv",
        "id,level,roles:json,dept\nann,3,[],x\n",
        "p.csv`, column `level`: some values are text, and the policy `high` compares it with a number; in CSV its"
        " heading would be `level:number` (1 row read)",
    ),
    (
        "p.jsonl",
        '{"id": "a", "level": 3, "dept": 1, "roles": "clerk"}\n',
        "p.jsonl`, column `roles`: some values are text, and the policy `clerks` compares it with a list; in CSV its"
        " heading would be `roles:json` (1 row read)",
    ),
    ("p.csv", "", "p.csv`: there is nobody and nothing in it (0 rows read)"),
    ("p.jsonl", "", "p.jsonl`: there is nobody and nothing in it (0 rows read)"),
    (
        "p.csv",
        "name,level:number\nann,3\n",
        "p.csv`, column `id`: there is no such column among `name`, `level` (1 row read)",
    ),
    (
        "p.csv",
        f"{HEAD}\nann,high,[],x\n",
        "p.csv`: 1 row cannot be read, such as no number in `level`: `high` (1 row read)",
    ),
    (
        "p.csv",
        f"{HEAD}\nann,3\neve,1,[],x\n",
        "p.csv`: 1 row cannot be read, such as a row of another length: `ann,3` (2 rows read)",
    ),
    (
        "p.csv",
        "id,level:int\nann,3\n",
        "column `level`: `int` is no type: write one of string, number, boolean, json",
    ),
    (
        "p.csv",
        CSV + "ann,2,[],z\nbob,2,[],z\n",
        "p.csv`, column `id`: 2 names stand there twice, such as `ann` (5 rows read)",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_what_cannot_be_used_is_refused_by_name(spark, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidEntities, match=re.escape(message)):
        masks(stored(spark, tmp_path / name))


def test_an_attribute_that_may_be_missing_is_not_missed(spark, tmp_path):
    (tmp_path / "people.jsonl").write_text('{"id": "a", "level": 3, "dept": 1}')
    assert masks(stored(spark, tmp_path / "people.jsonl"), ["subject.roles"]).names == ["a"]


def test_a_file_that_is_not_there_or_not_what_its_name_says_is_refused(spark, tmp_path):
    with pytest.raises(InvalidEntities, match=r"x.csv`: there is no such file"):
        masks(stored(spark, tmp_path / "x.csv"))
    with pytest.raises(InvalidEntities, match="`nothing`: no such table, and no file"):
        masks(stored(spark, "nothing"))
    (tmp_path / "x.parquet").write_text("no parquet at all")
    with pytest.raises(InvalidEntities, match=r"x.parquet`: that is no Parquet file \(0 rows"):
        masks(stored(spark, tmp_path / "x.parquet"))
    (tmp_path / "x.parquet").write_text("PAR1 and no more")
    with pytest.raises(InvalidEntities, match=r"x.parquet`: that is the beginning of a Parquet file"):
        masks(stored(spark, tmp_path / "x.parquet"))
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "x.parquet").write_text("PAR1 and no more")
    with pytest.raises(
        InvalidEntities, match=r"several`: FAILED_READ_FILE.*: Encountered error while reading file"
    ):
        masks(stored(spark, tmp_path / "several"))


def test_columns_of_a_wrong_type_are_refused(spark, tmp_path):
    born = pa.table({"id": ["a"], "level": pa.array([0], pa.timestamp("us"))})
    pa.parquet.write_table(born, tmp_path / "a.parquet")
    with pytest.raises(
        InvalidEntities, match=r"a.parquet`, column `level`: its type is timestamp.* \(1 row read\)"
    ):
        masks(stored(spark, tmp_path / "a.parquet"))
    pa.parquet.write_table(pa.table({"id": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidEntities, match=r"column `id`: names are text, not bigint \(2 rows read\)"):
        masks(stored(spark, tmp_path / "b.parquet"))
    pa.parquet.write_table(pa.table({"id": ["a", None, ""]}), tmp_path / "c.parquet")
    with pytest.raises(InvalidEntities, match=r"2 rows cannot be read, such as a row without `id` \(3 rows"):
        masks(stored(spark, tmp_path / "c.parquet"))
