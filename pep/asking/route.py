"""Routes: the subjects on which the questions of one scope are asked, and the batches that fill up for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.wire import Kind, Scope, subjects

if TYPE_CHECKING:
    from pep.asking.attempts import Batch, Terms


class Route:
    """Where the questions of one scope go."""

    __slots__ = ("announced", "expected_until", "filling", "scope", "shared", "subjects")

    def __init__(self, scope: Scope, announced: bool, expected_until: float = 0.0) -> None:
        self.scope = scope
        self.announced = announced
        self.shared = announced and scope.kind is not Kind.TUPLE
        """Whether it is not a question's own subject, so that some who could answer may not hear it."""
        self.expected_until = expected_until
        """Until when to keep asking although nobody listens: somebody did a moment ago."""
        self.subjects = {mode: subjects.question(mode, scope) for mode in subjects.DECIDING}
        self.filling: dict[Terms | None, Batch] = {}
        """The batches that the next question joins, by its terms; None stands for the usual ones."""
