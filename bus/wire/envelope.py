"""The form of every message: one byte of version, then MessagePack of a typed struct, within a size limit.

Unknown fields are ignored, so a newer sender can add some; a wrong type is refused with the field's name.
"""

from __future__ import annotations

import re
import types
import typing
from typing import Generic, TypeVar

import msgspec

from bus.errors import BadMessage

VERSION = 1
MAX_BYTES = 512 * 1024

Message = TypeVar("Message", bound=msgspec.Struct)

_encoder = msgspec.msgpack.Encoder()
_PREFIX = bytes([VERSION])
_PATH = re.compile(r" - at (?:`key` in )?`\$(.*)`$")
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|\.(\w+)")


def pack(message: msgspec.Struct) -> bytes:
    """Encode a message; refuse one that cannot be encoded, or is too large for any receiver."""
    try:
        payload = _PREFIX + _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadMessage("", f"the message cannot be sent: {error}") from None
    if len(payload) > MAX_BYTES:
        raise BadMessage("", f"the message has {len(payload)} bytes; at most {MAX_BYTES} are allowed")
    return payload


class Unpack(Generic[Message]):
    """Decodes messages of one type: `unpack = Unpack(Questions)`, then `unpack(payload)`."""

    def __init__(self, message_type: type[Message]) -> None:
        self._type = message_type
        self._decode = msgspec.msgpack.Decoder(message_type).decode

    def __call__(self, payload: bytes) -> Message:
        if len(payload) > MAX_BYTES:
            raise BadMessage("", f"the message has {len(payload)} bytes; at most {MAX_BYTES} are allowed")
        if payload[:1] != _PREFIX:
            found = payload[0] if payload else "none"
            raise BadMessage("version", f"is {found}; this side reads version {VERSION}")
        return self.body(memoryview(payload)[1:])

    def body(self, data: bytes | memoryview | msgspec.Raw) -> Message:
        """Decode what stands inside a message, without version and limit of its own."""
        try:
            return self._decode(data)
        except msgspec.DecodeError as error:
            raise _bad_message(self._type, str(error)) from None
        except (UnicodeDecodeError, RecursionError):
            raise BadMessage("", "the message is not valid MessagePack text") from None


def _bad_message(root: type, text: str) -> BadMessage:
    """Say the decoder's complaint with field names, where it counts positions: `$[0][3]` is `requests[3]`."""
    where = _PATH.search(text)
    if where is None:
        return BadMessage("", f"the message cannot be read: {text.lower()}")
    return BadMessage(_field_name(root, where[1]) or "message", _PATH.sub("", text).lower())


def _field_name(root: object, path: str) -> str:
    name, kind = "", root
    for step in _STEP.finditer(path):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and (step[1] or "").isdigit():
            fields = msgspec.structs.fields(kind)
            index = int(step[1])
            if index >= len(fields):
                return name
            name, kind = f"{name}.{fields[index].name}".lstrip("."), fields[index].type
        else:
            name += step[0]
            kind = _argument(kind)
        if isinstance(kind, types.UnionType):
            kind = _argument(kind)
    return name


def _argument(kind: object) -> object:
    """What a list, a dictionary or an optional value holds."""
    arguments = [each for each in typing.get_args(kind) if each is not types.NoneType]
    return arguments[-1] if arguments else object
