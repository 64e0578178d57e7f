import random
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Basis, Decision
from authz.change import Granted, PolicyChange, Revoked, Touched
from authz.decision import HeldRoles
from authz.predicate import And, Equal, Path, Prefix
from sdp_cache.inference.role_knowledge import Knowledge, Source
from sdp_cache.inference.saam_rbac import SaamRbac
from sdp_cache.validity.change_log import ChangeLog
from tests.sdp_cache.models import OBJECTS, ROLES, RbacWorld, asking

ALLOW = Decision(True, basis=Basis.ROLES)
DENY = Decision(False, basis=Basis.ROLES)

role_sets = st.frozensets(st.sampled_from(ROLES))
EVERY_SET = [frozenset(some) for n in range(len(ROLES) + 1) for some in combinations(ROLES, n)]


def mask(roles):
    return sum(1 << ROLES.index(role) for role in roles)


class Naive:
    """The algorithm word for word, over Python sets."""

    def __init__(self):
        self.minus, self.plus = set(), []

    def learn(self, allowed, roles):
        if allowed:
            self.plus.append(set(roles))
        else:
            self.minus |= roles
        return self.check()

    def grant(self, role):
        self.minus.discard(role)
        return True

    def revoke(self, role):
        self.plus = [allowed for allowed in self.plus if role not in allowed]
        self.minus.add(role)
        return self.check()

    def check(self):
        return not any(allowed <= self.minus for allowed in self.plus)

    def decide(self, roles):
        if roles <= self.minus:
            return False
        return True if any(allowed - self.minus <= roles for allowed in self.plus) else None


def verdicts(knowledge):
    found = [knowledge.decide(mask(roles)) for roles in EVERY_SET]
    return [None if verdict is None else verdict.allowed for verdict in found]


steps = st.one_of(
    st.tuples(st.sampled_from(["allow", "deny"]), role_sets),
    st.tuples(st.sampled_from(["grant", "revoke"]), st.sampled_from(ROLES)),
)


@given(st.lists(steps, max_size=12))
def test_the_index_answers_every_role_set_as_the_algorithm_word_for_word(trace):
    knowledge, naive = Knowledge(0), Naive()
    for verb, what in trace:
        if verb == "allow":
            kept = knowledge.allow(mask(what), Source("x")), naive.learn(True, what)
        elif verb == "deny":
            kept = knowledge.deny(mask(what), "x"), naive.learn(False, what)
        elif verb == "grant":
            knowledge.grant(mask(what))
            kept = True, naive.grant(what)
        else:
            kept = knowledge.revoke(mask(what), mask(what), "x"), naive.revoke(what)
        assert kept[0] is kept[1]
        if not kept[0]:
            return
        assert verdicts(knowledge) == [naive.decide(roles) for roles in EVERY_SET]


def saam(juniors=None, epoch=0, limit=1024):
    log = ChangeLog(epoch, limit)
    return log, SaamRbac(log, juniors)


def allowed(cache, *request):
    decision = cache.infer(asking(*request), 0.0)
    return None if decision is None else decision.allowed


hierarchies = st.dictionaries(
    st.sampled_from(ROLES), st.lists(st.sampled_from(ROLES), max_size=2).map(tuple), max_size=4
)
permissions = st.sampled_from([(object_, "read") for object_ in OBJECTS])
assignments = st.tuples(st.sampled_from(ROLES), permissions)
events = st.one_of(
    st.tuples(st.just("ask"), role_sets, permissions),
    st.tuples(st.just("change"), assignments, permissions),
    st.tuples(st.just("touch"), assignments, permissions),
)


@given(hierarchies, st.booleans(), st.frozensets(assignments), st.lists(events, max_size=30))
def test_no_inferred_answer_differs_from_the_policy_through_grants_and_revocations(
    juniors, told_of_hierarchy, grants, trace
):
    world = RbacWorld({(role, *permission) for role, permission in grants}, juniors)
    log, cache = saam(juniors if told_of_hierarchy else None)
    for kind, what, permission in trace:
        if kind == "ask":
            request = asking(what, *permission)
            cache.learn(request, world.decide(request), "x")
        else:
            log.apply(step(world, what, said_exactly=kind == "change"))
        for roles in EVERY_SET:
            for object_ in OBJECTS:
                inferred = cache.infer(asking(roles, object_), 0.0)
                if inferred is not None:
                    truth = world.decide(asking(roles, object_))
                    assert (inferred.allowed, inferred.epoch) == (truth.allowed, truth.epoch)
    assert cache.contradictions == 0


