"""What decides: policy sources, each asked for its verdict, combined into one decision under an epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from authz.decision import Decision, Effect, Reason
from authz.explanation import Explanation
from authz.request import Request
from pdp.engine.explain import explain
from pdp.engine.source import PolicySource, Prepares, Verdict, combine

_ALLOW, _NO_POLICY = Effect.ALLOW, Reason.NO_POLICY  # members of an enum are slow to look up

SLICE = 256
"""How many requests are decided before the engine yields to the event loop."""


class Engine:
    """Fast, and equal to the reference. It never changes: new policies are a new engine."""

    def __init__(self, sources: Sequence[PolicySource], epoch: int = 0, certify: bool = False) -> None:
        self.sources = tuple(sources)
        self.epoch = epoch
        self.certify = certify
        self._judge = self.sources[0].judge if len(self.sources) == 1 else self._judge_all
        if certify:
            for source in self.sources:
                if isinstance(source, Prepares):
                    source.prepare()

    def evaluate(self, request: Request) -> Decision:
        """Decide at once. A source that breaks down denies: it might have."""
        try:
            verdict = self._judge(request, self.certify)
        except Exception as error:
            verdict = _failed(error)
        return self._decision(verdict)

    def _evaluate_all(self, requests: Sequence[Request]) -> list[Decision]:
        """Decide at once. Where a source says the very same of several requests, they get one and the same decision."""
        judge, certify = self._judge, self.certify
        made: dict[int, tuple[Verdict, Decision]] = {}  # a verdict that is kept shares its id with no other
        decisions = []
        for request in requests:
            try:
                verdict = judge(request, certify)
            except Exception as error:
                verdict = _failed(error)
            known = made.get(id(verdict))
            if known is None:
                known = made[id(verdict)] = verdict, self._decision(verdict)
            decisions.append(known[1])
        return decisions

    def _decision(self, verdict: Verdict) -> Decision:
        effect = verdict.effect
        return Decision(
            effect is _ALLOW,
            verdict.reason if effect is not None else _NO_POLICY,
            verdict.policies,
            verdict.detail,
            self.epoch,
            verdict.expires,
            verdict.obligations,
            verdict.certificate,
            verdict.basis,
        )

    def _judge_all(self, request: Request, certify: bool) -> Verdict:
        return combine([each.judge(request, certify) for each in self.sources])

    def explain(self, request: Request) -> Explanation:
        """Why the request is decided as it is. For people: it looks at every policy."""
        return explain(self.sources, request, self.evaluate(request))

    async def decide(self, request: Request) -> Decision:
        return self.evaluate(request)

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        decisions: list[Decision] = []
        for start in range(0, len(requests), SLICE):
            if start:
                await asyncio.sleep(0)
            decisions += self._evaluate_all(requests[start : start + SLICE])
        return decisions


def _failed(error: Exception) -> Verdict:
    detail = f"a policy source failed: {type(error).__name__}"
    return Verdict(Effect.DENY, reason=Reason.POLICY_ERROR, detail=detail)
