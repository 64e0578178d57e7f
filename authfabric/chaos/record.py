"""What a run leaves behind: one line of JSON for each thing that was done or seen. Times are of the monotonic clock.

On one machine that clock is the same for all processes, and nobody sets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from authz import AuthFabricError

Question: TypeAlias = str
"""Who asks to read what: `SUBJECT OBJECT`."""


class RecordRefused(AuthFabricError):
    """A file that is not the record of a run."""


class _Entry(msgspec.Struct, frozen=True, tag_field="what", omit_defaults=True):
    """One line."""


class Run(_Entry, frozen=True, tag="run"):
    """What was set out to do."""

    at: float
    seed: int
    seconds: float
    peps: tuple[str, ...] = ()
    pdps: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    lease: float = 0.0
    """The longest time for which a PDP or a PEP goes by a release after the store last confirmed it."""
    bound: float = 0.0
    """The longest time for which any member does, brokers included."""


class Fault(_Entry, frozen=True, tag="fault"):
    """Something that was done to the fabric, until `end`."""

    at: float
    kind: str
    target: str = ""
    end: float = 0.0
    detail: str = ""


class ProcessState(_Entry, frozen=True, tag="process"):
    """From now on this process answers, or does not."""

    at: float
    who: str
    up: bool


class LinkState(_Entry, frozen=True, tag="link"):
    """From now on what is sent from here to there arrives, or does not."""

    at: float
    here: str
    there: str
    up: bool


class Push(_Entry, frozen=True, tag="push"):
    """A release that was pushed: what it permits, and what came of it."""

    push: str
    begun: float
    stored: float
    """When it was acknowledged; or when it failed, if it did."""
    permits: tuple[Question, ...]
    epoch: int = 0
    """0: the push failed, or nobody knows what came of it."""
    hash: str = ""
    complete: float | None = None
    """When it was said that nobody goes by an older release any more; None if it was not."""
    bound: float | None = 0.0
    """Within how many seconds no older release would count any more, as was said when it was stored; None: never."""
    problem: str = ""


class Kept(_Entry, frozen=True, tag="kept"):
    """An entry of the store: a release, under the message of the push that made it, or what somebody else put there."""

    at: float
    push: str
    epoch: int
    """0: it is no release."""
    hash: str
    last: bool = False
    """Whether this is what stood there at the end."""


class Answers(_Entry, frozen=True, tag="answers"):
    """Like answers of one PEP to one question, within a second at most."""

    pep: str
    question: Question
    allowed: bool
    epoch: int
    count: int
    first: float
    """When the first of them was given."""
    last: float
    """When the last of them was asked for."""
    slowest: float = 0.0
    policies: tuple[str, ...] = ()
    hash: str = ""
    """That of the release of this number by which the PEP went; empty if it had not verified one."""


class Unanswered(_Entry, frozen=True, tag="unanswered"):
    """A question that the fabric failed to answer."""

    pep: str
    question: Question
    reason: str
    asked: float
    given_up: float


class Feed(_Entry, frozen=True, tag="feed"):
    """The newest release that a PEP has verified itself."""

    at: float
    pep: str
    epoch: int
    hash: str = ""


class Audited(_Entry, frozen=True, tag="audited"):
    """Up to which number the records of an audit writer are stored, as it was told."""

    at: float
    writer: str
    stored: int


class AuditKept(_Entry, frozen=True, tag="audit-kept"):
    """What the audit stream holds of a writer in the end."""

    writer: str
    start: int
    stop: int
    """The number of the newest record whose chain holds."""
    broken: str = ""
    dropped: int = 0


class Published(_Entry, frozen=True, tag="published"):
    """Events of a publisher that the broker said it has taken: those numbered from `start` to before `stop`."""

    begun: float
    """When the first of them was published."""
    at: float
    """When all of them were taken."""
    publisher: str
    start: int
    stop: int


class Delivered(_Entry, frozen=True, tag="delivered"):
    """An event as a subscriber received it."""

    at: float
    subscriber: str
    publisher: str
    number: int
    shown: tuple[str, ...] = ()
    """The attributes that it saw."""
    again: bool = False
    """Whether it is a past event, read from a history."""


class Subscribed(_Entry, frozen=True, tag="subscribed"):
    """What a subscriber is to see: every event that is acknowledged, or else word of a gap; and no other attributes."""

    at: float
    subscriber: str
    may_see: tuple[str, ...]
    whole: bool = False
    """Whether it asked for what was published before, too; otherwise only for what is published after `at`."""


class GapTold(_Entry, frozen=True, tag="gap"):
    """A subscriber was told that events may be missing between the last it received and the next."""

    at: float
    subscriber: str
    detail: str = ""


class Revoked(_Entry, frozen=True, tag="revoked"):
    """A member whose key was revoked, and when it was disconnected; None if it was not while it was watched."""

    at: float
    member: str
    gone: float | None


class Sample(_Entry, frozen=True, tag="sample"):
    """What a process used."""

    at: float
    who: str
    memory: int
    """Resident bytes."""
    descriptors: int
    cpu: float
    """Seconds of processor time since it started."""


Entry: TypeAlias = (
    Run
    | Fault
    | ProcessState
    | LinkState
    | Push
    | Kept
    | Answers
    | Unanswered
    | Feed
    | Audited
    | AuditKept
    | Published
    | Delivered
    | Subscribed
    | GapTold
    | Revoked
    | Sample
)

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Entry)


class Recorder:
    """Writes entries to a file, each as soon as it is known: a process that is killed leaves what it wrote."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def __call__(self, *entries: Entry) -> None:
        self._file.write(b"".join(_ENCODER.encode(each) + b"\n" for each in entries))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> Iterator[Entry]:
    """The entries of a file. Raises RecordRefused; a last line that was cut off is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordRefused(f"`{path}` cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield _DECODER.decode(line)
        except msgspec.DecodeError as error:
            raise RecordRefused(f"line {number} of `{path}` is no entry of a record: {error}") from None
