"""On a bus that refuses strangers, members get the subjects they need to ask, teach, learn, audit and revoke."""

from __future__ import annotations

from time import time

from authz import Identity, Request
from authz.spki import Notice
from bus import Scope
from bus.audit import AuditStore
from bus.nats.access_client import ask_revocation
from pdp.bundle.policy_set import PolicySet
from pdp.releases.publisher_service import Publisher
from pdp.replica.service import Replica
from pdp.replica.signing_service import DecisionSigner
from pep import Enforcer
from tests.pep.recycling_world import only
from tests.secured import PDP, secured
from tests.waiting import eventually
from tests.warrants import right, warrant

ROOT, HOLDER = Identity.generate(), Identity.generate()
READ = Request.of("bob", "/x", "read")
INSTALLER = "network: default\naction: connect|install"


async def test_members_can_do_what_they_need_and_a_revoked_pdp_is_believed_no_more(tmp_path):
    async with (
        secured(tmp_path, trusted=(ROOT.public,)) as (world, access),
        world.connect(INSTALLER) as installer,
        world.connect(world.credentials(delegate=True)) as delegate,
    ):
        await AuditStore(access.member, "default").create()
        released = (await Publisher(installer, "default", ROOT, (), time).push(only("bob"))).released
        engine = PolicySet.read(only("bob")).engine(released.epoch, True)
        asking = {"trust": [ROOT.public], "deadline": 20.0}
        async with (
            world.connect(PDP) as bus,
            DecisionSigner(bus, "default", HOLDER) as teacher,
            Replica(
                bus,
                engine,
                [Scope.parse("domain:default")],
                authority=warrant(ROOT, holder=HOLDER),
                observe=teacher.observe,
            ),
            Enforcer.connect(world.url, credentials=world.credentials(), **asking) as asks,
            Enforcer.connect(world.url, credentials=world.credentials(), learn=["all"], **asking) as learns,
        ):
            await eventually(lambda: learns.secondary.point.epoch == released.epoch)
            learner = learns.secondary.learner
            while not learner.learned:
                assert (await asks.asker.decide(READ)).allowed
            assert (await learns.check(READ)).inferred.answers[0].startswith(str(HOLDER.public))
            await eventually(lambda: learns.audit.stored)
            await ask_revocation(delegate, Notice.event(ROOT, right(ROOT, HOLDER), int(time())))
            for pep in (asks, learns):
                deciders = pep.asker.authenticity.deciders
                await eventually(lambda deciders=deciders: deciders.get(HOLDER.public.raw, time()) is None)
