"""One question, and several: from AuthZEN to the enforcer and back."""

from __future__ import annotations

from typing import Any

import msgspec

from authz import Decision, Entity, InvalidRequest, Reason, Request
from authz.request import Attributes
from pep.enforcer import Enforcer
from pep.gateway.callers import Identified
from pep.gateway.entity_types import EntityTypes
from pep.gateway.errors import Refused, UnknownType
from pep.gateway.messages import MAX_WRITTEN_OUT, Action, Batch, Evaluation, Thing

_NONE = Evaluation(Thing("", ""), Action(""), Thing("", "")), Request.of("-", "-", "-")
"""Before the first question of a batch: it has nothing that another has."""
_STATUS = {Reason.INVALID_REQUEST: 400}
UNAVAILABLE = 503


class Evaluator:
    """Asks the enforcer what AuthZEN asks."""

    def __init__(self, pep: Enforcer, subjects: EntityTypes, resources: EntityTypes) -> None:
        self._pep = pep
        self._subjects = subjects
        self._resources = resources

    def request(
        self, asked: Evaluation, caller: Identified, last: tuple[Evaluation, Request] | None = None
    ) -> Request:
        """What is asked of the fabric; entities are those of the `last` question where both have the same.

        Raises Refused, UnknownType or InvalidRequest.
        """
        subject, resource, action = asked.subject, asked.resource, asked.action
        caller.may_ask(subject.type, subject.id, resource.type)
        before, made = last or _NONE
        return Request(
            made.subject
            if subject is before.subject
            else Entity(self._subjects.name(subject.type, subject.id), subject.properties),
            Entity(self._resources.name(resource.type, resource.id), resource.properties),
            made.action if action is before.action else Entity(action.name, action.properties),
            asked.context,
        )

    async def one(self, asked: Evaluation, caller: Identified) -> dict[str, Any]:
        """The answer to one question. Raises Refused or InvalidRequest, also where the fabric cannot answer."""
        try:
            decision = await self._pep.check(self.request(asked, caller))
        except UnknownType as error:
            return _denied(str(error))
        if not decision.decided:
            raise Refused(_STATUS.get(decision.reason, UNAVAILABLE), _failure(decision))
        return _answer(decision)

    async def several(self, batch: Batch, caller: Identified) -> list[dict[str, Any]]:
        """The answers to several, in order; fewer where the semantic ends at the first of a kind. Raises Refused."""
        if batch.written_out > MAX_WRITTEN_OUT:
            raise Refused(
                413,
                f"the batch's defaults take more than {MAX_WRITTEN_OUT:,} bytes, written out for each evaluation",
            )
        if batch.options.evaluations_semantic == "execute_all":
            return await self._all(batch, caller)
        ending = batch.options.evaluations_semantic == "permit_on_first_permit"
        answers = []
        for item in batch.evaluations:
            answers += await self._all(msgspec.structs.replace(batch, evaluations=[item]), caller)
            if answers[-1]["decision"] is ending:
                break
        return answers

    async def _all(self, batch: Batch, caller: Identified) -> list[dict[str, Any]]:
        answers: list[dict[str, Any] | None] = []
        requests: list[Request] = []
        last: tuple[Evaluation, Request] | None = None
        defaults = batch.read_defaults
        for item in batch.evaluations:
            try:
                if not isinstance(item, dict):
                    raise Refused(400, "an evaluation must be an object")
                asked = msgspec.convert({**defaults, **item}, Evaluation)
                last = asked, self.request(asked, caller, last)
                requests.append(last[1])
                answers.append(None)
            except UnknownType as error:
                answers.append(_denied(str(error)))
            except Refused as error:
                answers.append(_failed(error.status, str(error)))
            except (InvalidRequest, msgspec.ValidationError) as error:
                answers.append(_failed(400, str(error)))
        decisions = iter(await self._pep.check_many(requests))
        return [_item(next(decisions)) if answer is None else answer for answer in answers]


def _answer(decision: Decision) -> dict[str, Any]:
    """A decision without what it reveals of the policies: with an allow, what must be done; with a denial, nothing."""
    if decision.allowed and decision.obligations:
        return {"decision": True, "context": {"obligations": decision.obligations}}
    return {"decision": decision.allowed}


def _item(decision: Decision) -> dict[str, Any]:
    if decision.decided:
        return _answer(decision)
    return _failed(_STATUS.get(decision.reason, UNAVAILABLE), _failure(decision))


def _failure(decision: Decision) -> str:
    return f"no decision: {decision.reason}" + (f": {decision.detail}" if decision.detail else "")


def _denied(message: str) -> dict[str, Any]:
    return {"decision": False, "context": {"reason": "unknown-type", "message": message}}


def _failed(status: int, message: str) -> dict[str, Any]:
    context: Attributes = {"error": {"status": status, "message": message}}
    return {"decision": False, "context": context}
