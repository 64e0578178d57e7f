"""Text that cannot be meant, or that no message could carry, is refused where it stands."""

from __future__ import annotations

import pytest

from authz.errors import InvalidSyntax
from pdp.abac.document import Document


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
        ("a: %s" % ("9" * 5000), "t:1:1: a number is too large"),
        ("[" * 100_000, "t:1:1: the text is nested too deep"),
        ("- " * 5000, "t:1:1: is no YAML"),
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
    ],
)
def test_what_only_looks_like_it_is_read(text, value):
    assert Document.parse(text).values == (value,)
