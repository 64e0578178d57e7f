"""OpenTelemetry traces, for processes in which somebody has switched them on. Else nothing is loaded, and nothing done.

A service's own spans are continued. The processes of the fabric follow the standard variables, OTEL_*.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from random import random
from types import ModuleType
from typing import TYPE_CHECKING

from authz import Decision

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer

NAME = "authfabric"
MAX_LINKS = 32
"""Callers, besides the first, to whose spans the span of a batch is linked."""
_PARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_log = logging.getLogger("authfabric.traces")


class Traces:
    """The traces of this process."""

    def __init__(self) -> None:
        self.on = False
        self._tracer: Tracer
        self._share = 0.0
        """The share of questions that begin a trace where there is none."""
        self.context: Callable[[], Mapping[str, object]] = dict
        """What the current task carries: where it is empty, there is no span."""

    def start(self, service: str) -> None:
        """Export this process's spans, if the environment says where to."""
        if not wanted(os.environ):
            return
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import DEFAULT_ON
        except ModuleNotFoundError:
            _log.warning("no traces: OTEL_* asks for some, which needs `pip install 'authfabric[otel]'`")
            return
        resource = Resource({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
        share = parent_based_share(os.environ)
        provider = TracerProvider(sampler=None if share is None else DEFAULT_ON, resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
        self.use(provider.get_tracer(NAME), 1.0 if share is None else share)

    def adopt(self) -> None:
        """Continue the traces of the service that this is part of, if it makes any; none begins here."""
        if self.on or "opentelemetry.sdk.trace" not in sys.modules:
            return
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        provider = trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            self.use(provider.get_tracer(NAME))

    def use(self, tracer: Tracer | None, share: float = 0.0) -> None:
        """Make spans with this tracer, and new traces for this share of requests; None switches tracing off."""
        if tracer is not None:
            from opentelemetry import context, trace

            self._tracer, self._share = tracer, share
            self.context, self._attach, self._detach = _reader(context), context.attach, context.detach
            self._span, self._holding = trace.get_current_span, trace.set_span_in_context
        self.on = tracer is not None

    def draw(self) -> bool:
        """Whether there is to be a span: in a trace that is sampled, or as the first of a new one, for a share of them.

        It is asked first: what a span says is put together only for one that is made.
        """
        return self.sampled() is not None if self.context() else random() < self._share

    def begin(self, name: str, **attributes: str | int) -> OpenSpan:
        """A span in the current trace, or the first of a new one, where `draw` says so."""
        span = self._tracer.start_span(name)
        token = self._attach(self._holding(span))
        return OpenSpan(span, attributes, lambda: self._detach(token))

    def sampled(self) -> SpanContext | None:
        """What the current span is called, if it is exported."""
        if not self.context():
            return None
        found = self._span().get_span_context()
        return found if found.trace_flags.sampled else None

    def begin_for(
        self, name: str, callers: Sequence[SpanContext], **attributes: str | int
    ) -> OpenSpan | None:
        """A span below that of the first caller, and linked to those of the others."""
        if not self.on or not callers:
            return None
        from opentelemetry import trace

        above = trace.set_span_in_context(trace.NonRecordingSpan(callers[0]))
        others = {each.span_id: each for each in callers if each.span_id != callers[0].span_id}
        links = [trace.Link(each) for each in others.values()]
        return OpenSpan(self._tracer.start_span(name, above, links=links[:MAX_LINKS]), attributes)

    @contextlib.contextmanager
    def continued(self, name: str, parent: str, **attributes: str | int) -> Iterator[None]:
        """A span below one of another process, which is the current one within the block."""
        if not self.on or not _PARENT.fullmatch(parent):
            yield
            return
        from opentelemetry import trace

        ids = int(parent[3:35], 16), int(parent[36:52], 16)
        flags = trace.TraceFlags(int(parent[53:], 16))
        above = trace.NonRecordingSpan(trace.SpanContext(*ids, is_remote=True, trace_flags=flags))
        with self._tracer.start_as_current_span(
            name, trace.set_span_in_context(above), trace.SpanKind.SERVER, attributes
        ):
            yield


class OpenSpan:
    """A span that has begun."""

    __slots__ = ("_attributes", "_leave", "_span")

    def __init__(
        self, span: Span, attributes: Mapping[str, str | int], leave: Callable[[], None] | None = None
    ) -> None:
        """`leave` makes it the current one no longer, if it is. The attributes are set, all at once, when it ends."""
        self._span = span
        self._attributes = dict[str, str | int](attributes)
        self._leave = leave

    @property
    def parent(self) -> str:
        """How others are told what their spans are below: a W3C `traceparent`."""
        found = self._span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"

    def event(self, name: str, **attributes: str | int) -> None:
        self._span.add_event(name, attributes)

    def end(self, decision: Decision | None = None) -> None:
        """It is over, with this decision if there is one."""
        attributes = self._attributes
        if decision is not None:
            attributes["authfabric.effect"] = decision.effect
            attributes["authfabric.reason"] = str(decision.reason)
            attributes["authfabric.epoch"] = decision.epoch
        self._span.set_attributes(attributes)
        if self._leave is not None:
            self._leave()
        self._span.end()


def _reader(context: ModuleType) -> Callable[[], Mapping[str, object]]:
    """How the current context is read: straight from its variable where there is one, for every question asks."""
    variable = getattr(getattr(context, "_RUNTIME_CONTEXT", None), "_current_context", None)
    read: Callable[[], Mapping[str, object]] = (
        variable.get if isinstance(variable, ContextVar) else context.get_current
    )
    return read


def wanted(environment: os._Environ[str] | dict[str, str]) -> bool:
    """Whether the standard variables ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER")
    if exporter is None:
        return any(environment.get(each) for each in _ENDPOINTS)
    return exporter == "otlp"


def parent_based_share(environment: os._Environ[str] | dict[str, str]) -> float | None:
    """The share of new traces that are sampled, by the standard variables; None if callers have no say in it.

    It is drawn before a span is made, since one that is not sampled costs as much as a question.
    """
    sampler = environment.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    if sampler == "parentbased_traceidratio":
        with contextlib.suppress(ValueError):
            return float(environment.get("OTEL_TRACES_SAMPLER_ARG", "1"))
    return {"parentbased_always_on": 1.0, "parentbased_always_off": 0.0}.get(sampler)


TRACES = Traces()
