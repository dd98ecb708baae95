"""Traces of requests by OpenTelemetry, where `traces` names a collector; needs the extra telemetry."""

import logging
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ds2.serve.logs import REQUEST
from ds2.utils.version import VERSION

UPLOADS = "/v1/audio/transcriptions"


class Traces:
    """A span for each upload and each live stream, in the trace that the client's `traceparent` names.

    What the log says of a request is in its span, too, as events. A thread sends the spans; the rest of them is sent
    when the process ends.
    """

    def __init__(self, app: ASGIApp, collector: str):
        """`collector`: the URL that takes OTLP over HTTP."""
        provider = TracerProvider(resource=Resource.create({"service.name": "ds2", "service.version": VERSION}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(collector)))
        self.app, self.tracer = app, provider.get_tracer("ds2.serve", VERSION)
        logging.getLogger("ds2.serve").addHandler(_Events())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, and times it unless it is for a page or for Prometheus."""
        if scope["type"] != "websocket" and scope.get("path") != UPLOADS:
            await self.app(scope, receive, send)
            return
        parent = TraceContextTextMapPropagator().extract(Headers(scope=scope))
        method = scope.get("method", "GET")
        known: dict[str, Any] = {"http.request.method": method, "url.path": scope["path"], "ds2.request": REQUEST.get()}

        async def sending(message: Message) -> None:
            if message["type"].endswith("http.response.start"):
                span.set_attribute("http.response.status_code", message["status"])
            await send(message)

        with self.tracer.start_as_current_span(
            f"{method} {scope['path']}", parent, trace.SpanKind.SERVER, known
        ) as span:
            await self.app(scope, receive, sending)


class _Events(logging.Handler):
    """Makes the lines of the log events of the span that they belong to."""

    def emit(self, record: logging.LogRecord) -> None:
        """Adds the line to the current span, if there is one."""
        trace.get_current_span().add_event(record.getMessage(), getattr(record, "facts", {}))
