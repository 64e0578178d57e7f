"""PDPs on other machines: over SSH through a real server, and in network namespaces where Linux allows them."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from authz import Request
from bus.runtime import ProcessFailed
from bus.server.nats_server import free_ports
from spark_eval.experiment.cell import Population
from spark_eval.experiment.outcome import publish_subscribe
from spark_eval.experiment.plan import Availability, Sweep
from spark_eval.experiment.remote import Hosts, RemoteHost
from spark_eval.measurement.fabric_service import replica
from spark_eval.measurement.hosts import NAMESPACES, Host, count_other_hosts, other_hosts, remote_hosts
from spark_eval.measurement.live_service import find_places, live_measurements
from spark_eval.measurement.replica_service import ReplicaTask
from spark_eval.measurement.response_service import Fabrics
from tests.sshd import ssh_server
from tests.waiting import eventually

SEED = 5
PLAN = Availability(
    population=Population(requests=60, objects=20, deadline=10.0),
    faster=3.0,
    simulated_runs=2,
    live_runs=1,
    sweeps={"pdps": Sweep(live=True, pdps=(3,), overlap=(0.5,), mttf=(20.0,), mttr=(10.0,))},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def named(server, hosts=2):
    remote = RemoteHost(ssh=server.login, address="127.0.0.1", python=sys.executable, options=server.options)
    return Hosts(here="127.0.0.1", remote=(remote,) * hosts)


def started_over(server):
    """Processes of logins at this server."""
    port = server.options[server.options.index("-p") + 1]
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = dict(line.partition(b"=")[::2] for line in file.read_bytes().split(b"\0"))
        except OSError:
            continue
        if words.get(b"SSH_CONNECTION", b"").split()[-1:] == [port.encode()]:
            found.append(int(file.parent.name))
    return found


async def test_pdps_over_ssh_fail_on_schedule_and_end_with_the_experiment(server):
    seen = set()
    (measurement,) = live_measurements(PLAN, SEED, remote_hosts(named(server)))
    trace = await measurement.watched(lambda _: seen.update(started_over(server)))
    (place,) = find_places(PLAN, SEED, 0)
    expected = publish_subscribe(place.sample, place.cell, PLAN.population).answered[place.row]
    rows = sorted(trace.to_pylist(), key=lambda row: row["request"])
    answered = [row["failed"] == 0 for row in rows if row["variant"] == "pubsub"]
    assert not any(got and not due for got, due in zip(answered, expected.tolist(), strict=True))
    assert not expected.all()
    assert any(answered)
    assert len(seen) >= 3
    await eventually(lambda: not started_over(server))


async def test_a_host_that_cannot_be_reached_is_said_with_what_ssh_says():
    (port,) = free_ports(1)
    remote = RemoteHost(ssh="127.0.0.1", address="127.0.0.1", options=("-F", "none", "-p", str(port)))
    (host,) = remote_hosts(Hosts(here="127.0.0.1", remote=(remote,)))
    with pytest.raises(ProcessFailed, match="Connection refused"):
        async with replica(ReplicaTask("nats://127.0.0.1:1", ["broadcast"], "role r\n"), host):
            pass


def test_a_command_reaches_the_other_machine_in_one_piece():
    remote = RemoteHost(ssh="pdp@far", address="10.0.0.7", python="/opt/my python", options=("-p", "2222"))
    (host,) = remote_hosts(Hosts(here="10.0.0.5", remote=(remote,)))
    *start, last = host.command("print('a b')")
    assert start[-4:] == ["-p", "2222", "--", "pdp@far"]
    assert last == """'/opt/my python' -c 'print('"'"'a b'"'"')'"""
    assert (host.here, host.there) == ("10.0.0.5", "10.0.0.7")
    assert Host().command("x") == [sys.executable, "-c", "x"]


def unshipped(*_, **__):
    raise AssertionError("nothing as shipped is part of this")


@pytest.mark.parametrize("over_ssh", [False, True])
async def test_a_pdp_on_each_other_host_is_asked_over_nats_and_directly(server, over_ssh):
    plan = named(server) if over_ssh else None
    expected = count_other_hosts(plan)
    async with Fabrics(Population(objects=2), SEED, unshipped, plan) as fabrics:
        hosts = fabrics.enter_context(other_hosts(plan))
        assert len(hosts) == expected
        assert expected in ((2,) if over_ssh else (0, NAMESPACES))
        for each in [hosts[:1], hosts] if hosts else []:
            running = await fabrics.start(pdps=len(each), hosts=each)
            assert [address.partition(":")[0] for address in running.direct] == [host.there for host in each]
            for variant in (await fabrics.direct_pep(running), await fabrics.pep(running.url)):
                assert (await variant.ask(Request.of("anybody", "/objects/0", "read"))) is not None


def test_hosts_are_part_of_a_plan_and_are_checked():
    hosts = Hosts(here="10.0.0.5", remote=(RemoteHost(ssh="pdp@far", address="10.0.0.7"),))
    assert msgspec.convert(msgspec.to_builtins(hosts), Hosts) == hosts
    for wrong in ({"here": "a", "remote": []}, {"here": "a", "remote": [{"ssh": "", "address": "b"}]}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Hosts)
