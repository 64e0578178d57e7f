"""A bundle is read whole: every file's first problem is reported with its place."""

from __future__ import annotations

from functools import reduce

import pytest

from authz import Entity, Request
from authz.decision import Effect
from authz.errors import InvalidPredicate
from authz.predicate import And, Equal, Not, Path
from authz.predicate.compiler import MAX_DEPTH
from pdp.abac.policy import Algorithm, Policy
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import InvalidPolicies, PolicySet

ALLOW = "- {uid: %s, effect: allow, rules: {}, targets: {subject_id: '%s'}}\n"
DENY = "- {uid: %s, effect: deny, rules: {}, targets: {subject_id: '%s'}}\n"


def read(**files: str) -> PolicySet:
    return PolicySet.read(
        Bundle.of(File(name.replace("_", ".") + ".yaml", text) for name, text in files.items())
    )


def test_policies_of_all_files_decide_together():
    policies = read(a=ALLOW % ("a", "ann"), b=ALLOW % ("b", "*") + DENY % ("c", "eve"))
    engine = policies.engine(epoch=7)
    assert engine.evaluate(Request.of("bob", "/x", "read")).policies == ("b",)
    assert engine.evaluate(Request.of("eve", "/x", "read")).policies == ("c",)
    assert engine.evaluate(Request.of("eve", "/x", "read")).epoch == 7
    assert policies.files["c"].path == "b.yaml"


def test_the_manifest_says_how_policies_combine():
    files = {"a": ALLOW % ("a", "*") + DENY % ("b", "*")}
    assert not read(**files).engine().evaluate(Request.of("x", "y", "z")).allowed
    policies = read(bundle="name: shop\nalgorithm: allow-overrides\n", **files)
    assert policies.engine().evaluate(Request.of("x", "y", "z")).allowed
    assert (policies.manifest.name, policies.manifest.algorithm) == ("shop", Algorithm.ALLOW_OVERRIDES)


def test_a_condition_that_cannot_be_compiled_is_refused_without_compiling_the_rest():
    deep = reduce(lambda inner, _: Not(And((inner,))), range(MAX_DEPTH), Equal(Path("subject"), "ann"))
    policies = PolicySet(policies=(Policy("p", Effect.ALLOW, deep),))
    for compiling in (policies.engine, policies.verify):
        with pytest.raises(InvalidPredicate, match="nested deeper"):
            compiling()
    read(a=ALLOW % ("a", "ann")).verify()


def test_an_empty_bundle_denies_everything():
    assert not PolicySet.read(Bundle()).engine().evaluate(Request.of("x", "y", "z")).allowed


def test_entities_of_all_files_are_known_in_order():
    entities = read(
        entities="subjects: {bob: {age: 7}, ann: {}}\nobjects: [/b, /a]\n",
        more_entities="subjects: {cyd: {age: 8}}\nactions: [read]\n",
    ).entities
    assert list(entities.subjects) == ["ann", "bob", "cyd"]
    assert entities.subjects["bob"].attributes == {"age": 7}
    assert list(entities.objects) == ["/a", "/b"]
    assert list(entities.actions) == ["read"]


def test_provided_attributes_are_known_by_path():
    manifest = read(bundle='provided: [subject.department, "context.a b"]\n').manifest
    assert manifest.provided_paths == {Path("subject", ("department",)), Path("context", ("a b",))}


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a", "- {uid: a, effect: perhaps, rules: {}, targets: {}}", "a.yaml:1:12: "),
        ("a", "- uid: a\n  effect: allow\n  rules: {}\n  targets: {}\n  more: 1", "a.yaml:5:3: "),
        ("bundle", "name: x\nalgorithm: first\n", "bundle.yaml:2:1: "),
        ("bundle", "provided:\n  - department\n", "bundle.yaml:2:5: "),
        ("bundle", "nome: x\n", "bundle.yaml:1:1: "),
        ("entities", "subject: [a]\n", "entities.yaml:1:1: "),
        ("entities", "a: [1\n", "entities.yaml:2:1: "),
    ],
)
def test_a_problem_has_its_place(name, text, place):
    with pytest.raises(InvalidPolicies) as refused:
        read(**{name: text})
    assert str(refused.value).startswith(place)


def test_the_same_id_in_two_files_is_refused_where_it_stands_again():
    with pytest.raises(InvalidPolicies, match=r"b\.yaml:2:4: there is a policy `a` in a\.yaml already"):
        read(a=ALLOW % ("a", "x"), b="# again\n" + ALLOW % ("a", "y"))


def test_the_problems_of_all_files_are_found_at_once():
    with pytest.raises(InvalidPolicies, match="and 1 more") as refused:
        read(a="- 7", b=ALLOW % ("a", "x"), c="{}")
    assert [each.source for each in refused.value.problems] == ["a.yaml", "c.yaml"]


def test_policies_roles_and_labels_decide_together():
    policies = PolicySet.read(
        Bundle.of(
            [
                File("a.yaml", ALLOW % ("by-name", "ann")),
                File("a.oasis", 'role clerk\nclerk |- privilege(read, "/x")'),
                File(
                    "staff.labels.yaml",
                    "levels: [low, high]\ndominance: restricts\n"
                    "subjects: {attribute: clearance}\nobjects: {table: {/secret: high}}",
                ),
            ]
        )
    )
    decide = policies.engine().evaluate
    assert decide(Request.of("ann", "/y", "read")).policies == ("by-name",)
    assert decide(Request.of(Entity("bob", {"roles": ["clerk"]}), "/x", "read")).policies == ("roles#1",)
    assert decide(Request.of("ann", "/secret", "read")).policies == ("staff#no-clearance",)
    assert decide(Request.of(Entity("ann", {"clearance": "high"}), "/secret", "read")).allowed


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [
        ("a.oasis", 'role a\nb |- privilege(read, "/x")', "a.oasis:2:1: "),
        ("a.oasis", "role a\n|", "a.oasis:2:1: "),
        ("labels.yaml", "levels: []", "labels.yaml:1:1: "),
    ],
)
def test_a_problem_in_roles_or_labels_has_its_place(path, text, place):
    with pytest.raises(InvalidPolicies) as refused:
        PolicySet.read(Bundle.of([File(path, text)]))
    assert str(refused.value).startswith(place)


LABELS = (
    "dominance: permits\nlevels: [low, high]\nsubjects: {table: {ann: low}}\nobjects: {table: {/x: low}}\n"
)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"bundle.json": "{}", "bundle.yaml": "name: b"}, "bundle.yaml:1:1: there can be one manifest"),
        ({"labels.yaml": LABELS, "x/labels.yaml": LABELS}, "x/labels.yaml:1:1: the label policy `labels`"),
        (
            {"a.entities.yaml": "subjects: [ann]", "b.entities.yaml": "subjects: [bob, ann]"},
            "b.entities.yaml:1:17: `ann` is among the subjects of a.entities.yaml",
        ),
        (
            {"a.entities.yaml": "objects: {/x: {}}", "b.entities.yaml": "objects:\n  /x: {a: 1}"},
            "b.entities.yaml:2:3: `/x` is among the objects of a.entities.yaml",
        ),
    ],
)
def test_of_what_is_given_twice_nothing_is_chosen_silently(files, problem):
    with pytest.raises(InvalidPolicies) as refused:
        PolicySet.read(Bundle.of(File(name, text) for name, text in files.items()))
    assert str(refused.value).startswith(problem)
