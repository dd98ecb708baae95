"""Spans of uploads and live streams, as a collector gets them."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest
from serve.conftest import RunningServer
from websockets.sync.client import connect

service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Its URL, and the spans that it gets."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = service.ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
            spans.extend(span for part in request.resource_spans for each in part.scope_spans for span in each.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever).start()
        yield f"http://127.0.0.1:{listening.server_port}/v1/traces", spans
        listening.shutdown()


def test_an_upload_and_a_stream_have_spans(
    start: Callable[..., RunningServer], collector: tuple[str, list[Any]]
) -> None:
    """The upload's lies in the client's trace; what the log says is in them, the page has none."""
    url, spans = collector
    server = start(environment={"DS2_SERVE_TRACES": url, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"})
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "upload-1"}
    files = {"file": ("bad.wav", b"no sound")}
    answer = httpx.post(
        f"{server.url}/v1/audio/transcriptions", files=files, data={"model": "whisper-1"}, headers=headers
    )
    assert answer.status_code == 400
    with connect(server.live) as client:
        client.send('{"eof": 1}')
        client.recv(60)
    assert server.get("/")
    server.stop()
    upload, stream = sorted(spans, key=lambda span: span.name, reverse=True)
    assert (upload.name, stream.name) == ("POST /v1/audio/transcriptions", "GET /")
    assert (upload.trace_id.hex(), upload.parent_span_id.hex()) == (TRACE, "b7ad6b7169203331")
    assert stream.trace_id.hex() != TRACE
    known = {each.key: each.value for each in upload.attributes}
    assert (known["ds2.request"].string_value, known["http.response.status_code"].int_value) == ("upload-1", 400)
    assert [[event.name for event in span.events] for span in (upload, stream)] == [["refused"], ["stream"]]
