"""A widened predicate is true at least wherever the whole one is, and looks at nothing that is hidden."""

from __future__ import annotations

from hypothesis import given

from authz.predicate import FALSE, TRUE, Equal, Not, Or, Path, Relate, compile_predicate
from authz.predicate.widening import attributes, widen
from tests.authz.predicates import predicates, requests

ROLE = Path("subject", ("role",))


def test_comparisons_of_hidden_attributes_are_left_out_on_the_wide_side():
    hidden = attributes([ROLE])
    tests = (Equal(ROLE, "x"), Relate(Path("object", ("owner",)), "==", Path("subject", ("role", "of"))))
    for test in tests:
        assert widen(test, hidden) == TRUE
        assert widen(Not(test), hidden) == Not(FALSE)
        assert widen(Or((Not(Not(test)),)), hidden) == Or((Not(Not(TRUE)),))
    other = Equal(Path("subject", ("roles",)), "x")
    assert widen(other, hidden) == other


@given(predicates, requests)
def test_whatever_satisfies_a_predicate_satisfies_the_wider_one(predicate, request):
    wide = widen(predicate, lambda path: path.root in ("subject", "context"))
    if compile_predicate(predicate)(request):
        assert compile_predicate(wide)(request)
