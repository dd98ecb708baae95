"""A server of files, for downloads."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class FileServer(http.server.ThreadingHTTPServer):
    """Serves a folder, with ranges, and does to the files what the tests tell it."""

    daemon_threads = True

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.asked: list[tuple[str, str | None]] = []  # paths and ranges
        self.cuts: list[int] = []  # bytes after which the next answers break off
        self.ranges = True
        self.chunked = False  # the answer is of chunks, the last of which is missing
        self.wait_behind: dict[str, int] = {}  # bytes after which the answer for a path stands still
        self.redirects: dict[str, str] = {}
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        wanted = self.headers["Range"] if self.server.ranges else None
        self.server.asked.append((self.path, self.headers["Range"]))
        if self.path in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start and start >= len(data):
            self.send_error(416)
            return
        if self.server.chunked:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"8000\r\n" + data[:1000])
            return
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        rest = data[start:]
        if self.server.cuts:
            rest = rest[: self.server.cuts.pop(0)]
        behind = self.server.wait_behind.get(self.path)
        self.wfile.write(rest[:behind])
        if behind is not None:
            self.server.release.wait(60)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    server = FileServer(tmp_path_factory.mktemp("published"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    thread.join()
    server.server_close()
