"""What keeps policies from coming into force: errors, cases that fail, and no reason for all or nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from authz import AuthFabricError, PublicKey
from pdp.bundle import Bundle, PolicySet, read_bundle, read_cases
from pdp.documents import Finding, Kind, Level
from pdp.lint.linter import faults
from pdp.lint.test_cases import Outcome, run_cases
from pdp.lint.test_cases import read_cases as parse_cases


class PoliciesRefused(AuthFabricError):
    """Policies that must not come into force: `findings` are the errors that `policy check` reports."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        more = f" (and {len(findings) - 1} more: see `authfabric policy check`)" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{more}")
        self.findings = tuple(findings)


class CasesFailed(AuthFabricError):
    """Policies that do not give the answers which the cases beside them expect; `failures` has those."""

    def __init__(self, failures: Sequence[Outcome], total: int) -> None:
        first = failures[0]
        super().__init__(
            f"{len(failures)} of {total} cases fail, the first is {first.placed}: {first.problem}."
            " See `authfabric policy test`"
        )
        self.failures = tuple(failures)


class ReasonNeeded(AuthFabricError):
    """Policies that allow everything to everyone, or that are none, and nobody said why: `policies` are the former."""

    def __init__(self, policies: Sequence[str]) -> None:
        named = ", ".join(f"`{each}`" for each in policies)
        problem = (
            f"everything would be allowed to everyone, by {named}: name subjects, objects or actions there"
            if policies
            else "every policy in force would be removed, and everything denied: the files have no policy"
        )
        super().__init__(f"{problem}, or say why it is meant by `--force REASON`")
        self.policies = tuple(policies)


def read_tested(path: Path, trusted: Collection[PublicKey] = ()) -> Bundle:
    """A folder as a bundle, if the cases in it pass, or the bundle in a file.

    Raises CasesFailed, InvalidPolicies and BundleRefused.
    """
    bundle = read_bundle(path, trusted)
    if path.is_dir() and (cases := parse_cases(read_cases(path))):
        report = run_cases(PolicySet.read(bundle), cases)
        if report.failures:
            raise CasesFailed(report.failures, len(report.outcomes))
    return bundle


def examine(bundle: Bundle, policies: PolicySet) -> list[Finding]:
    """The faults, if there are no errors among them, other than that there is no policy. Raises PoliciesRefused."""
    found = faults(bundle, policies)
    if errors := [each for each in found if each.level is Level.ERROR and each.kind is not Kind.NO_POLICIES]:
        raise PoliciesRefused(errors)
    return found


def extremes(found: Iterable[Finding]) -> list[Finding]:
    """Those by which everything is allowed to everyone, or nothing to anybody."""
    return [each for each in found if each.kind in (Kind.ALLOWS_EVERYTHING, Kind.NO_POLICIES)]


def justify(found: Iterable[Finding], force: str) -> str:
    """The reason to record with policies of which this was found; none if they need none. Raises ReasonNeeded."""
    extreme = extremes(found)
    if extreme and not force.strip():
        raise ReasonNeeded([each.policy for each in extreme if each.kind is Kind.ALLOWS_EVERYTHING])
    return force.strip() if extreme else ""
