"""Whom a PEP believes: whom it was told to, or whom its credentials name; never just anybody, unless that is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from authz import Identity
from authz.errors import InvalidKey
from bus import Scope
from bus.identity import KeyFileRefused
from pdp.replica.service import Replica
from pep import UNVERIFIED, Enforcer, NobodyTrusted, SyncEnforcer
from pep.trust.authenticity import Refusal
from pep.trust.trust_store import TRUST_VARIABLE
from tests.deciders import Gated
from tests.pep.fabric import serving
from tests.pep.mallory import PDP, ROOT, WRITE, Liars, answered, refused
from tests.secured import PDP as DECIDES
from tests.secured import secured
from tests.waiting import eventually
from tests.warrants import warrant

SCOPE = [Scope.parse("domain:default")]


@pytest.fixture(autouse=True)
def _nobody_named(monkeypatch):
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)


async def test_a_pep_that_was_told_of_nobody_to_trust_does_not_start(server):
    async with serving(server.url, Liars()):
        for trust in (None, []):
            with pytest.raises(NobodyTrusted, match="trust=UNVERIFIED") as refusal:
                async with Enforcer.connect(server.url, trust=trust):
                    raise AssertionError("it started")
            assert refusal.value.address == server.url
        with pytest.raises(NobodyTrusted), SyncEnforcer.connect(server.url):
            raise AssertionError("it started")
        async with Enforcer.connect(server.url, trust=UNVERIFIED, deadline=20.0) as pep:
            assert (await pep.check(WRITE)).allowed


async def test_a_trust_file_that_everybody_may_write_to_is_refused(server, tmp_path, monkeypatch):
    """Whoever else uses the machine would add a key of its own, and be believed."""
    file = tmp_path / "trusted"
    file.write_text(f"{ROOT.public}\n")
    file.chmod(0o666)
    async with serving(server.url, Liars(), authority=warrant(ROOT, holder=PDP)):
        with pytest.raises(KeyFileRefused, match="chmod o-w"):
            async with Enforcer.connect(server.url, trust=[file]):
                raise AssertionError("it started")
        monkeypatch.setenv(TRUST_VARIABLE, str(file))
        with pytest.raises(KeyFileRefused, match="chmod o-w"), SyncEnforcer.connect(server.url):
            raise AssertionError("it started")
        file.chmod(0o664)
        async with Enforcer.connect(server.url):
            pass


@pytest.mark.parametrize("text", ["", "# nobody yet\n\n   # nor here\n"])
async def test_a_trust_file_that_names_nobody_is_refused(server, tmp_path, monkeypatch, text):
    file = tmp_path / "trusted"
    file.write_text(text)
    async with serving(server.url, Liars()):
        with pytest.raises(InvalidKey, match="names no key"):
            async with Enforcer.connect(server.url, trust=[file]):
                raise AssertionError("it started")
        monkeypatch.setenv(TRUST_VARIABLE, str(file))
        with pytest.raises(InvalidKey, match="names no key"):
            async with Enforcer.connect(server.url):
                raise AssertionError("it started")
        monkeypatch.setenv(TRUST_VARIABLE, " , ")
        with pytest.raises(InvalidKey, match="names no key"):
            async with Enforcer.connect(server.url):
                raise AssertionError("it started")


async def test_on_a_fabric_with_credentials_those_are_believed_whom_they_name(tmp_path):
    gated, root = Gated(), Identity.generate()
    async with (
        secured(tmp_path) as (world, _),
        world.connect(DECIDES) as liar,
        world.connect(DECIDES) as honest,
        Replica(liar, Liars(), SCOPE, authority=warrant(root)),
        Replica(honest, gated, SCOPE, authority=warrant(ROOT, holder=PDP)),
    ):
        member = world.credentials()
        with pytest.raises(NobodyTrusted):
            async with Enforcer.connect(world.url, credentials=member):
                raise AssertionError("it started")
        named = replace(member, trust=frozenset({ROOT.public}))
        async with Enforcer.connect(world.url, credentials=named, deadline=20.0, strategy="flood") as pep:
            await eventually(lambda: len(pep.asker.authenticity.deciders) == 1)
            assert not (await answered(pep, gated, Refusal.UNKNOWN)).allowed
        async with Enforcer.connect(
            world.url, credentials=named, trust=[root.public], deadline=20.0
        ) as pep:  # what the call says comes first
            assert (await pep.check(WRITE)).allowed
            assert not refused(pep)[Refusal.FORGED]
