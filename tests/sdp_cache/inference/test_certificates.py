import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authz import Decision, Entity, Request
from authz.change import PolicyChange, Touched
from authz.predicate import Equal, Exists, Glob, In, Literal, Overlaps, Path, Prefix, Regex, compile_predicate
from sdp_cache.inference.certificate_index import MAX_PLACES, Shape, file
from sdp_cache.inference.certificates import MAX_BYTES, MAX_SHAPES, MAX_TOGETHER, CertificateCache
from sdp_cache.validity.change_log import ChangeLog
from tests.authz.predicates import literals, requests

OBJECT, ACTION, ROLES = Path("object"), Path("action"), Path("subject", ("roles",))


def holds(certificate, request):
    return all(compile_predicate(literal.predicate)(request) for literal in certificate)


def certified(*comparisons, **fields):
    certificate = tuple(each if isinstance(each, Literal) else Literal(each) for each in comparisons)
    return Decision(True, certificate=certificate, **fields)


def asking(roles=(), object_="/a/b", action="read", subject="s"):
    return Request.of(Entity(subject, {"roles": list(roles)}), object_, action)


def cached(*learned, size=1000):
    log = ChangeLog()
    cache = CertificateCache(log, size)
    for number, (request, decision) in enumerate(learned):
        cache.learn(request, decision, str(number))
    return log, cache


@given(st.lists(literals, max_size=4), requests, st.lists(requests, min_size=1, max_size=10))
def test_a_certificate_answers_exactly_the_requests_it_holds_of(facts, learned, asked):
    certificate = tuple(fact for fact in facts if holds([fact], learned))
    _, cache = cached((learned, Decision(True, certificate=certificate)))
    for request in [*asked, learned]:
        assert (cache.infer(request, 0.0) is not None) is holds(certificate, request)


@given(st.lists(literals, max_size=5), requests)
def test_having_a_place_is_the_same_as_satisfying_what_was_filed(facts, request):
    filing = file(tuple(facts))
    shape = Shape(0, filing.parts)
    wanted = {shape.place(place) for place in filing.places}
    found = not wanted.isdisjoint(shape.places(request))
    assert (found and holds(filing.rest, request)) is holds(facts, request)
    assert len(filing.places) <= MAX_PLACES


def test_what_can_be_looked_up_is_not_tested_again():
    filing = file(
        tuple(
            map(
                Literal,
                [
                    Equal(ACTION, "read"),
                    Prefix(OBJECT, "/a"),
                    Overlaps(ROLES, ("r", "q")),
                    In(OBJECT, ("x",)),
                ],
            )
        )
    )
    assert filing.rest == ()
    assert len(filing.places) == 2


def test_a_choice_too_wide_to_be_filed_is_tested():
    wide = Literal(In(OBJECT, tuple(f"/{n}" for n in range(MAX_PLACES + 1))))
    assert file((wide,)).rest == (wide,)
    both = (Literal(In(OBJECT, tuple("abcdef"))), Literal(In(ACTION, tuple("uvwxyz"))))
    assert file(both).rest == both[1:]


def test_what_is_asked_twice_of_a_path_is_filed_once_and_tested_once():
    one, other = Literal(In(OBJECT, ("/a", "/b"))), Literal(In(OBJECT, ("/b", "/c")))
    assert file((one, other)).rest == (other,)
    _, cache = cached((asking(object_="/b"), certified(one, other)))
    assert [cache.infer(asking(object_=name), 0.0) is not None for name in ("/a", "/b", "/c")] == [
        False,
        True,
        False,
    ]


def test_of_two_lists_one_is_looked_under_and_the_other_tested():
    roles, groups = Overlaps(ROLES, ("r",)), Overlaps(Path("context", ("groups",)), ("g",))
    with_both = Request.of(Entity("s", {"roles": ["r"]}), "/o", "read", {"groups": ["f", "g"]})
    _, cache = cached((with_both, certified(roles, groups)))
    assert cache.infer(with_both, 0.0) is not None
    assert cache.infer(asking(["r"]), 0.0) is None


def test_a_pattern_is_filed_under_its_beginning_and_tested():
    assert file((Literal(Glob(OBJECT, "/a/*/c")),)).places == (("/a/",),)
    _, cache = cached((asking(object_="/a/b/c"), certified(Glob(OBJECT, "/a/*/c"))))
    assert cache.infer(asking(object_="/a/x/c"), 0.0) is not None
    assert cache.infer(asking(object_="/a/x/d"), 0.0) is None


def test_an_answer_serves_other_subjects_with_the_same_facts_and_says_whence():
    _, cache = cached(
        (asking(["doctor", "x"]), certified(Overlaps(ROLES, ("doctor",)), Prefix(OBJECT, "/a/")))
    )
    found = cache.infer(asking(["doctor"], "/a/z", subject="other"), 0.0)
    assert found.allowed
    assert (found.inferred.method, found.inferred.answers) == ("certificate", ("0",))
    assert cache.infer(asking(["nurse"], "/a/z"), 0.0) is None
    assert cache.infer(asking(["doctor"], "/b"), 0.0) is None


