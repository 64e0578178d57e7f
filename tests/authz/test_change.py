import msgspec
import pytest
from hypothesis import given

from authz import Entity, Request
from authz.change import (
    Granted,
    PolicyChange,
    Relabelled,
    RelabelledBelow,
    Revoked,
    Touched,
    compile_reach,
)
from authz.predicate import Equal, Not, Path, Prefix, compile_predicate
from tests.authz.predicates import predicates, requests


def request(roles, object_="/x", action="read", subject="s"):
    return Request.of(Entity(subject, {"roles": roles}), object_, action)


@pytest.mark.parametrize("kind", [Granted, Revoked])
def test_an_assignment_touches_those_who_hold_the_role_or_a_senior_on_that_permission_only(kind):
    holds = compile_predicate(kind("junior", "/x", "read", ("junior", "senior")).where)
    assert holds(request(["junior"]))
    assert holds(request(["other", "senior"]))
    assert not holds(request(["other"]))
    assert not holds(request(["junior"], object_="/y"))
    assert not holds(request(["junior"], action="write"))


def test_an_assignment_that_names_no_holders_touches_everyone_on_that_permission():
    holds = compile_predicate(Granted("junior", "/x", "read").where)
    assert holds(request([]))
    assert holds(Request.of("s", "/x", "read"))
    assert not holds(Request.of("s", "/x", "write"))


def test_a_relabelled_object_touches_requests_about_it_and_not_about_a_subject_of_that_name():
    holds = compile_predicate(Relabelled("object", "n").where)
    assert holds(request([], object_="n"))
    assert not holds(request([], subject="n"))


def test_a_relabelled_prefix_touches_requests_about_whatever_starts_so():
    holds = compile_predicate(RelabelledBelow("object", "/n/").where)
    assert holds(request([], object_="/n/x"))
    assert not holds(request([], object_="/n"))
    assert not holds(request([], subject="/n/x"))


def test_a_change_survives_the_wire():
    change = PolicyChange(
        7,
        6,
        (
            Touched(Prefix(Path("object"), "/a/")),
            Granted("r", "/x", "read", ("r",)),
            Revoked("r", "/x", "read"),
            Relabelled("subject", "s"),
            RelabelledBelow("object", "/n/"),
        ),
        juniors={"a": ("b",)},
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(change), type=PolicyChange) == change


def test_the_reach_of_changes_leaves_out_what_depends_on_who_asks():
    permission = PolicyChange(2, 1, (Granted("r", "/x", "read", ("r",)),))
    reaches = compile_reach([permission])
    assert reaches(Entity("/x"), "read")
    assert not reaches(Entity("/x"), "write")
    assert not reaches(Entity("/y"), "read")
    someone = Touched(Not(Equal(Path("subject"), "s")))
    assert compile_reach([permission, PolicyChange(3, 2, (someone,))])(Entity("/y"), "read")
    assert compile_reach([PolicyChange(2, 1, whole=True)])(Entity("/y"), "read")
    assert not compile_reach([PolicyChange(2, 1)])(Entity("/x"), "read")


@given(predicates, requests)
def test_whatever_a_change_touches_lies_within_its_reach(predicate, request):
    if compile_predicate(predicate)(request):
        reaches = compile_reach([PolicyChange(2, 1, (Touched(predicate),))])
        bare = Request(request.subject, request.object, Entity(request.action.id), request.context)
        if compile_predicate(predicate)(bare):
            assert reaches(request.object, request.action.id)
