"""FastStream on NATS: a decorator for each handler, below `@broker.subscriber(...)`.

A message that is denied is rejected and not delivered again; one that cannot be decided now comes again later. Whoever
waits for a reply is sent the problem instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from authz import InvalidRequest
from authz.errors import UNREADABLE
from authz.extras import needing
from authz.request import Attributes
from pep.enforcer import Enforcer
from pep.integrations.core import (
    CONTENT_TYPE,
    OWN_REFUSALS,
    Core,
    Name,
    Of,
    Question,
    Refused,
    invalid,
    own_refusal,
    template,
)

with needing("faststream"):
    from faststream import Response
    from faststream.exceptions import NackMessage, RejectMessage
    from faststream.nats.annotations import NatsMessage as Injected
    from faststream.nats.message import NatsMessage

_MESSAGE = "authfabric_message"
"""The parameter by which a guarded handler receives its message."""


class Guard(Core):
    """Guards handlers: `@guard("place", "/orders/{id}")`."""

    def __init__(
        self,
        pep: Enforcer | Callable[[], Enforcer],
        subject: Callable[[NatsMessage], Name],
        *,
        context: Callable[[NatsMessage], Attributes] | None = None,
    ) -> None:
        """`subject` says who sent a message: it must rest on what the sender could not make up."""
        super().__init__()
        self._pep = pep
        self._subject = subject
        self._context = context

    def __call__(
        self, action: str, object: Of
    ) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]:
        """Guard a handler: a template of its object's name, filled from a message in JSON, or a function of it."""
        fixed = template(object)

        def guarded(handler: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
            signature = inspect.signature(handler, eval_str=True)

            async def asked(*given: Any, **named: Any) -> Any:
                message: NatsMessage = named.pop(_MESSAGE)
                try:
                    if fixed is not None:
                        taken = signature.bind(*given, **named).arguments
                        fields = {} if fixed.is_name else _fields(message, taken)
                        thing: Name = fixed.fill(fields, sent=True)
                    else:
                        thing = object(message)  # type: ignore[operator]
                    question: Question = (self._subject(message), thing, action)
                    if self._context is not None:
                        question = (*question[:3], self._context(message))  # type: ignore[index]
                    pep = self._pep if isinstance(self._pep, Enforcer) else self._pep()
                    plan = await self.permit(pep, question, result=True)
                except InvalidRequest as error:
                    return _refuse(message, invalid(error))
                except Refused as refused:
                    return _refuse(message, refused)
                try:
                    done = handler(*given, **named)
                    result = await done if inspect.isawaitable(done) else done
                except OWN_REFUSALS as error:
                    return _refuse(message, own_refusal(error))
                return await plan.finish(result)

            functools.update_wrapper(asked, handler)
            added = inspect.Parameter(_MESSAGE, inspect.Parameter.KEYWORD_ONLY, annotation=Injected)
            asked.__signature__ = signature.replace(  # type: ignore[attr-defined]
                parameters=[*signature.parameters.values(), added], return_annotation=Any
            )
            annotations = inspect.get_annotations(handler, eval_str=True)
            asked.__annotations__ = {**annotations, _MESSAGE: Injected, "return": Any}  # or a refusal
            del asked.__wrapped__  # type: ignore[attr-defined]
            asked.__authfabric__ = (action, object)  # type: ignore[attr-defined]
            return asked

        return guarded


def _fields(message: NatsMessage, taken: Mapping[str, Any]) -> dict[str, Any]:
    """The message as an object, with each field as the handler reads it. Raises InvalidRequest if it is none."""
    try:
        fields = msgspec.json.decode(message.body, type=dict[str, Any])
    except UNREADABLE:
        raise InvalidRequest("message", "must be a JSON object, to say what it is about") from None
    for argument in taken.values():
        fields |= _read(argument)
    return fields | {name: value for name, value in taken.items() if name in fields}


def _read(argument: Any) -> dict[str, Any]:
    """The fields of an argument that stands for a message, by the names that they have there."""
    if isinstance(argument, Mapping):
        return dict(argument)
    models: Mapping[str, Any] = getattr(type(argument), "model_fields", {})
    read = {model.validation_alias or model.alias or name: name for name, model in models.items()}
    return {sent: getattr(argument, name) for sent, name in read.items() if isinstance(sent, str)}


def _refuse(message: NatsMessage, refused: Refused) -> Response:
    problem = refused.problem
    if message.reply_to:
        headers = {"status": str(problem.status), **dict(problem.headers)}
        headers.pop("Content-Type")
        return Response(problem.body, headers={**headers, "content-type": CONTENT_TYPE})
    if problem.status == 503:
        raise NackMessage
    raise RejectMessage
