"""A fabric without a bus for tests: the real engine, policies that change as a test goes, and what was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from authfabric.testing.given import GivenAttributes
from authfabric.testing.matrix import Matrix, Route, run_matrix
from authz import Decision, Entity, Reason, Request
from authz.explanation import Explanation
from authz.scope import Scope
from bus.errors import NoResponders
from bus.wire import ScopeQuery, SearchPage, SearchQuery
from pep import Enforcer, SyncEnforcer
from pep.asking import Terms
from pep.local import LocalAsker, Policies, policy_files, read_policies
from pep.sync import LoopThread

GRANTED = "granted-by-test.yaml"
"""The file that `grant` and `deny` write to, as it is called in messages."""
PRIORITY = 1_000_000
"""Of what a test grants and denies, where the policies go by priority."""


class Asked(NamedTuple):
    """A question, and what was answered."""

    request: Request
    decision: Decision


class _RecordingAsker(LocalAsker):
    """Takes note of every question, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        self.scopes: list[ScopeQuery] = []
        self.searches: list[SearchQuery] = []
        self.failure: Reason | None = None

    def decide_valid(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        if self.failure is None:
            answer = super().decide_valid(request, terms)
        else:
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(Decision(False, self.failure, detail="the test lets the fabric fail"))
        if answer.done():  # a callback would come only in the next turn of the loop
            self._note(request, answer)
        else:
            answer.add_done_callback(lambda done: self._note(request, done))
        return answer

    async def scope(self, query: ScopeQuery, seconds: float) -> Scope:
        self._require_pdp()
        self.scopes.append(query)
        return await super().scope(query, seconds)

    async def explain(self, request: Request, seconds: float) -> Explanation:
        self._require_pdp()
        return await super().explain(request, seconds)

    async def search(self, query: SearchQuery, seconds: float) -> SearchPage:
        self._require_pdp()
        self.searches.append(query)
        return await super().search(query, seconds)

    def _require_pdp(self) -> None:
        """Raises NoResponders."""
        if self.failure is not None:
            raise NoResponders("anything: the test lets the fabric fail")

    def _note(self, request: Request, done: asyncio.Future[Decision]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.asked.append(Asked(request, done.result()))


class TestedFabric:
    """What the fixture `fabric` is. Nothing is recycled, so that every question is asked and recorded."""

    __test__ = False  # it is no test itself

    def __init__(self, policies: Policies = "", attributes: Path | str | None = None) -> None:
        """`attributes` is a file as `--attributes` takes, for the attributes that the policies have as `provided`."""
        self._asker = _RecordingAsker()
        self._files: Mapping[str, str] = {}
        self._made: list[dict[str, object]] = []
        self._attributes = GivenAttributes(None if attributes is None else Path(attributes))
        self._closing = contextlib.ExitStack()
        self._sync: SyncEnforcer | None = None
        self.pep = Enforcer(self._asker)
        """The Enforcer to hand to the service."""
        self._asker.on_applied.append(self.pep.released)
        self.load(policies)

    @property
    def sync(self) -> SyncEnforcer:
        """The same for threaded services."""
        if self._sync is None:
            loop = self._closing.enter_context(contextlib.closing(LoopThread()))
            self._sync = SyncEnforcer(self.pep, loop)
        return self._sync

    @property
    def asked(self) -> list[Asked]:
        """Every question so far with its answer, in order."""
        return self._asker.asked

    @property
    def questions(self) -> list[tuple[str, str, str]]:
        """Every question so far by its names: subject, object, action."""
        return [(r.subject.id, r.object.id, r.action.id) for r, _ in self.asked]

    @property
    def scopes(self) -> list[tuple[str, str, str]]:
        """Every scope asked for so far: subject, where the objects' names begin, action."""
        return [(each.subject.id, each.under, each.action.id) for each in self._asker.scopes]

    @property
    def searches(self) -> list[SearchQuery]:
        """Every search so far, page by page."""
        return self._asker.searches

    def load(self, policies: Policies) -> None:
        """Decide by these from now on: a folder, a text, or texts by file name. Raises InvalidPolicies."""
        self._files = policy_files(policies) if policies else {}
        self._release()

    def grant(
        self, subject: str, object: str, action: str, *, obligations: Iterable[Mapping[str, object]] = ()
    ) -> None:
        """Add a policy that allows this; `*` at the end stands for any rest. A policy that denies still counts."""
        self._add("allow", subject, object, action, list(obligations))

    def deny(self, subject: str, object: str, action: str) -> None:
        """Add a policy that denies this."""
        self._add("deny", subject, object, action, [])

    def provide(self, name: str, /, **attributes: object) -> None:
        """Let PDPs know these attributes of an entity, which the policies must have as `provided`.

        From then on all such attributes are known: an entity has those that it was given here or by the file. Raises
        ValueError for an attribute that is not `provided`.
        """
        declared = {str(path.keys[0]) for path in self._policies.provided}
        if unknown := sorted(attributes.keys() - declared):
            problem = f"`{unknown[0]}` is not among the `provided` of the policies: {sorted(declared)}"
            raise ValueError(f"{problem}. What the service knows itself it sends with the question")
        self._attributes.give(name, attributes)
        self._release()

    def fail(self, reason: Reason = Reason.NO_PDP) -> None:
        """Let no PDP answer from now on."""
        self._asker.failure = reason

    def recover(self) -> None:
        """Let PDPs answer again."""
        self._asker.failure = None

    def matrix(
        self,
        call: Callable[[str | Entity, Route], int],
        actors: Iterable[str],
        routes: Iterable[Route],
    ) -> Matrix:
        """Call every route as every actor: `call(actor, route)` returns the status. See Matrix."""
        return run_matrix(self._count, call, actors, routes)

    def close(self) -> None:
        self._closing.close()

    def _count(self) -> int:
        """How often policies were asked what is allowed."""
        return len(self.asked) + len(self.scopes) + len(self.searches)

    def _add(
        self, effect: str, subject: str, thing: str, action: str, duties: list[Mapping[str, object]]
    ) -> None:
        policy: dict[str, object] = {
            "uid": f"test-{effect}s-{len(self._made) + 1}",
            "effect": effect,
            "targets": {"subject_id": subject, "resource_id": thing, "action_id": action},
            "rules": {"subject": {}, "resource": {}, "action": {}, "context": {}},
            "priority": PRIORITY,
        }
        self._made.append({**policy, "obligations": duties} if duties else policy)
        self._release()

    def _release(self) -> None:
        made = {GRANTED: json.dumps(self._made)} if self._made else {}
        self._policies = read_policies({**self._files, **made})
        self._asker.providers = self._attributes.providers(self._policies.provided)
        self._asker.release(self._policies)
