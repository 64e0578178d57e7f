"""What is asked, and the policies by which it is answered: each release permits some of the questions."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import yaml

from authfabric.chaos.record import Question
from pubsub_core.types import AttributeType

DOMAIN = "chaos"
SUBJECTS = tuple(f"user-{number}" for number in range(8))
OBJECTS = tuple(f"/files/{number}" for number in range(6))
ACTION = "read"
QUESTIONS: tuple[Question, ...] = tuple(f"{subject} {thing}" for subject in SUBJECTS for thing in OBJECTS)
FORBIDDEN: tuple[Question, ...] = tuple(f"stranger {thing}" for thing in OBJECTS)
"""What no release ever permits, and whoever lies allows."""
TYPE = "chaos.Reading"
READING = f"/types/{TYPE}"
ATTRIBUTES = {
    "publisher": AttributeType.STRING,
    "number": AttributeType.INTEGER,
    "value": AttributeType.STRING,
}

_EVENTS: tuple[dict[str, object], ...] = (
    {"uid": "connect", "effect": "allow", "rules": {}, "targets": {"action_id": "connect"}},
    {
        "uid": "publish",
        "effect": "allow",
        "targets": {"resource_id": READING, "action_id": ["advertise", "publish"]},
        "rules": {"subject": {"$.role": {"condition": "Equals", "value": "sensor"}}},
    },
    {
        "uid": "see-all",
        "effect": "allow",
        "targets": {"resource_id": READING, "action_id": ["subscribe", "replay"]},
        "rules": {"subject": {"$.role": {"condition": "Equals", "value": "reader"}}},
    },
    {
        "uid": "see-numbers",
        "effect": "allow",
        "targets": {"resource_id": READING, "action_id": ["subscribe", "replay"]},
        "rules": {"subject": {"$.role": {"condition": "Equals", "value": "counter"}}},
        "obligations": [{"attributes": ["publisher", "number"]}],
    },
)
"""Who publishes events, and who sees what of them."""


def policy_of(question: Question) -> str:
    """The id of the one policy that permits a question."""
    return question.replace("/files/", "file-").replace(" ", "-")


def policy_file(permits: Collection[Question]) -> str:
    """A file of attribute policies that permit exactly this."""
    return yaml.safe_dump([*map(_permit, sorted(permits)), *_EVENTS], sort_keys=False)


def lies() -> str:
    """The policies of whoever answers without being entitled to: everything to everyone."""
    return yaml.safe_dump([{"uid": "lie", "effect": "allow", "rules": {}, "targets": {}}])


def next_permits(before: Sequence[Question], chance: random.Random) -> tuple[Question, ...]:
    """Other permissions: some are revoked, some are given."""
    permits = set(before)
    revoked = chance.sample(sorted(permits), min(len(permits), chance.randint(1, 6)))
    given = chance.sample(QUESTIONS, chance.randint(1, 6))
    return tuple(sorted((permits - set(revoked)) | (set(given) - set(revoked))))


def _permit(question: Question) -> dict[str, object]:
    subject, thing = question.split(" ")
    targets = {"subject_id": subject, "resource_id": thing, "action_id": ACTION}
    return {"uid": policy_of(question), "effect": "allow", "rules": {}, "targets": targets}