def step(world, assignment, said_exactly):
    """Give the role the permission, or take it away, and say so: exactly, or as a touched object."""
    role, (object_, action) = assignment
    grant = (role, object_, action)
    adding = grant not in world.grants
    world.grants ^= {grant}
    world.epoch += 1
    effect = Touched(Prefix(Path("object"), object_))
    if said_exactly and adding:
        effect = Granted(*grant, world.seniors(role))
    elif said_exactly and not world.decide(asking([role], object_, action)).allowed:
        effect = Revoked(*grant, world.seniors(role))
    return PolicyChange(world.epoch, world.epoch - 1, (effect,))


def test_a_denied_set_denies_its_subsets_and_unions():
    _, cache = saam()
    cache.learn(asking("ab"), DENY, "1")
    cache.learn(asking("c"), DENY, "2")
    assert allowed(cache, "abc") is False
    assert allowed(cache, "") is False
    assert allowed(cache, "d") is None
    assert allowed(cache, "a", "/o2") is None


def test_an_allowed_set_allows_every_set_that_has_what_is_left_after_the_denied_roles():
    _, cache = saam()
    cache.learn(asking("abc"), ALLOW, "1")
    assert allowed(cache, "abcd") is True
    assert allowed(cache, "bc") is None
    cache.learn(asking("a"), DENY, "2")
    assert allowed(cache, "bc") is True
    assert allowed(cache, "b") is None


def test_an_inferred_decision_names_the_answers_it_follows_from():
    _, cache = saam(epoch=4)
    cache.learn(asking("ab"), msgspec.structs.replace(ALLOW, policies=("p",)), "yes")
    cache.learn(asking("a"), DENY, "no")
    decision = cache.infer(asking("bd"), 0.0)
    assert decision.inferred.method == "saam-rbac"
    assert decision.inferred.answers == ("yes", "no")
    assert decision.policies == ("p",)
    assert decision.epoch == 4
    assert cache.infer(asking("a"), 0.0).inferred.answers == ("no",)


def test_with_a_hierarchy_a_denied_senior_denies_its_juniors():
    _, cache = saam({"chief": ("doctor",), "doctor": ("nurse",)})
    cache.learn(asking(["chief"]), DENY, "1")
    assert allowed(cache, ["nurse"]) is False
    _, flat = saam()
    flat.learn(asking(["chief"]), DENY, "1")
    assert allowed(flat, ["nurse"]) is None


def test_with_a_hierarchy_an_allowed_junior_allows_its_seniors():
    _, cache = saam({"chief": ("doctor",), "doctor": ("nurse",)})
    cache.learn(asking(["nurse"]), ALLOW, "1")
    assert allowed(cache, ["chief"]) is True


def test_an_empty_clause_never_arises_when_a_denied_role_is_allowed_later():
    _, cache = saam()
    cache.learn(asking("a"), DENY, "1")
    cache.learn(asking("a"), ALLOW, "2")
    assert cache.contradictions == 1
    assert allowed(cache, "z") is None
    assert allowed(cache, "a") is None


def test_after_a_grant_clauses_are_as_weak_as_what_was_learned():
    log, cache = saam()
    cache.learn(asking("ab"), ALLOW, "1")
    cache.learn(asking("a"), DENY, "2")
    log.apply(PolicyChange(1, 0, (Granted("a", "/o1", "read", ("a",)),)))
    assert allowed(cache, "a") is None
    assert allowed(cache, "b") is None
    assert allowed(cache, "ab") is True


def test_a_revocation_drops_each_allowed_set_with_the_role_and_denies_the_role():
    log, cache = saam()
    cache.learn(asking("ab"), ALLOW, "1")
    cache.learn(asking("c"), ALLOW, "2")
    log.apply(PolicyChange(1, 0, (Revoked("a", "/o1", "read", ("a",)),)))
    assert allowed(cache, "ab") is None
    assert allowed(cache, "a") is False
    assert allowed(cache, "c") is True


