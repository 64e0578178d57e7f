"""Policy diff: two sets of policies over the same entities, or over the requests that were really asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from msgspec import structs

from pdp.bundle import Bundle, PolicySet
from spark_eval.analysis import Diff, Example, Seen, SeenWork, Summary, prepare, seen_diff
from spark_eval.entities import (
    SPARK_ERRORS,
    Entities,
    Inputs,
    MaskWork,
    attribute_types,
    check_joins,
    first_line,
    oversights,
)
from spark_eval.evaluation import Joint, count_tiles, workers_of
from spark_eval.plans import Part, derivations, make_plan, rules_of
from spark_eval.runtime import Sessions, Steps, map_rows
from spark_eval.schemas import SEEN
from spark_eval.stores import InvalidRequests, Requests


@dataclass(frozen=True, slots=True)
class SeenJob:
    """Two bundles, the requests that were asked, and what is known of those they are about, if anything is."""

    before: Bundle
    after: Bundle
    requests: str
    subjects: Entities | None = None
    objects: Entities | None = None


def compare_seen(job: SeenJob, session: Sessions, steps: Steps) -> Diff:
    """What would have been answered otherwise."""
    looked_at = [path for each in (job.before, job.after) for path in _looked_at(each)]
    spark = session()
    with steps.step("reading requests and entities", 2) as advance:
        requests = Requests.open(spark, job.requests)
        advance(1)
        known = (
            each.attributes(frozenset(name for root, name in looked_at if root == kind)) if each else {}
            for kind, each in (("subject", job.subjects), ("object", job.objects))
        )
        work = SeenWork(job.before.pack(), job.after.pack(), *known)
        advance(1)
    with steps.watch(spark, "deciding requests again", workers_of(spark)):
        decided = map_rows(requests.distinct(), work, SEEN)
        try:
            changed = decided.where("before <> after").toArrow()
        except SPARK_ERRORS as error:
            raise InvalidRequests(job.requests, requests.count, first_line(error)) from error
    return seen_diff(requests.count, _seen(changed))


def _seen(changed: pa.Table) -> Iterator[Seen]:
    for row in changed.to_pylist():
        policies = (tuple(row[f"policies_{when}"]) for when in ("before", "after"))
        names = (row[name] for name in ("subject", "object", "action", "before", "after"))
        yield Seen(Example(*names, *policies), row["count"], row["roles"])


def _looked_at(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Root and name of the attributes that policies look at, and roles, which changes are told apart by."""
    yield "subject", "roles"
    for _, paths in PolicySet.read(bundle).uses():
        yield from ((path.root, str(path.keys[0])) for path in paths)


def compare_policies(before: PolicySet, inputs: Inputs, session: Sessions, steps: Steps) -> Diff:
    """What changes from the policies `before` to those of the inputs, over all their entities."""
    both = (before, inputs.policies)
    with steps.step("evaluating policies over entities", 3) as advance:
        roles = inputs.subjects.roles()
        advance(1)
        old, new = (make_plan(rules_of(each, roles)) for each in both)
        joint = Joint.of(old, new, roles)
        derived = {**derivations(before), **derivations(inputs.policies)}
        types = attribute_types(inputs.policies)
        people = MaskWork(joint.plan, Part.SUBJECT, derivations=derived, types=types)
        subjects = inputs.subjects.masks(people, inputs.may_lack)
        advance(1)
        things = replace(people, part=Part.PERMISSION, actions=inputs.actions)
        objects = inputs.objects.masks(things, inputs.may_lack)
        advance(1)
    check_joins(inputs, joint.plan, subjects, objects)
    comparison, names = prepare(joint, subjects, objects, [each.id for each in inputs.actions])
    tallies = count_tiles(comparison, "comparing decisions", session, steps)
    found = Summary(comparison, names, tallies).diff(subjects.side.rows * objects.side.rows)
    return structs.replace(found, warnings=oversights((people, things), objects, inputs.may_lack))
