"""Whether a request can be asked: its values are JSON, and it is not too large."""

from __future__ import annotations

import msgspec

from authz import InvalidRequest, Request
from bus.errors import BadMessage
from bus.wire import unpack_request

MAX_REQUEST_BYTES = 64 * 1024

_encode = msgspec.msgpack.Encoder().encode


def check_encodable(request: Request) -> None:
    """Raise InvalidRequest, naming the field, for what cannot be asked."""
    request.validate()
    try:
        encoded = _encode(request)
        unpack_request.body(encoded)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise _unencodable(request) from None
    except BadMessage as error:
        raise InvalidRequest(error.field or "request", error.problem) from None
    if len(encoded) > MAX_REQUEST_BYTES:
        largest = max(_parts(request).items(), key=lambda part: len(_encode(part[1])))[0]
        raise InvalidRequest(
            largest, f"makes the request {len(encoded)} bytes long; at most {MAX_REQUEST_BYTES} are allowed"
        )


def _unencodable(request: Request) -> InvalidRequest:
    for field, value in _parts(request).items():
        try:
            _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return InvalidRequest(field, f"must hold JSON values only: {error}")
    return InvalidRequest("request", "must hold JSON values only")


def _parts(request: Request) -> dict[str, object]:
    return {
        "subject.attributes": request.subject.attributes,
        "object.attributes": request.object.attributes,
        "action.attributes": request.action.attributes,
        "context": request.context,
    }
