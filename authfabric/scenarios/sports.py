"""The sports-news scenario: packages, a partner agency, and a promotion, all by policy.

After Belokosztolszki et al. (Role-based access control for publish/subscribe middleware architectures, section 7).
Everybody asks for `SportsNews`, and gets what their package holds: tennis; tennis and soccer; or everything, live
feeds too. A partner agency publishes soccer matches, but only those of its own towns. Then the owner lets the smallest
package have soccer, and those who asked for everything all along get it, without asking again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from uuid import uuid4

from authfabric.scenarios.testbed import Domain, stage
from authfabric.scenarios.viewing import Outcome, Viewer, side_by_side, warm_up, watching
from pubsub_core.client import EventClient, Publisher
from pubsub_core.errors import InvalidEvent
from pubsub_core.types import AttributeType, EventType, SignedType

BROKERS = ("london", "paris", "rome")
PACKAGES = {"basic": "london", "medium": "paris", "premium": "rome"}
"""Each with the broker that its reader is connected to."""
TEXTS = [(name, AttributeType.STRING) for name in ("headline", "location", "agency")]
TYPES = {
    "news.SportsNews": ("", TEXTS),
    "news.TennisMatch": ("news.SportsNews", [("players", AttributeType.STRING)]),
    "news.SoccerMatch": ("news.SportsNews", [("score", AttributeType.STRING)]),
    "news.LiveFeed": ("news.SportsNews", []),
    "news.TennisSet": ("news.LiveFeed", [("set", AttributeType.INTEGER)]),
    "news.SoccerGoal": ("news.LiveFeed", [("minute", AttributeType.INTEGER)]),
}
"""Each with the type it extends and the attributes it adds."""

_COMMON = """
- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}
- uid: editors
  description: the agency's own people publish everything, in the agency's name
  effect: allow
  targets: {resource_id: /types/news.SportsNews, action_id: [advertise, publish]}
  rules: {subject: {$.role: {condition: Equals, value: editor}}}
  obligations: [{values: {agency: Central}}]
- uid: partner
  description: the partner agency publishes soccer matches of its own towns
  effect: allow
  targets: {resource_id: /types/news.SoccerMatch, action_id: [advertise, publish]}
  rules: {subject: {$.role: {condition: Equals, value: partner}}}
  obligations: [{filter: "location IN ('Leeds', 'York')"}, {values: {agency: Northern}}]
- uid: premium
  effect: allow
  targets: {resource_id: /types/news.SportsNews, action_id: subscribe}
  rules: {subject: {$.package: {condition: Equals, value: premium}}}
- uid: tennis
  description: every package holds tennis
  effect: allow
  targets: {resource_id: /types/news.TennisMatch, action_id: subscribe}
  rules: {subject: {$.package: {condition: IsIn, values: [basic, medium]}}}
"""
_SOCCER = """
- uid: soccer
  effect: allow
  targets: {resource_id: /types/news.SoccerMatch, action_id: subscribe}
  rules: {subject: {$.package: {condition: %s}}}
"""
BEFORE = _COMMON + _SOCCER % "Equals, value: medium"
AFTER = _COMMON + _SOCCER % "IsIn, values: [basic, medium]"

STORIES = (
    ("editor", "news.SportsNews", {"headline": "season opens", "location": "London"}),
    ("editor", "news.TennisSet", {"headline": "first set", "location": "Paris", "set": 1}),
    ("editor", "news.SoccerMatch", {"headline": "a draw", "location": "Rome", "score": "1:1"}),
    ("partner", "news.SoccerMatch", {"headline": "a win", "location": "Leeds", "score": "3:0"}),
    ("partner", "news.SoccerMatch", {"headline": "not theirs", "location": "Rome", "score": "0:9"}),
    ("editor", "news.TennisMatch", {"headline": "champion", "location": "Paris", "players": "A, B"}),
)


async def play() -> tuple[Outcome, Outcome]:
    """Run the scenario; returns who saw what before and after the promotion."""
    async with stage(["sports"]) as (domain,):
        await domain.publish_types(*_types(domain))
        await domain.release(BEFORE)
        brokers = (domain.start_broker([domain], domain.key, name=name) for name in BROKERS)
        await asyncio.gather(domain.start_pdp(), *brokers)
        async with contextlib.AsyncExitStack() as stack:
            viewers = await _viewers(domain, stack)
            publishers = await _publishers(domain, stack)
            first = await _tell(publishers, viewers, "before")
            await domain.release(AFTER)
            for role in ("editor", "partner"):  # at two brokers: every other broker has to read both by now
                goal = {"headline": f"a goal by the {role}", "location": "Leeds", "score": "1:0"}
                await warm_up(publishers[role, "news.SoccerMatch"], viewers, goal, "headline")
            second = await _tell(publishers, viewers, "after")
    return first, second


def _types(domain: Domain) -> list[SignedType]:
    made: dict[str, EventType] = {}
    for name, (parent, attributes) in TYPES.items():
        made[name] = EventType.new(name, domain.key.public, attributes, uuid4, made.get(parent))
    return [SignedType.sign(each, domain.key) for each in made.values()]


async def _viewers(domain: Domain, stack: contextlib.AsyncExitStack) -> list[Viewer]:
    """One reader of each package; all of them ask for everything."""
    viewers = []
    for package, broker in PACKAGES.items():
        client = await stack.enter_async_context(domain.client(package, {"package": package}, broker=broker))
        viewers.append(Viewer(f"{package} ({broker})", await client.subscriber("news.SportsNews")))
    await stack.enter_async_context(watching(viewers))
    return viewers


async def _publishers(domain: Domain, stack: contextlib.AsyncExitStack) -> dict[tuple[str, str], Publisher]:
    clients: dict[str, EventClient] = {}
    for role, broker in (("editor", "london"), ("partner", "paris")):
        client = domain.client(role, {"role": role}, broker=broker)
        clients[role] = await stack.enter_async_context(client)
    wanted = dict.fromkeys((role, name) for role, name, _ in STORIES)
    return {(role, name): await clients[role].publisher(name) for role, name in wanted}


async def _tell(
    publishers: dict[tuple[str, str], Publisher], viewers: Sequence[Viewer], when: str
) -> Outcome:
    """Publish every story; the last one is for everybody, so that when it is seen all the others have been."""
    stories = [
        (role, name, {**values, "headline": f"{values['headline']} {when}"}) for role, name, values in STORIES
    ]
    for role, name in {(role, name): None for role, name, _ in stories if role == "partner"}:
        await warm_up(publishers[role, name], viewers[1:], {"headline": when, "location": "York"}, "headline")
    tennis = {"headline": f"warm-up {when}", "location": "Paris"}
    await warm_up(publishers["editor", "news.TennisMatch"], viewers, tennis, "headline")
    for role, name, values in stories:
        await publishers[role, name].publish(**values)
        with contextlib.suppress(InvalidEvent):  # the partner is told which story is not its own to publish
            await publishers[role, name].flush()
    last = stories[-1][2]["headline"]
    for viewer in viewers:
        await viewer.until(lambda event: event.attributes.get("headline") == last)
    title = f"Who reads what, {when} the promotion"
    published = [{"type": name, **values} for _, name, values in stories]
    read = {each.name: [{"type": one.type.name, **one.attributes} for one in each.seen] for each in viewers}
    return side_by_side(title, published, read, "headline")
