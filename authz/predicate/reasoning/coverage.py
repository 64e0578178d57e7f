"""Covering sets: the fewest filters that let through whatever any of many filters would.

Invariant: every event that a member lets through, the covering set lets through. It may let through more: then the
broker that asked for it sorts that out, as it does with every event it receives.
"""

from __future__ import annotations

from collections.abc import Iterable

from authz.predicate import FALSE, TRUE, Equal, In, Path, Predicate, Scalar, covers
from authz.predicate.values import key

MAX_FILTERS = 64
"""Maximum filters in a covering set: whoever has more wants everything of the type."""
MAX_COMPARED = 256
"""A list of more constants than this is not compared with other filters."""


def covering(filters: Iterable[Predicate]) -> tuple[Predicate, ...]:
    """A covering set of these filters, in a fixed order."""
    distinct = dict.fromkeys(each for each in filters if each != FALSE)
    if TRUE in distinct:
        return (TRUE,)
    lists, others = _joined(distinct)
    kept = _maximal([*others, *(each for each in lists if len(each.values) <= MAX_COMPARED)])
    kept += [each for each in lists if len(each.values) > MAX_COMPARED]
    return tuple(sorted(kept, key=str)) if len(kept) <= MAX_FILTERS else (TRUE,)


def _joined(filters: Iterable[Predicate]) -> tuple[list[In], list[Predicate]]:
    """Tests of one attribute for constants as one list of constants each; and the filters that are none."""
    constants: dict[Path, dict[object, Scalar]] = {}
    others: list[Predicate] = []
    for each in filters:
        if isinstance(each, Equal) and not each.fold:
            constants.setdefault(each.path, {})[key(each.value)] = each.value
        elif isinstance(each, In):
            constants.setdefault(each.path, {}).update({key(value): value for value in each.values})
        else:
            others.append(each)
    ordered = {path: sorted(found.values(), key=repr) for path, found in constants.items()}
    return [In(path, tuple(found)) for path, found in ordered.items()], others


def _maximal(filters: list[Predicate]) -> list[Predicate]:
    """The filters that no other covers."""
    if len(filters) > MAX_COMPARED:
        return filters
    kept: list[Predicate] = []
    for each in filters:
        if any(covers(other, each) for other in kept):
            continue
        kept = [other for other in kept if not covers(each, other)]
        kept.append(each)
    return kept