def test_a_change_of_another_permission_leaves_everything():
    log, cache = saam()
    cache.learn(asking("a"), ALLOW, "1")
    elsewhere = And((Equal(Path("object"), "/o1"), Equal(Path("action"), "write")))
    log.apply(PolicyChange(1, 0, (Revoked("a", "/o2", "read", ("a",)), Touched(elsewhere))))
    assert allowed(cache, "a") is True


def test_a_touched_permission_is_forgotten():
    log, cache = saam()
    cache.learn(asking("a"), ALLOW, "1")
    log.apply(PolicyChange(1, 0, (Touched(Prefix(Path("object"), "/")),)))
    assert allowed(cache, "a") is None


def test_what_is_older_than_the_log_remembers_is_forgotten():
    log, cache = saam(limit=2)
    cache.learn(asking("a"), ALLOW, "1")
    log.apply(PolicyChange(1, 0, (Revoked("a", "/o1", "read", ("a",)),)))
    for epoch in (2, 3):
        log.apply(PolicyChange(epoch, epoch - 1, (Touched(Equal(Path("object"), "/o2")),)))
    assert allowed(cache, "a") is None
    cache.learn(asking("b"), DENY, "2")
    assert allowed(cache, "a") is None
    assert allowed(cache, "b") is False


def test_a_change_about_one_subject_silences_that_subject_only_until_roles_are_confirmed_again():
    log, cache = saam()
    cache.learn(asking("a"), ALLOW, "1")
    log.apply(PolicyChange(1, 0, (Touched(Equal(Path("subject"), "eve")),)))
    assert allowed(cache, "a", "/o1", "read", "eve") is None
    assert allowed(cache, "a", "/o1", "read", "bob") is True
    cache.learn(asking("b"), DENY, "2")
    assert allowed(cache, "a", "/o1", "read", "eve") is True


@pytest.mark.parametrize(
    "decision",
    [
        Decision(True),
        Decision(True, basis=Basis.LABELS),
        Decision(True, basis=Basis.ROLES, expires=9.0),
    ],
)
def test_nothing_is_learned_from_an_answer_that_may_depend_on_more_than_roles(decision):
    _, cache = saam()
    cache.learn(asking("a"), decision, "1")
    assert allowed(cache, "a") is None


@pytest.mark.parametrize("roles", [None, "a", 3, {"a": 1}, [["a"]], [{"a": 1}], [None], ["a", 7]])
def test_what_is_no_list_of_role_names_is_neither_learned_from_nor_answered_as_an_allow(roles):
    _, cache = saam()
    cache.learn(asking("a"), ALLOW, "1")
    request = msgspec.structs.replace(
        asking("a"), subject=msgspec.structs.replace(asking("a").subject, attributes={"roles": roles})
    )
    before = len(cache)
    cache.learn(request, DENY, "2")
    assert len(cache) == before
    decision = cache.infer(request, 0.0)
    assert decision is None or (decision.allowed and "a" in roles)


def test_it_starts_anew_rather_than_let_masks_grow_with_ever_new_role_names():
    _, cache = saam()
    for n in range(5000):
        cache.learn(asking([f"role{n}"], f"/o{n % 50}"), DENY, "x")
    assert allowed(cache, ["role0"], "/o0") is None
    assert allowed(cache, ["role4999"], "/o49") is False
    cache.learn(asking([f"new{n}" for n in range(5000)]), DENY, "x")
    assert allowed(cache, ["new0"]) is None


def test_a_grant_whose_holders_are_unknown_drops_what_was_known():
    for juniors in (
        None,
        {"b": ("a",)},
    ):  # roles with parameters may be senior to it too, and are in no hierarchy here
        log, cache = saam(juniors)
        cache.learn(asking("bc"), DENY, "1")
        log.apply(PolicyChange(1, 0, (Granted("a", "/o1", "read"),)))
        assert allowed(cache, "c") is None
        assert allowed(cache, "b") is None


