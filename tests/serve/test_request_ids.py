"""The id of a request is in the answer and in the log."""

import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
from serve.conftest import RunningServer
from websockets.sync.client import connect

from ds2.serve.application import Application
from ds2.serve.config import ServeConfig
from ds2.serve.logs import REQUEST
from ds2.serve.server import Server, _settings


def test_a_request_has_an_id_in_its_answer_and_in_the_log(start: Callable[..., RunningServer]) -> None:
    """The client's own where it is short and plain; else a new one."""
    server = start()

    def refused(**headers: str) -> str:
        return httpx.get(f"{server.url}/healthz", headers={"host": "elsewhere", **headers}).headers["x-request-id"]

    ids = [refused(**{"x-request-id": "client-7.a_b"}), refused(**{"x-request-id": "7" * 65}), refused(), refused()]
    assert ids[0] == "client-7.a_b"
    assert len(set(ids)) == 4
    assert all(len(each) == 32 for each in ids[1:])
    with connect(server.live, additional_headers={"X-Request-ID": "stream-1"}) as client:
        assert client.response is not None
        assert client.response.headers["x-request-id"] == "stream-1"
        client.send('{"eof": 1}')
        client.recv(60)
    lines = server.stop()
    assert [line["request"] for line in lines if line["event"] == "refused"] == ids
    assert [line["request"] for line in lines if line["event"] == "stream"] == ["stream-1"]
    assert all("request" not in line for line in lines if line["event"] == "draining")


def test_a_signal_during_a_request_drains_without_its_id() -> None:
    """A signal interrupts whatever task runs."""
    application, ids = Application(ServeConfig(), Path("model.safetensors")), []
    server = Server(_settings(application))
    server.application, server.started = application, True

    async def request() -> None:
        REQUEST.set("client-7")
        server.handle_exit(signal.SIGTERM, None)
        while not server.should_exit:
            await asyncio.sleep(0.001)

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ids.append((record.getMessage(), REQUEST.get()))

    log, seen = logging.getLogger("ds2.serve"), Seen(logging.INFO)
    level = log.level
    log.addHandler(seen)
    log.setLevel(logging.INFO)
    try:
        asyncio.run(request())
    finally:
        log.removeHandler(seen)
        log.setLevel(level)
    assert ids == [("draining", "")]
