import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Request
from authz.change import Granted, PolicyChange, Relabelled, Touched
from authz.predicate import And, Equal, Path, Prefix, Regex, compile_predicate
from sdp_cache.validity.change_log import ChangeLog, pin
from tests.authz.predicates import predicates, requests

ASKED = Request.of("s", "/o", "read")


def touching(epoch, *wheres):
    return PolicyChange(epoch, epoch - 1, tuple(map(Touched, wheres)))


@given(st.lists(predicates, max_size=8), requests, st.integers(0, 8))
def test_a_request_is_touched_exactly_if_it_lies_in_an_effect_since(wheres, request, since):
    log = ChangeLog()
    for number, where in enumerate(wheres, start=1):
        assert log.apply(touching(number, where))
    expected = any(compile_predicate(where)(request) for where in wheres[since:])
    assert log.touched(request, since) is expected


@given(predicates, requests)
def test_a_pin_never_hides_a_request_that_the_predicate_holds_of(where, request):
    pinned = pin(where)
    if pinned is not None and compile_predicate(where)(request):
        assert getattr(request, pinned[0]).id == pinned[1]


def test_a_conjunction_is_pinned_by_its_subject_before_its_object():
    about = And((Equal(Path("object"), "/o"), Equal(Path("subject"), "s")))
    assert pin(about) == ("subject", "s")
    assert pin(Equal(Path("object"), "/o")) == ("object", "/o")
    assert pin(Prefix(Path("object"), "/o")) is None
    assert pin(Equal(Path("object"), "/o", fold=True)) is None


def test_effects_of_kinds_that_are_set_aside_do_not_count():
    log = ChangeLog()
    log.apply(PolicyChange(1, 0, (Granted("r", "/o", "read"), Relabelled("subject", "s"))))
    assert log.touched(ASKED, 0, besides=(Granted,))
    assert not log.touched(ASKED, 0, besides=(Granted, Relabelled))


@pytest.mark.parametrize(
    "change",
    [
        PolicyChange(2, 1, whole=True),
        PolicyChange(3, 2),
        PolicyChange(1, 1),
        PolicyChange(0, 1),
        PolicyChange(2, 1, tuple(Relabelled("subject", str(n)) for n in range(5))),
        PolicyChange(2, 1, (Touched(Regex(Path("object"), "(")),)),
    ],
    ids=["whole", "gap", "same epoch", "backwards", "too much", "untestable"],
)
def test_a_step_of_which_not_everything_is_known_makes_the_past_worthless(change):
    log = ChangeLog(1, limit=4)
    assert not log.apply(change)
    assert log.epoch == change.epoch
    assert log.touched(ASKED, change.epoch - 1)
    assert not log.touched(ASKED, change.epoch)


def test_what_is_older_than_the_log_remembers_counts_as_touched():
    log = ChangeLog(limit=3)
    for epoch in range(1, 6):
        log.apply(touching(epoch, Equal(Path("subject"), f"other{epoch}")))
    assert log.touched(ASKED, 1)
    assert not log.touched(ASKED, 2)
    assert [effect.where.value for effect, _ in log.since(2)] == ["other3", "other4", "other5"]