def test_a_revocation_whose_holders_are_unknown_drops_what_was_known_of_other_seniors():
    log, cache = saam({"b": ("a",)})
    cache.learn(asking("d"), ALLOW, "1")  # d is senior to a as well, by a rule with parameters
    log.apply(PolicyChange(1, 0, (Revoked("a", "/o1", "read"),)))
    assert allowed(cache, "d") is None


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_permission_keeps_answering_when_more_sets_come_than_it_holds(seed):
    random_ = random.Random(seed)
    knowledge, naive = Knowledge(0), Naive()
    for _ in range(600):
        roles = {0, *random_.sample(range(1, 60), 3)}
        assert knowledge.allow(sum(1 << role for role in roles), Source("x"))
        naive.learn(True, roles)
    for _ in range(50):
        roles = set(random_.sample(range(60), 8))
        verdict = knowledge.decide(sum(1 << role for role in roles))
        assert verdict is None or naive.decide(roles) is True


def test_it_holds_no_more_permissions_than_its_size():
    cache = SaamRbac(ChangeLog(), size=7)
    for n in range(50):
        cache.learn(asking(["a"], f"/{n}"), ALLOW, "x")
    assert len(cache) == 7
    assert cache.infer(asking(["a", "b"], "/49"), 0.0).allowed


@pytest.mark.parametrize("decision", [ALLOW, DENY], ids=["allowed sets", "refused roles"])
def test_a_permission_of_which_much_is_known_takes_the_place_of_several(decision):
    cache = SaamRbac(ChangeLog(), size=120)
    for n in range(20):
        for role in range(100):
            cache.learn(asking([f"r{role}"], f"/{n}"), decision, "x")
    assert 1 <= len(cache) <= 9
    assert cache.infer(asking(["r99"], "/19"), 0.0).allowed is decision.allowed


def held(allowed, *roles, until=100.0):
    """An answer by roles that a PDP has looked up."""
    return Decision(allowed, basis=Basis.ROLES, expires=until, roles=HeldRoles(roles, until))


class TestRolesThatPdpsLookUp:
    def test_a_subject_is_answered_by_its_own_roles_and_by_what_others_in_them_were_answered(self):
        _, cache = saam()
        cache.learn(asking((), subject="ann"), held(True, "a"), "1")
        cache.learn(asking((), object_="/o2", subject="bob"), held(False, "a", "b"), "2")
        found = cache.infer(asking((), subject="bob"), 0.0)
        assert (found.allowed, found.expires, found.inferred.answers) == (True, 100.0, ("1", "2"))
        assert cache.infer(asking((), object_="/o2", subject="ann"), 0.0).allowed is False
        assert cache.infer(asking((), subject="eve"), 0.0) is None

    def test_what_a_request_claims_of_roles_does_not_count(self):
        _, cache = saam()
        cache.learn(asking((), subject="ann"), held(True, "a"), "1")
        assert cache.infer(asking("a", subject="eve"), 0.0) is None
        cache.learn(asking((), object_="/o2", subject="eve"), held(False), "2")
        assert cache.infer(asking("a", subject="eve"), 0.0).allowed is False

    def test_roles_are_forgotten_when_they_may_be_relied_on_no_longer(self):
        _, cache = saam()
        cache.learn(asking((), subject="ann"), held(True, "a"), "1")
        assert cache.infer(asking((), subject="ann"), 99.9).allowed is True
        assert cache.infer(asking((), subject="ann"), 100.0) is None
        cache.learn(asking((), object_="/o2", subject="ann"), held(False, "a", until=200.0), "2")
        assert (
            cache.infer(asking((), subject="ann"), 100.0).allowed is True
        )  # what the role may do was not forgotten

    def test_of_two_answers_the_one_counts_that_was_looked_up_later(self):
        _, cache = saam()
        cache.learn(asking((), subject="ann"), held(True, "a", until=200.0), "1")
        cache.learn(asking((), object_="/o2", subject="ann"), held(False, "b", until=150.0), "2")
        assert cache.infer(asking((), subject="ann"), 0.0).expires == 200.0

    def test_nothing_is_kept_when_roles_begin_to_be_looked_up_or_cease_to_be(self):
        _, cache = saam()
        cache.learn(asking("a"), ALLOW, "1")
        cache.learn(asking((), object_="/o2", subject="bob"), held(True, "a"), "2")
        assert cache.infer(asking((), subject="bob"), 0.0) is None
        cache.learn(asking("b"), ALLOW, "3")
        assert cache.infer(asking((), object_="/o2", subject="bob"), 0.0) is None