def test_a_certificate_that_does_not_hold_of_its_own_request_is_not_believed():
    looked_up, tested = Equal(OBJECT, "/other"), Literal(Equal(OBJECT, "/a/b"), holds=False)
    for fact in (looked_up, tested):
        _, cache = cached((asking(), certified(fact)))
        assert cache.infer(asking(object_="/other"), 0.0) is None


def test_a_certificate_that_cannot_be_meant_is_ignored():
    context = Path("context")  # which has no name
    nameless = [
        *(
            Equal(context, "x"),
            In(context, ("x",)),
            Overlaps(context, ("x",)),
            Prefix(context, "x"),
            Glob(context, "x*"),
        ),
        *(Literal(Equal(context, "x"), holds=False), Exists(context)),
    ]
    _, cache = cached(
        *((asking(), certified(Regex(OBJECT, "("))), (asking(), certified(Equal(Path("moon"), "x")))),
        *((asking(), certified(each)) for each in nameless),
    )
    assert cache.infer(asking(), 0.0) is None


def test_without_a_certificate_nothing_is_learned():
    _, cache = cached((asking(), Decision(True)))
    assert cache.infer(asking(), 0.0) is None


def test_nothing_is_served_from_the_instant_it_expires():
    _, cache = cached((asking(), certified(Equal(ACTION, "read"), expires=10.0)))
    assert cache.infer(asking(), 9.9) is not None
    assert cache.infer(asking(), 10.0) is None


def test_a_certificate_that_ends_at_no_time_that_can_be_told_is_not_used():
    _, cache = cached((asking(), certified(Equal(ACTION, "read"), expires=float("nan"))))
    assert cache.infer(asking(), 0.0) is None


def test_a_certificate_that_is_large_takes_the_place_of_several():
    def long(n):
        return asking(object_=f"/{n}"), certified(Equal(OBJECT, f"/{n}"), detail="y" * 3000)

    _, cache = cached(*map(long, range(50)), size=20)
    assert 1 <= len(cache) <= 6
    assert cache.infer(asking(object_="/49"), 0.0) is not None


def test_a_certificate_that_says_too_much_is_not_kept():
    for length, kept in ((1000, True), (MAX_BYTES, False)):
        name = Request.of(Entity("s", {"x": "y" * length}), "/o", "read")
        _, cache = cached((name, certified(Equal(Path("subject", ("x",)), "y" * length))))
        assert (cache.infer(name, 0.0) is not None) is kept


def test_a_change_silences_a_certificate_for_touched_requests_only():
    log, cache = cached((asking(), certified(Equal(ACTION, "read"))))
    log.apply(PolicyChange(1, 0, (Touched(Prefix(OBJECT, "/secret/")),)))
    assert cache.infer(asking(object_="/secret/x"), 0.0) is None
    assert cache.infer(asking(object_="/open"), 0.0).epoch == 1


def test_the_same_certificate_learned_again_replaces_the_older_answer():
    log, cache = cached((asking(), certified(Equal(ACTION, "read"))))
    log.apply(PolicyChange(1, 0, (Touched(Equal(ACTION, "read")),)))
    cache.learn(
        asking(), msgspec.structs.replace(certified(Equal(ACTION, "read")), allowed=False, epoch=1), "new"
    )
    found = cache.infer(asking(), 0.0)
    assert not found.allowed
    assert found.inferred.answers == ("new",)
    assert len(cache._buckets[0, "read"].entries) == 1


def test_certificates_that_differ_only_in_what_cannot_be_looked_up_are_kept_up_to_a_number():
    never = [Literal(Equal(Path("context", ("n",)), n), holds=False) for n in range(1000)]
    _, cache = cached(*((asking(), certified(fact)) for fact in never))
    assert len(cache) == 1
    bucket = cache._buckets[(0,)]
    assert len(bucket.entries) == MAX_TOGETHER
    assert bucket.entries[0].decision.inferred.answers == ("999",)


def test_it_starts_anew_when_there_are_more_shapes_than_a_look_up_should_try():
    prefixes = ["/" + "x" * n for n in range(MAX_SHAPES)]
    _, cache = cached(*((asking(object_=prefix), certified(Prefix(OBJECT, prefix))) for prefix in prefixes))
    assert cache.infer(asking(object_=prefixes[0]), 0.0) is not None
    cache.learn(asking(), certified(Equal(OBJECT, "/a/b")), "x")
    assert cache.infer(asking(object_=prefixes[0]), 0.0) is None
    cache.learn(asking(), certified(Equal(OBJECT, "/a/b")), "x")
    assert cache.infer(asking(), 0.0) is not None


def test_it_holds_no_more_places_than_its_size():
    _, cache = cached(
        *((asking(object_=f"/{n}"), certified(Equal(OBJECT, f"/{n}"))) for n in range(50)), size=7
    )
    assert len(cache) == 7
    assert cache.infer(asking(object_="/49"), 0.0) is not None
