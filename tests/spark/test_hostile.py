"""Servers and saved stages that mean no good; no cluster is needed to meet them."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import Row

from ds2.spark.http import transcribe_by_server
from ds2.spark.shipped_files import restore
from ds2.utils.errors import InputError


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers each request with what the class holds."""

    status = 200
    answer = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.send_header("Retry-After", "²")
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def settings() -> Iterator[dict[str, Any]]:
    with http.server.HTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"url": f"http://127.0.0.1:{server.server_port}", "timeout": 60.0, "retries": 0, "concurrency": 1}
        server.shutdown()


@pytest.mark.parametrize(
    "answer",
    [
        [1],
        5,
        None,
        {"text": "one"},
        {"text": "one", "duration": "long"},
        {"text": "one", "duration": 1, "words": [1]},
        {"text": "one", "duration": 1, "words": [{"word": "one", "start": "x", "end": 1}]},
    ],
)
def test_an_answer_that_is_no_transcript_is_an_error_of_its_row(settings: dict[str, Any], answer: Any) -> None:
    Hostile.status, Hostile.answer = 200, json.dumps(answer).encode()
    result = transcribe_by_server(settings, {"audio": b"x", "path": "a.wav"})
    assert isinstance(result, InputError)
    assert str(result).startswith("a.wav: http://127.0.0.1:")


def test_a_refusal_is_an_error_of_its_row(settings: dict[str, Any]) -> None:
    Hostile.status, Hostile.answer = 503, b"busy"
    assert "503, busy" in str(transcribe_by_server(settings, {"audio": b"x", "path": "a.wav"}))


@pytest.mark.parametrize(("setting", "name"), [("../../x", "a.bin"), ("model", ".."), ("other", "a.bin")])
def test_a_saved_stage_writes_only_into_its_folder(setting: str, name: str) -> None:
    with pytest.raises(InputError, match="a saved stage has no file"):
        restore([Row(setting=setting, number=0, name=name, at=0, data=b"x")], ["model"])


def test_the_files_of_a_saved_stage_are_restored() -> None:
    rows = [Row(setting="model", number=0, name="../a.bin", at=at, data=data) for at, data in enumerate((b"x", b"y"))]
    [path] = restore(rows, ["model", "lm"])["model"]
    assert (path.name, path.read_bytes()) == ("a.bin", b"xy")
