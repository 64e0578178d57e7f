"""What can go wrong, as types: every error of the fabric derives from AuthFabricError and carries fields."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes of strangers: another form, no text, or nesting without end."""


class AuthFabricError(Exception):
    """The root of every error the fabric raises."""


class InvalidRequest(AuthFabricError):
    """A request that cannot be asked: `field` says where, `problem` what would be right."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"`{field}` {problem}")
        self.field = field
        self.problem = problem


class InvalidPredicate(AuthFabricError):
    """A condition that cannot be meant: `text` is the part at fault, `problem` says what would be right."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"`{text}` {problem}")
        self.text = text
        self.problem = problem


class InvalidSyntax(AuthFabricError):
    """Text that cannot be read: `line` and `column`, from one, say where, `problem` what would be right."""

    def __init__(self, problem: str, line: int, column: int, source: str = "") -> None:
        place = f"{source}:{line}:{column}" if source else f"line {line}, column {column}"
        super().__init__(f"{place}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column
        self.source = source
        self.others: tuple[InvalidSyntax, ...] = ()
        """What else is wrong with the same text, as far as was seen."""

    def within(self, source: str) -> InvalidSyntax:
        """The same problem, with the name of the file it is in."""
        same = InvalidSyntax(self.problem, self.line, self.column, source)
        same.others = tuple(each.within(source) for each in self.others)
        return same


class InvalidKey(AuthFabricError):
    """A key whose text or bytes are not an Ed25519 key in the form expected."""


class InvalidSignature(AuthFabricError):
    """A signature that does not hold. It never says why: cryptographic failures all read alike."""

    def __init__(self) -> None:
        super().__init__("the signature is not valid")
