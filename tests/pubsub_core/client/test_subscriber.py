"""A subscriber reads each event once, although its broker is killed before it has told the publisher."""

from __future__ import annotations

from uuid import uuid4

from authfabric.chaos.testbed.proxy import link
from authfabric.scenarios.testbed import ServerMode, stage
from pubsub_core import Delivered, Gap
from pubsub_core.types.event_type import EventType
from pubsub_core.types.signature import SignedType

OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}}\n"


async def test_what_a_killed_broker_is_sent_again_is_read_once():
    async with stage(["bench"], ServerMode.OPEN) as (domain,):
        kind = EventType.new("bench.Sighting", domain.key.public, [("number", "integer")], uuid4)
        await domain.publish_types(SignedType.sign(kind, domain.key))
        await domain.release(OPEN, force="what crashes do is the question")
        await domain.start_pdp()
        await domain.start_broker([domain], domain.key, [], "bench")
        server = domain.url
        async with domain.client("reader", {}) as reader, link(server) as between:
            domain.url = between.url
            async with domain.client("writer", {}) as writer:
                publisher = await writer.publisher(kind.name)
                subscriber = await reader.subscriber(kind.name)
                await publisher.wanted()
                between.back.cut()  # the publisher is not told what was taken
                await publisher.publish(number=0)
                read = [(await anext(subscriber))["number"]]
                await domain.restart_broker("bench")
                assert isinstance(await anext(subscriber), Gap)
                await (await reader.subscriber(kind.name)).cancel()  # the new session has begun
                between.mend()
                await publisher.publish(number=1)
                await publisher.flush()
                while read[-1] != 1:
                    event = await anext(subscriber)
                    if isinstance(event, Delivered):
                        read.append(event["number"])
                assert read == [0, 1]
