"""`authfabric roles`: what it prints, what it writes, and how it exits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from authfabric.cli import app
from authfabric.files.appointments import read_appointment
from authz import Identity
from bus import Connection, NatsServer
from bus.identity.keystore import create_key
from bus.wire.address import URL_VARIABLE
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.sessions.role_service import RoleService, RoleServing

SERVICE, ANN, HR = (Identity.generate() for _ in range(3))
RULES = f"""
trust {HR.public} for employed, on, hour
trust {SERVICE.public} for deputy
[principal(u)] |- user(u)
user(u)*, appointment employed(u, _)* |- clerk(u)
user(u), [on(u, f)]* |- guard(u, f)
user(u), [context.hour < 20]* |- early(u)
clerk(u) |- appoint deputy(d)
"""


async def run(*words: str | Path) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, list(map(str, words)))


async def printed(*words: str | Path) -> str:
    result = await run("roles", *words)
    assert result.exit_code == 0, result.output
    return result.output.strip()


async def refused(code: int, *words: str | Path) -> str:
    result = await run("roles", *words)
    assert result.exit_code == code, result.output
    return result.output.strip()


@pytest.fixture
async def keys(tmp_path, monkeypatch) -> AsyncIterator[dict[str, str]]:
    """Key files, while a role service is there."""
    for name, identity in (("ann", ANN), ("hr", HR), ("eve", Identity.generate())):
        create_key(tmp_path / f"{name}.key", identity, None)
    people = f"subjects: {{ann: {{key: {ANN.public}}}}}"
    policies = PolicySet.read(Bundle.of([File("r.oasis", RULES), File("p.entities.yaml", people)]))
    async with (
        NatsServer(jetstream=True) as server,
        Connection(server.url) as bus,
        RoleService(bus, RoleServing(SERVICE)) as service,
    ):
        service.adopt(policies, 1)
        monkeypatch.setenv(URL_VARIABLE, server.url)
        monkeypatch.chdir(tmp_path)
        yield {name: f"--key={tmp_path / name}.key" for name in ("ann", "hr", "eve")}


async def test_a_session_from_its_beginning_to_its_end(keys, tmp_path):
    ann, hr = keys["ann"], keys["hr"]
    said = await printed("appoint", "employed(ann, 7)", "--to=ann", "-o", "e.json", "--for=8h", hr)
    assert said == "employed(ann, 7) for ann: e.json"
    session = await printed("begin", "--as=ann", ann)
    mine = (ann, f"--session={session}")
    assert (await printed("activate", "user", "clerk", *mine, "-a", "e.json")).split() == [
        "user(ann)",
        "clerk(ann)",
    ]
    await printed("tell", "on(ann, 3)", "hour=9", hr)
    assert await printed("activate", "guard(_, 3)", *mine) == "guard(ann, 3)"
    assert await printed("activate", "early", *mine) == "early(ann)"
    assert "`guard(ann, 3)`" in await printed("tell", "on(ann, 3)", "--not", hr)
    assert "`early(ann)`" in await printed("tell", "hour=21", hr)
    assert (await printed("list", *mine)).splitlines() == ["user(ann)", "clerk(ann)"]
    await printed("appoint", "deputy(bob)", "--to=bob", "-o", "d.json", *mine, "--bound")
    assert read_appointment(tmp_path / "d.json").issuer == str(SERVICE.public)
    assert "`clerk(ann)`" in await printed("revoke", "e.json", hr)
    assert "given up" in await printed("deactivate", "user", *mine)
    assert await printed("list", *mine) == ""
    assert await printed("end", *mine) == ""


async def test_programs_read_json(keys):
    ann, hr = keys["ann"], keys["hr"]
    appointed = json.loads(
        await printed("appoint", "employed(ann, 7)", "--to=ann", "-o", "e.json", hr, "--json")
    )
    assert (appointed["file"], appointed["issuer"]) == ("e.json", str(HR.public))
    session = json.loads(await printed("begin", "--as=ann", ann, "--json"))["session"]
    mine = (ann, f"--session={session}", "--json")
    assert json.loads(await printed("activate", "user", *mine))["activated"] == ["user(ann)"]
    listed = json.loads(await printed("list", *mine))
    assert listed["roles"] == ["user(ann)"]
    assert 0 < listed["seconds"] <= 12 * 3600
    assert len(json.loads(await printed("end", *mine))["ended"]) == 1


async def test_what_is_refused_says_why_and_exits_with_one(keys):
    session = await printed("begin", "--as=ann", keys["ann"])
    mine = (keys["ann"], f"--session={session}")
    assert "lacks" in await refused(1, "activate", "clerk", *mine)
    assert "no rule gives `boss`" in await refused(1, "activate", "boss", *mine)
    assert "is not of the key" in await refused(1, "list", keys["eve"], f"--session={session}")
    assert "is not the key of `ann`" in await refused(1, "begin", "--as=ann", keys["eve"])
    assert "no rule trusts" in await refused(1, "tell", "on(ann, 3)", keys["eve"])
    assert "is not of the form" in await refused(1, "activate", "clerk(", *mine)
    assert "there is no open session" in await refused(1, "list", keys["ann"], "--session=other")


async def test_what_is_called_wrongly_exits_with_two(keys, tmp_path):
    ann = keys["ann"]
    assert "must be like 90s" in await refused(2, "begin", ann, "--for=soon")
    assert "cannot be read" in await refused(2, "begin", f"--key={tmp_path / 'nobody.key'}")
    (tmp_path / "junk.json").write_text('{"issuer": 1}')
    for file in ("junk.json", "ann.key"):
        assert "is no appointment" in await refused(2, "revoke", file, ann)
    assert "needs the `--session`" in await refused(
        2, "appoint", "employed(ann, 7)", "--to=ann", "-o", "x.json", "--bound", ann
    )
    assert "is not of the form" in await refused(2, "appoint", "employed(", "--to=ann", "-o", "x.json", ann)
    assert "must be NAME=VALUE" in await refused(2, "tell", "hour=[1]", ann)


async def test_without_a_role_service_it_says_so_and_exits_with_three(keys):
    assert "nobody keeps the role sessions of `elsewhere`" in await refused(
        3, "begin", keys["ann"], "--domain=elsewhere"
    )


async def test_the_key_of_the_service_is_made_at_first_use(keys):
    key = await printed("key")
    assert key == await printed("key")
    assert key.startswith("U")
