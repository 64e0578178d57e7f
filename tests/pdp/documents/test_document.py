"""Text that cannot be meant, or that no message could carry, is refused where it stands."""

from __future__ import annotations

from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.errors import InvalidSyntax
from pdp.bundle import File, InvalidPolicies
from pdp.bundle.manifest import Manifest
from pdp.documents import document
from pdp.documents.document import Document
from pdp.lint import read_cases


def test_a_manifest_is_told_the_line_and_what_there_is():
    text = "name: x\nattributes:\n  subject:\n    role: strng\n  objct: {}\nalgoritm: x\n"
    with pytest.raises(InvalidSyntax) as caught:
        Manifest.parse(text, "bundle.yaml")
    assert [str(each) for each in (caught.value, *caught.value.others)] == [
        "bundle.yaml:4:5: `strng` is none of `string`, `number`, `boolean`, `list`, `object`, `any`",
        "bundle.yaml:5:3: `objct` is none of `subject`, `object`, `action`, `context`",
        "bundle.yaml:6:1: there is no field `algoritm` here: did you mean `algorithm`?",
    ]


def test_a_case_is_told_the_field_it_means():
    with pytest.raises(InvalidPolicies, match="1:44: there is no field `expct` here: did you mean `expect`"):
        read_cases([File("cases.yaml", "- {subject: ann, object: /x, action: read, expct: allow}")])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": ["x", "\\ud800"]}', "t:1:13: half a character"),
        ('{"\\udfff": 1}', "t:1:2: half a character"),
        ('a: "\\ud800"', "t:1:1: half a character"),
        ('{"a": %s}' % ("9" * 19), "t:1:2: the number is too large"),
        ("a: -%s" % ("9" * 30), "t:1:1: the number is too large"),
        ('{"a": 1e400}', "t:1:2: the number is too large"),
        ("a: 1e+999", "t:1:1: the number is too large"),
        ('{"a": %s}' % ("9" * 5000), "t:1:1: a number is too large"),
        ("a: %s" % ("9" * 5000), "t:1:4: the number is too large"),
        ("[" * 100_000, "t:1:1: the text is nested too deep"),
        ("- " * 500_000, "t:1:401: the text is nested too deep"),
        ("{a: " * 500_000, "t:1:2: expecting property name"),
        ("a: " + "[" * 500_000, "t:1:203: the text is nested too deep"),
        ("a: !!python/name:os.system x", "t:1:4: values of the kind `python/name:os.system` are not read"),
        ("a: !!set {x}", "t:1:4: values of the kind `set` are not read"),
        ("a: !!int x", "t:1:4: this is no int"),
        ("? [a]\n: 1", "t:1:3: a name must be a string"),
        ("1: a", "t:1:1: a name must be a string"),
        ("a: &x [1]\nb: *x", "t:2:4: aliases are not read"),
        ('{"a": NaN}', "t:1:1: `NaN` is no number"),
        ("a: 1\na: 2", "t:2:1: `a` is given twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(text, problem):
    with pytest.raises(InvalidSyntax) as refused:
        Document.parse(text, "t")
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ('{"a": "12345678901234567890"}', {"a": "12345678901234567890"}),
        (f'{{"a": {2**63 - 1}, "b": {-(2**63)}}}', {"a": 2**63 - 1, "b": -(2**63)}),
        ("a: 1e300", {"a": 1e300}),
        ("\ufeffa: 1", {"a": 1}),
        (
            "a: no\nb: 12:30\nc: 0o7\nd: ~\ne:\nf: !!str 5",
            {"a": "no", "b": "12:30", "c": "0o7", "d": None, "e": None, "f": "5"},
        ),
        ("a: [1, -2.5, 1e3, true, {b: []}]", {"a": [1, -2.5, 1000.0, True, {"b": []}]}),
    ],
)
def test_what_only_looks_like_it_is_read(text, value):
    assert Document.parse(text).values == (value,)


TEXTS = st.lists(
    st.sampled_from(["a", "b: ", "- ", "\n", "  ", *"{}[],:'\"1|>#?", "!!str ", "---\n", "~", "true", "é"]),
    max_size=12,
)


@settings(max_examples=100)
@given(TEXTS.map("".join))
def test_both_readers_of_yaml_understand_the_same(text):
    found = []
    for loader in (document._LOADER, yaml.SafeLoader):
        with suppress(yaml.YAMLError):
            found.append(tuple(document._values(yaml.parse(text, loader))))
    assert len(found) < 2 or found[0] == found[1]


def test_brackets_at_the_beginning_of_a_yaml_file_are_yaml_too():
    text = "{uid: a, values: [x, 1]}"
    assert Document.parse(text, "p.yaml").values == ({"uid": "a", "values": ["x", 1]},)
    with pytest.raises(InvalidSyntax, match=r"p.json:1:2: .*double quotes"):
        Document.parse(text, "p.json")
    with pytest.raises(InvalidSyntax, match=r"p.yaml:1:"):
        Document.parse("{uid: a", "p.yaml")
