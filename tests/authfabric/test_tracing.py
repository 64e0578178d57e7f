"""One trace from a service through its PEP and the bus to a PDP's process, which exports to a collector of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from authfabric.files import DEFAULT_POLICIES
from authfabric.processes import fabric
from bus.runtime import TRACES
from bus.runtime.tracing import parent_based_share, wanted
from pep import Enforcer
from tests.waiting import eventually


class Collector:
    """What an OTLP collector has been sent: spans by name, with their service."""

    def __init__(self):
        self.spans = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, export):
        for resource in export.resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(about["service.name"], span) for span in scope.spans]

    def named(self, name):
        return [(service, span) for service, span in list(self.spans) if span.name == name]


@pytest.fixture
def collector(monkeypatch):
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def service():
    """A service's tracer, whose traces are continued, and what it has exported."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    TRACES.use(provider.get_tracer("authfabric"))
    yield provider.get_tracer("service"), exporter
    TRACES.use(None)


async def test_one_trace_goes_from_the_service_to_the_process_that_decides(collector, service):
    tracer, exporter = service
    async with (
        fabric(1, policies=DEFAULT_POLICIES) as running,
        Enforcer.connect(running.url, trust=[running.root.public], recycling=None, deadline=20.0) as pep,
    ):
        unsampled = await pep.check("alice", "/sales/q0", "read")
        with tracer.start_as_current_span("request") as request:
            decision = await pep.check("alice", "/sales/q1", "read")
        assert [unsampled.allowed, decision.allowed] == [True, True]
        await eventually(lambda: collector.named("authfabric.decide"), seconds=20.0)
        ((process, decided),) = collector.named("authfabric.decide")
    mine = {span.name: span for span in exporter.get_finished_spans()}
    assert set(mine) == {"request", "authfabric.check", "authfabric.ask"}
    trace = request.get_span_context().trace_id
    assert {span.context.trace_id for span in mine.values()} == {trace}
    assert mine["authfabric.check"].attributes["authfabric.effect"] == "allow"
    assert mine["authfabric.ask"].parent.span_id == mine["authfabric.check"].context.span_id
    assert process == "authfabric-pdp"
    assert int.from_bytes(decided.trace_id) == trace
    assert int.from_bytes(decided.parent_span_id) == mine["authfabric.ask"].context.span_id


async def test_questions_of_several_requests_in_one_batch_are_linked(service):
    tracer, exporter = service
    contexts = []
    for name in ("one", "two"):
        with tracer.start_as_current_span(name):
            contexts.append(TRACES.sampled())
    TRACES.begin_for("authfabric.ask", [*contexts, contexts[1]]).end()
    span = exporter.get_finished_spans()[-1]
    assert span.context.trace_id == contexts[0].trace_id
    assert [each.context.span_id for each in span.links] == [contexts[1].span_id]


def test_a_parent_that_cannot_be_read_begins_no_span(service):
    _, exporter = service
    for parent in ("", "00-zz", "00-" + "0" * 31 + "-1-01", "00-" + "a" * 32 + "-" + "b" * 16 + "-01\n"):
        with TRACES.continued("authfabric.decide", parent):
            pass
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, False),
    ],
)
def test_the_standard_variables_say_whether_there_are_traces(environment, asked):
    assert wanted(environment) is asked


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}, 0.01),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}, None),
    ],
)
def test_the_standard_variables_say_how_many_traces_begin(environment, share):
    assert parent_based_share(environment) == share


@pytest.mark.parametrize(("share", "spans"), [(1.0, 1), (0.0, 0)])
def test_a_process_of_the_fabric_begins_the_share_of_traces_that_is_configured(service, share, spans):
    _, exporter = service
    TRACES.use(TRACES._tracer, share)
    if TRACES.draw():
        TRACES.begin("authfabric.check").end()
    assert len(exporter.get_finished_spans()) == spans


def test_without_them_nothing_is_loaded():
    program = (
        "import sys, pep, pdp.replica; from bus.runtime import TRACES; TRACES.start('x'); TRACES.adopt();"
        " print(TRACES.on, [each for each in sys.modules if each.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False []\n"
