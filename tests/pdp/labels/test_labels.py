"""Bell-LaPadula labels: dominance, what it allows and forbids, and why."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Basis, Entity, Request
from authz.decision import Effect
from authz.predicate import compile_predicate
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.engine.engine import Engine
from pdp.engine.source import PolicySource, Verdict
from pdp.labels.labels import InvalidLabel, Label, LabelSource, Lattice
from pdp.labels.reader import read_label_policy

POLICY = """
levels: [public, internal, secret]
categories: [heart, brain]
dominance: permits
actions: {read: [read, list], append: [append], write: [write]}
subjects:
  attribute: clearance
  table:
    ann: secret {heart}
    bob: internal
    bot-*: public
objects:
  attribute: classification
  table:
    /open/*: public
    /open/heart/*: secret {heart}
    /open/heart/poster: public
    exact: internal
"""
LATTICE = Lattice(("public", "internal", "secret"), ("heart", "brain"))
LABELS = [Label(rank, bits) for rank in range(3) for bits in range(4)]


def source(text: str = POLICY) -> LabelSource:
    return LabelSource(read_label_policy(text), sole=True)


def ask(subject: str | Entity, object_: str | Entity, action: str = "read", policy: str = POLICY) -> Verdict:
    return source(policy).judge(Request.of(subject, object_, action), certify=True)


def cleared(label: object) -> Entity:
    return Entity("x", {"clearance": label})


def classified(label: object) -> Entity:
    return Entity("o", {"classification": label})


def test_dominance_is_a_partial_order():
    for a, b, c in itertools.product(LABELS, repeat=3):
        assert a.dominates(a)
        assert not (a.dominates(b) and b.dominates(a)) or a == b
        assert not (a.dominates(b) and b.dominates(c)) or a.dominates(c)


def test_labels_may_be_incomparable():
    heart, brain = LATTICE.read("secret {heart}"), LATTICE.read("secret {brain}")
    assert not heart.dominates(brain)
    assert not brain.dominates(heart)


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_read_as_it_is_shown(label):
    assert LATTICE.read(LATTICE.show(label)) == label


def test_a_label_may_be_an_object():
    assert LATTICE.read({"level": "secret", "categories": ["heart"]}) == LATTICE.read(" secret {heart,} ")
    assert LATTICE.read({"level": "public"}) == Label(0)


@pytest.mark.parametrize(
    "value", ["cosmic", "secret {lung}", "", "{heart}", 3, ["secret"], {"level": 3}, {"levl": "secret"},
              {"level": "secret", "categories": "heart"}, {"level": "secret", "categories": [1]}]
)  # fmt: skip
def test_what_is_no_label_is_refused(value):
    with pytest.raises(InvalidLabel):
        LATTICE.read(value)


@given(st.sampled_from(LABELS), st.sampled_from(LABELS))
def test_read_append_and_write_go_by_dominance(clearance, classification):
    subject, object_ = cleared(LATTICE.show(clearance)), classified(LATTICE.show(classification))
    up, down = clearance.dominates(classification), classification.dominates(clearance)
    assert (ask(subject, object_, "read").effect is Effect.ALLOW) == up
    assert (ask(subject, object_, "append").effect is Effect.ALLOW) == down
    assert (ask(subject, object_, "write").effect is Effect.ALLOW) == (up and down)


def test_a_denial_names_the_rule_and_the_labels():
    verdict = ask("bob", "/open/heart/1")
    assert (verdict.effect, verdict.policies) == (Effect.DENY, ("labels#no-read-up",))
    assert verdict.detail == "cleared for `internal`, classified `secret {heart}`"
    assert ask("ann", "/open/1", "append").policies == ("labels#no-write-down",)
    assert ask("ann", "/open/1").policies == ("labels#dominance",)


def test_what_is_not_classified_is_left_to_others():
    verdict = ask("nobody", "/elsewhere")
    assert (verdict.effect, verdict.basis) == (None, None)


@pytest.mark.parametrize(
    ("subject", "object_", "action", "rule"),
    [
        ("nobody", "/open/1", "read", "no-clearance"),
        ("ann", "/open/1", "burn", "unlisted-action"),
        (cleared("cosmic"), "/open/1", "read", "bad-label"),
        ("ann", classified({"level": 3}), "read", "bad-label"),
        ("bot-1", "/open/../heart/1", "read", "bad-label"),
        ("bot-1", "/open/./1", "read", "bad-label"),
    ],
)
def test_what_is_classified_is_not_opened_by_what_is_missing_or_unreadable(subject, object_, action, rule):
    verdict = ask(subject, object_, action)
    assert (verdict.effect, verdict.policies) == (Effect.DENY, (f"labels#{rule}",))
    assert verdict.basis is None


def test_only_labels_by_id_are_a_basis_for_further_conclusions():
    assert ask("ann", "/open/1").basis is Basis.LABELS
    assert ask("bob", "/open/heart/1").basis is Basis.LABELS
    assert ask(cleared("internal"), "/open/heart/1").basis is None
    assert ask("bob", classified("secret")).basis is None


def test_only_actions_that_do_what_they_are_called_are_a_basis_for_further_conclusions():
    assert ask("ann", "/open/1", "list").effect is Effect.ALLOW
    assert ask("ann", "/open/1", "list").basis is None
    otherwise = POLICY.replace("append: [append], write: [write]", "append: [write], write: [append]")
    assert ask("ann", "/open/1", "write", otherwise).policies == ("labels#no-write-down",)
    assert ask("ann", "/open/1", "write", otherwise).basis is None
    assert ask("ann", "/open/1", "read", otherwise).basis is Basis.LABELS


def test_only_a_sole_label_policy_is_a_basis_for_further_conclusions():
    request = Request.of("ann", "/open/1", "read")
    assert LabelSource(read_label_policy(POLICY)).judge(request).basis is None
    one, two = (File(f"{name}.labels.yaml", POLICY) for name in ("one", "two"))
    assert PolicySet.read(Bundle.of([one])).engine().evaluate(request).basis is Basis.LABELS
    assert PolicySet.read(Bundle.of([one, two])).engine().evaluate(request).basis is None


def test_an_exact_id_counts_before_a_prefix_and_a_longer_prefix_before_a_shorter():
    assert ask("bot-1", "/open/x").effect is Effect.ALLOW
    assert ask("bot-1", "/open/heart/x").effect is Effect.DENY
    assert ask("bot-1", "/open/heart/poster").effect is Effect.ALLOW
    assert ask("bob", "exact").effect is Effect.ALLOW


def test_the_table_has_the_last_word_over_what_is_sent():
    assert ask(Entity("bob", {"clearance": "secret {heart, brain}"}), "/open/heart/1").effect is Effect.DENY
    assert ask("bot-1", Entity("/open/heart/1", {"classification": "public"})).effect is Effect.DENY


def test_an_attribute_counts_only_if_the_policy_names_it():
    silent = POLICY.replace("  attribute: clearance\n", "")
    assert ask(cleared("secret {heart}"), "/open/heart/1", policy=silent).policies == ("labels#no-clearance",)


def test_where_dominance_restricts_it_denies_but_does_not_allow():
    restricting = POLICY.replace("permits", "restricts")
    assert ask("ann", "/open/1", policy=restricting).effect is None
    assert ask("bob", "/open/heart/1", policy=restricting).effect is Effect.DENY


def test_without_attribute_what_is_not_in_the_table_concerns_labels_never():
    tabled = POLICY.replace("  attribute: classification\n", "")
    assert ask("ann", "/elsewhere", policy=tabled).unconcerned
    assert not ask("ann", "/elsewhere").unconcerned


labels = st.sampled_from(
    [
        "public",
        "internal",
        "secret {heart}",
        {"level": "secret", "categories": ["heart", "brain"]},
        "cosmic",
        3,
        None,
    ]
)
requests = st.builds(
    lambda subject, clearance, object_, classification, action: Request.of(
        Entity(subject, {"clearance": clearance}), Entity(object_, {"classification": classification}), action
    ),
    st.sampled_from(["ann", "bob", "bot-1", "x"]),
    labels,
    st.sampled_from(["/open/1", "/open/heart/1", "/open/../1", "exact", "o"]),
    labels,
    st.sampled_from(["read", "list", "append", "write", "burn"]),
)
TABLED = POLICY
FREE = """
levels: [public, internal, secret]
categories: [heart, brain]
dominance: permits
subjects: {attribute: clearance}
objects: {attribute: classification}
"""


@pytest.mark.parametrize("policy", [TABLED, FREE, TABLED.replace("permits", "restricts")])
@given(request=requests, other=requests)
@settings(max_examples=100)
def test_whatever_satisfies_a_certificate_gets_the_same_effect(policy, request, other):
    judged = source(policy)
    verdict = judged.judge(request, certify=True)
    assert verdict.certificate is not None
    assert all(compile_predicate(each.predicate)(request) for each in verdict.certificate)
    if all(compile_predicate(each.predicate)(other) for each in verdict.certificate):
        assert judged.judge(other).effect == verdict.effect


def test_a_certificate_by_attributes_serves_everyone_with_the_same_labels():
    verdict = ask(cleared("secret {heart}"), classified("internal"), policy=FREE)
    assert [str(each) for each in verdict.certificate or ()] == [
        'object.classification == "internal"',
        'action.id == "read"',
        'subject.clearance == "secret {heart}"',
    ]


def test_what_no_literal_can_describe_has_no_certificate():
    assert ask("ann", classified({"level": b"secret"})).certificate is None


def test_the_source_is_a_policy_source():
    offered: PolicySource = source()
    assert offered.name == "labels"


@pytest.mark.parametrize(
    ("subject", "object_", "action", "lines"),
    [
        (
            "bob",
            "/open/heart/1",
            "read",
            [
                "deny labels#no-read-up (cleared for `internal`, classified `secret {heart}`) determines this",
                '  because objects.table["/open/heart/*"] is "secret {heart}"',
                '  because subjects.table["bob"] is "internal"',
                "  would not apply if the clearance dominated the classification;"
                ' subjects.table["bob"] is "internal"',
            ],
        ),
        (
            "nobody",
            "exact",
            "read",
            [
                "deny labels#no-clearance (`nobody` has no clearance) determines this",
                '  because objects.table["exact"] is "internal"',
                "  because subject.clearance is missing",
                "  would not apply if there were a clearance that dominates the classification;"
                " subject.clearance is missing",
            ],
        ),
        (
            "ann",
            classified("public"),
            "append",
            [
                "deny labels#no-write-down (cleared for `secret {heart}`, classified `public`) determines this",
                '  because object.classification is "public"',
                '  because subjects.table["ann"] is "secret {heart}"',
                "  would not apply if the classification dominated the clearance;"
                ' object.classification is "public"',
            ],
        ),
        (
            "ann",
            "exact",
            "burn",
            [
                "deny labels#unlisted-action (labels say nothing of the action `burn`) determines this",
                '  because objects.table["exact"] is "internal"',
                '  would not apply if the label policy listed the action; action.id is "burn"',
            ],
        ),
        (
            "ann",
            "exact",
            "list",
            [
                "allow labels#dominance determines this",
                "  because the clearance dominates the classification, as reading needs",
                '  because objects.table["exact"] is "internal"',
                '  because subjects.table["ann"] is "secret {heart}"',
            ],
        ),
        (
            "bot-1",
            "exact",
            "append",
            [
                "allow labels#dominance determines this",
                "  because the classification dominates the clearance, as appending needs",
                '  because objects.table["exact"] is "internal"',
                '  because subjects.table["bot-*"] is "public"',
            ],
        ),
    ],
)
def test_an_explanation_says_by_which_labels_and_what_would_undo_a_denial(subject, object_, action, lines):
    explained = str(Engine([source()]).explain(Request.of(subject, object_, action)))
    assert explained.splitlines()[1:] == lines


def test_a_subject_that_no_table_and_no_attribute_labels_is_looked_for_in_the_table():
    silent = source(POLICY.replace("  attribute: clearance\n", ""))
    explained = str(Engine([silent]).explain(Request.of("nobody", "exact", "read")))
    assert 'because subjects.table["nobody"] is missing' in explained


def test_labels_that_fit_and_only_restrict_are_told_as_a_denial_that_does_not_apply():
    restricting = source(POLICY.replace("permits", "restricts"))
    explained = str(Engine([restricting]).explain(Request.of("ann", "exact", "list")))
    assert explained.splitlines()[1:] == [
        "deny labels does not apply",
        "  because the clearance dominates the classification, as reading needs",
        '  because objects.table["exact"] is "internal"',
        '  because subjects.table["ann"] is "secret {heart}"',
    ]


def test_what_is_not_classified_needs_no_explanation():
    assert source().explain(Request.of("ann", "/elsewhere", "read")) == ((), 0)
