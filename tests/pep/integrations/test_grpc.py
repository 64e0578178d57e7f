"""gRPC servers on asyncio and with threads: a denial, a failure and an obligation, as a client sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bus.server import NatsServer, free_ports
from tests.pep.integrations.services import process, wait_until

grpc = pytest.importorskip("grpc")


class Client:
    def __init__(self, port: int) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def call(self, method: str, message: object, user: str = "") -> object:
        kind = self._channel.unary_stream if method == "Watch" else self._channel.unary_unary
        ask = kind(f"/examples.Documents/{method}", lambda it: json.dumps(it).encode(), json.loads)
        done = ask(message, metadata=[("user", user)] if user else None, timeout=30)
        return list(done) if method == "Watch" else done


@pytest.fixture(scope="module", params=["asyncio", "threads"])
def pair(request: pytest.FixtureRequest, server: NatsServer) -> Iterator[tuple[Client, Client]]:
    ports = free_ports(2)
    words = ["threads"] if request.param == "threads" else []
    with (
        process("grpc_service.py", str(ports[0]), *words) as one,
        process("grpc_service.py", str(ports[1]), *words, nats=server.url) as other,
    ):
        deciding, failing = Client(ports[0]), Client(ports[1])
        wait_until(lambda: deciding.call("Health", {}), one)
        wait_until(lambda: failing.call("Health", {}), other)
        yield deciding, failing


def refusal(client: Client, method: str, message: object, user: str) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as raised:
        client.call(method, message, user)
    return raised.value


def test_who_may_is_served_and_who_may_not_is_told_no_more_than_that(pair):
    deciding, _ = pair
    assert deciding.call("Read", {"id": "1"}, "ann") == {"title": "Ann's contract", "salary": 5000}
    denied = refusal(deciding, "Read", {"id": "1"}, "mallory")
    assert denied.code() is grpc.StatusCode.PERMISSION_DENIED
    assert denied.details() == "You may not do this."


def test_an_obligation_is_met_in_each_message_or_the_call_is_denied(pair):
    deciding, _ = pair
    assert deciding.call("Read", {"id": "1"}, "bob") == {"title": "Ann's contract"}
    assert deciding.call("Watch", {}, "bob") == [{"title": "Ann's contract"}, {"title": "Menu"}]
    assert refusal(deciding, "Read", {"id": "1"}, "carol").code() is grpc.StatusCode.PERMISSION_DENIED
    assert refusal(deciding, "Watch", {}, "mallory").code() is grpc.StatusCode.PERMISSION_DENIED


def test_without_a_pdp_nobody_is_let_through(pair):
    _, failing = pair
    failed = refusal(failing, "Read", {"id": "1"}, "ann")
    assert failed.code() is grpc.StatusCode.UNAVAILABLE
    assert ("retry-after", "1") in [tuple(each) for each in failed.trailing_metadata()]


def test_a_method_without_a_route_is_denied_and_no_name_leads_elsewhere(pair):
    deciding, _ = pair
    assert refusal(deciding, "Forgotten", {"id": "1"}, "ann").code() is grpc.StatusCode.PERMISSION_DENIED
    for name in ("../hr", "1/2", ""):
        failed = refusal(deciding, "Read", {"id": name}, "ann")
        assert failed.code() is grpc.StatusCode.INVALID_ARGUMENT
