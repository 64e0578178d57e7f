"""How the verdicts of several policy sources become one."""

from __future__ import annotations

from authz import Basis, Reason
from authz.decision import Effect
from authz.predicate import Exists, Literal, Path
from pdp.engine.source import SILENT, Verdict, combine

A, B, C = (Literal(Exists(Path("subject", (name,)))) for name in "abc")


def test_a_deny_overrides_and_names_every_denying_policy():
    verdicts = [Verdict(Effect.ALLOW, ("p",)), Verdict(Effect.DENY, ("q",)), Verdict(Effect.DENY, ("r",))]
    assert combine(verdicts) == Verdict(Effect.DENY, ("q", "r"))


def test_silence_leaves_it_to_the_others():
    assert combine([SILENT, Verdict(Effect.ALLOW, ("p",)), SILENT]) == Verdict(Effect.ALLOW, ("p",))
    assert combine([SILENT, SILENT]).effect is None


def test_an_allow_is_certified_by_all_sources_a_deny_by_the_shortest():
    allow, silent = Verdict(Effect.ALLOW, ("p",), (A, B)), Verdict(None, (), (B, C))
    assert combine([allow, silent]).certificate == (A, B, C)
    denies = [Verdict(Effect.DENY, ("q",), (A, B)), Verdict(Effect.DENY, ("r",), (C,))]
    assert combine([allow, *denies]).certificate == (C,)


def test_without_the_certificate_of_one_source_there_is_none():
    assert combine([Verdict(Effect.ALLOW, ("p",), (A,)), SILENT]).certificate is None


def test_the_earliest_expiry_holds_and_a_failure_is_told():
    failed = Verdict(Effect.DENY, (), None, 7.0, Reason.ATTRIBUTE_UNAVAILABLE, "no answer")
    both = combine([failed, Verdict(Effect.DENY, ("q",), None, 9.0)])
    assert (both.expires, both.reason, both.detail) == (7.0, Reason.ATTRIBUTE_UNAVAILABLE, "no answer")


def test_labels_that_forbid_are_the_basis_whatever_else_denies():
    by_labels = Verdict(Effect.DENY, ("l",), basis=Basis.LABELS, detail="cleared for less")
    both = combine(
        [Verdict(Effect.DENY, ("q",)), by_labels, Verdict(Effect.ALLOW, ("p",), basis=Basis.ROLES)]
    )
    assert (both.basis, both.detail) == (Basis.LABELS, "cleared for less")


def test_an_allow_has_a_basis_only_if_nobody_else_has_a_say():
    by_role = Verdict(Effect.ALLOW, ("p",), basis=Basis.ROLES)
    unconcerned, no_role = Verdict(None, unconcerned=True), Verdict(None, basis=Basis.ROLES)
    assert combine([by_role, unconcerned]).basis is Basis.ROLES
    assert combine([by_role, no_role]).basis is Basis.ROLES
    assert combine([no_role, unconcerned]).basis is Basis.ROLES
    assert combine([by_role, SILENT]).basis is None
    assert combine([by_role, Verdict(Effect.ALLOW, ("l",), basis=Basis.LABELS)]).basis is None
    assert combine([unconcerned]).basis is None
