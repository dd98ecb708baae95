"""Files from servers: by https alone, wherever it is redirected, and resumed where an earlier transfer broke off."""

import contextlib
import ipaddress
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ds2.utils.errors import InputError
from ds2.utils.progress import Progress

BLOCK = 1 << 20  # bytes read at a time, at most
TIMEOUT = 60.0  # seconds without a byte
NOTHING_FOLLOWS = 416  # the status for a range that begins at the end of a file


def receive(source: str, sink: IO[bytes], name: str, size: int | None = None) -> None:
    """Appends what an open file lacks of a source, a URL or a path; it begins anew where a server has no ranges.

    `name` stands beside the progress; `size` in bytes, where it is known; otherwise the server says where it ends.

    Raises:
        InputError: the source is longer than its size, or a URL leads where it must not.
        OSError, HTTPException: it breaks off, or cannot be written.
    """
    here = sink.seek(0, os.SEEK_END)
    if here == size:
        return
    with _opened(source, here) as (stream, start, end):
        if start != here:
            sink.truncate(start)
        end = end if size is None else size
        with Progress(name, (end or 0) >> 20, "MiB", start=start >> 20) as progress:
            while block := stream.read1(BLOCK if end is None else min(BLOCK, end - start)):
                sink.write(block)
                sink.flush()
                start += len(block)
                progress.step(len(block) / (1 << 20))
        if end is not None and start < end:
            raise OSError(f"broke off {end - start:,} bytes before its end")
        if size is not None and stream.read(1):
            Path(sink.name).unlink()
            raise InputError(f"{source}: longer than the {size:,} bytes that the index names")


@contextlib.contextmanager
def _opened(source: str, start: int) -> Iterator[tuple[Any, int, int | None]]:
    """A source to read from, the byte that it begins at, and the one before which it ends where a server says so.

    It begins at `start`, or at 0 where a server has no ranges.
    """
    if not is_url(source):
        with open(source, "rb") as file:
            file.seek(start)
            yield file, start, os.fstat(file.fileno()).st_size
        return
    with open_url(source, {"Range": f"bytes={start}-"} if start else {}) as answer:
        resumed = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if answer.status == 206 and not resumed:
            raise OSError("another range than the one that was asked for")
        start = start if resumed else 0
        length = answer.headers.get("Content-Length", "")
        yield answer, start, start + int(length) if length.isdigit() else None


def is_url(source: str) -> bool:
    """Whether the source is an address such as https://..., and no path."""
    return "://" in source


def open_url(url: str, headers: dict[str, str] | None = None) -> Any:
    """The answer to GET, redirections followed to where `check_url` lets them lead.

    Raises:
        InputError: not a URL that is allowed.
        OSError, HTTPException: no answer, or an error of the server.
    """
    check_url(url)
    return urllib.request.build_opener(_CheckedRedirects).open(
        urllib.request.Request(url, headers=headers or {}), timeout=TIMEOUT
    )


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request: Any, *rest: Any) -> urllib.request.Request | None:
        check_url(rest[-1], request.full_url)
        return super().redirect_request(request, *rest)


def check_url(url: str, came_from: str = "") -> None:
    """Refuses all but https, and http of this machine; `came_from` is the page that names the URL or leads to it.

    Raises:
        InputError: another protocol, or a page of the network leads to this machine.
    """
    parts = urllib.parse.urlsplit(url)
    local = _is_loopback(parts.hostname)
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise InputError(f"{url}: not https:// (http:// is for this machine alone)")
    if local and came_from and not _is_loopback(urllib.parse.urlsplit(came_from).hostname):
        raise InputError(f"{came_from}: leads to this machine ({url})")


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
