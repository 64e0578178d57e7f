"""Test cases for policies: requests with the answers they must get, and which policies the cases exercise.

A file of cases is a list, in YAML or JSON:

    - name: clerks read orders
      subject: {id: ann, attributes: {role: clerk}}
      object: /orders/7
      action: read
      expect: allow
      policies: [clerks-read-orders]

`name`, `context` and `policies` (those that must determine the answer) may be left out.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from authz import Decision, Entity, InvalidRequest, Request
from authz.errors import InvalidSyntax
from authz.explanation import Explanation
from authz.request import Attributes
from pdp.bundle import File, InvalidPolicies, PolicySet
from pdp.documents import Document
from pdp.engine import Engine


class _Entity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    attributes: Attributes = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request, and what must come of it."""

    subject: str | _Entity
    object: str | _Entity
    action: str | _Entity
    expect: typing.Literal["allow", "deny"]
    name: str = ""
    context: Attributes = {}
    policies: tuple[str, ...] | None = None

    @property
    def request(self) -> Request:
        return Request(_entity(self.subject), _entity(self.object), _entity(self.action), self.context)


class Placed(typing.NamedTuple):
    """A case, and where it stands."""

    case: Case
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.case.name or self.case.request}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case; `problem` says how that differs from what was expected, if it does."""

    placed: Placed
    decision: Decision
    problem: str = ""
    explanation: Explanation | None = None
    """Why, for a case that failed."""


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of every case, and the policies by whether some case was decided by them."""

    outcomes: tuple[Outcome, ...]
    exercised: tuple[str, ...]
    unexercised: tuple[str, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(each for each in self.outcomes if each.problem)

    @property
    def coverage(self) -> float:
        """The share of policies that decided some case."""
        total = len(self.exercised) + len(self.unexercised)
        return len(self.exercised) / total if total else 1.0


def read_cases(files: Iterable[File]) -> list[Placed]:
    """The cases of several files. Raises InvalidPolicies."""
    found: list[Placed] = []
    problems: list[InvalidSyntax] = []
    for file in files:
        try:
            found += _read(file)
        except InvalidSyntax as error:
            problems += (error, *error.others)
    if problems:
        raise InvalidPolicies(tuple(problems))
    return found


def run_cases(policies: PolicySet, cases: Iterable[Placed]) -> Report:
    """Decide every case."""
    engine = policies.engine()
    outcomes = tuple(_run(engine, each) for each in cases)
    used = {policy for each in outcomes for policy in each.decision.policies}
    used |= {_label_policy(each) for each in used} & policies.labels.keys()
    return Report(
        outcomes,
        tuple(each for each in policies.names if each in used),
        tuple(each for each in policies.names if each not in used),
    )


def _read(file: File) -> Iterator[Placed]:
    document = Document.parse(file.text, file.path)
    cases = document.read(list[Case])
    lines = [line for line, _ in document.positions([(0, number) for number in range(len(cases))])]
    for number, (case, line) in enumerate(zip(cases, lines, strict=True)):
        try:
            case.request.validate()
        except InvalidRequest as error:
            raise document.error((0, number), str(error)) from None
        yield Placed(case, file.path, line)


def _run(engine: Engine, placed: Placed) -> Outcome:
    case, request = placed.case, placed.case.request
    decision = engine.evaluate(request)
    problem = ""
    if decision.effect != case.expect:
        problem = f"expected {case.expect}, got {decision}"
    elif case.policies is not None and set(case.policies) != set(decision.policies):
        problem = (
            f"expected {case.expect} by {_listed(case.policies)}, got it by {_listed(decision.policies)}"
        )
    return Outcome(placed, decision, problem, engine.explain(request) if problem else None)


def _listed(policies: tuple[str, ...]) -> str:
    return ", ".join(policies) or "no policy"


def _label_policy(name: str) -> str:
    """Whose rule it is, if it is one of labels: `labels#no-read-up` is of `labels`."""
    return name.rpartition("#")[0]


def _entity(given: str | _Entity) -> Entity:
    return Entity(given) if isinstance(given, str) else Entity(given.id, given.attributes)
