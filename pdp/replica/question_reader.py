"""Questions as a replica takes them from the bus: where one cannot be read, that one alone is refused."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from authz import InvalidRequest, Request
from bus.errors import BadMessage
from bus.wire import MAX_QUESTIONS, unpack_questions, unpack_raw_questions, unpack_request


def read_questions(payload: bytes) -> tuple[Sequence[Request | InvalidRequest], float, bytes, str]:
    """The requests in a message, its budget, asker and trace; where some cannot be read, those alone are invalid."""
    try:
        questions = unpack_questions(payload)
        _check_count(questions.requests)
        # Whoever reads a message checks it. Names and types are checked already; what is left needs a dot.
        requests: Sequence[Request | InvalidRequest] = questions.requests
        if b"." in payload:
            requests = [r if "." not in r.object.id else _checked(r) for r in questions.requests]
        return requests, questions.budget, questions.asker, questions.trace
    except BadMessage:
        raw = unpack_raw_questions(payload)
        _check_count(raw.requests)
        return [_read_one(each) for each in raw.requests], raw.budget, raw.asker, raw.trace


def _check_count(requests: Sequence[object]) -> None:
    if len(requests) > MAX_QUESTIONS:
        raise BadMessage("requests", f"has {len(requests)} entries; at most {MAX_QUESTIONS} are allowed")


def _checked(request: Request) -> Request | InvalidRequest:
    try:
        request.validate()
    except InvalidRequest as error:
        return error
    return request


def _read_one(raw: msgspec.Raw) -> Request | InvalidRequest:
    try:
        return _checked(unpack_request.body(raw))
    except BadMessage as error:
        return InvalidRequest(error.field or "request", error.problem)
