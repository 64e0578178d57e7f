"""What a change of label policies may alter: who and what has another label now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from authz.change import Effect, Relabelled, RelabelledBelow
from pdp.labels.labels import Labelling, LabelPolicy

Labels = Mapping[str, LabelPolicy]


def labels_restructured(old: Labels, new: Labels) -> bool:
    """Whether more than tables changed: then everything may be different."""
    return old.keys() != new.keys() or any(_frame(old[name]) != _frame(new[name]) for name in old)


def label_effects(old: Labels, new: Labels) -> Iterator[Effect]:
    """What follows from other labels in the tables, where nothing else changed."""
    for name in old:
        yield from _relabelled("subject", old[name].subjects, new[name].subjects)
        yield from _relabelled("object", old[name].objects, new[name].objects)


def _frame(policy: LabelPolicy) -> object:
    attributes = (policy.subjects.attribute, policy.objects.attribute)
    return policy.lattice, attributes, dict(policy.actions), policy.permits


def _relabelled(kind: Literal["subject", "object"], old: Labelling, new: Labelling) -> Iterator[Effect]:
    for key in sorted({*old.table, *new.table}):
        if old.table.get(key) == new.table.get(key):
            continue
        if key.endswith("*"):
            yield RelabelledBelow(kind, key[:-1])
        else:
            yield Relabelled(kind, key)
