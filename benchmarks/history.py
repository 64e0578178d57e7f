"""What interaction control costs: rules about each event."""

from __future__ import annotations

from functools import partial
from time import thread_time

from benchmarks.harness import at_most, best_of_each, main
from benchmarks.rules_load import events, judge
from pubsub_core.event import Event
from pubsub_core.rules.judge import Judge

PROMISES = {"rule_growth": at_most(3)}

RULES = (10, 100, 1_000)
EVENTS = 2_000


def run() -> dict[str, float]:
    """What interaction control costs: rules about each event."""
    return rules()


def rules() -> dict[str, float]:
    """Microseconds by which an event is judged, with more and more rules about its type, and how that grows."""
    works = {str(count): partial(show, judge(count), events(count, EVENTS)) for count in RULES}
    taken = best_of_each(works, clock=thread_time)  # type: ignore[arg-type]
    costs = {f"rule_us_{count}": taken[str(count)] / EVENTS * 1e6 for count in RULES}
    return costs | {"rule_growth": taken[str(RULES[-1])] / taken[str(RULES[0])]}


def show(judge: Judge, shown: list[Event]) -> int:
    """How many of the events are let through."""
    return sum(judge.show(each, 20.0) is not None for each in shown)


if __name__ == "__main__":
    main(run)
