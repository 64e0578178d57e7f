"""What is done when an application changes, on a real server: whoever is no longer in it is trusted no more."""

from __future__ import annotations

from time import time

from authfabric.applications.folder import ApplicationFolder
from authfabric.applications.steps import Steps
from authfabric.applications.store import ApplicationStore
from authfabric.files import read_encoded
from authz.spki import Revocations
from authz.spki.capability import decode
from authz.spki.revocation import MAX_NOTICE_BYTES, Notice
from bus import Connection
from bus.stores import RecordStore
from bus.wire.subjects import REVOCATIONS, broker_record
from pubsub_core.trust import Web
from tests.authfabric.applications.test_document import TEXT, read  # noqa: F401 - a fixture
from tests.pubsub_core.town import town

WITHOUT_WEST = TEXT.replace(", west: {}", "").replace("broker: west", "broker: east")


async def test_a_broker_that_is_taken_out_is_trusted_and_given_keys_no_more(
    read,  # noqa: F811
    jetstream_server,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    heard: list[bytes] = []
    async with town(jetstream_server, tmp_path) as place, Connection(jetstream_server.url) as bus:
        await place.broker("north")  # which keeps what is said of brokers

        async def apply(text: str) -> ApplicationFolder:
            folder = ApplicationFolder(tmp_path / "keys", read(text))
            steps = Steps(folder, ApplicationStore(bus, folder.application.domain))
            for make in (steps._keys, lambda: steps._types(frozenset()), steps._trust):
                for step in make():
                    await step.do()
            return folder

        folder = await apply(TEXT)
        west, owner = str(folder.broker("west").public), str(folder.owner("nhs").public)
        ((_, chain),) = folder.capabilities("west")
        vouched = read_encoded(folder.vouch_file("west", "nhs"))
        domain = folder.application.domain
        await bus.listen(
            broker_record(domain, "*", ">"), lambda subject, reply, data, headers: heard.append(data)
        )
        await bus.flush()
        after = await apply(WITHOUT_WEST)
        await bus.flush()
        stored = [each.data for each in await RecordStore(bus, REVOCATIONS).since(0) if each.data]
    web = Web()
    web.owners = frozenset({owner})
    web.learn(vouched)
    assert web.trusts(west, "any", owner, time())
    web.learn(*heard)
    assert not web.trusts(west, "any", owner, time())
    notices = [decode(each, Notice, MAX_NOTICE_BYTES) for each in stored]
    signed = [each for each in notices if str(each.issuer) == owner]
    assert Revocations.of(*signed).revoker([chain[-1].id], [folder.owner("nhs").public])
    assert after.former_brokers() == []
    assert not list((tmp_path / "keys/brokers").glob("west.*"))
