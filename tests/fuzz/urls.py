"""Hostile URLs in manifests: chains and protocols of fsspec, hosts of a private network in every notation, ways up.

Names resolve to chosen addresses, and an audit hook refuses every connection, so no packet leaves this machine. Nothing
may connect to a private address, start a program, or write outside of the mirror.
"""

import contextlib
import functools
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import fsspec
from fuzz.kind import Files, Kind
from fuzz.mutations import mutated_text

from ds2.data.manifest import read_manifest
from ds2.utils import object_storage
from ds2.utils.object_storage import fetched, url_of

NAMES = {"public.example": "8.8.8.8", "inside.example": "10.0.0.1", "six.example": "fd00::1", "localhost": "127.0.0.1"}
HOSTS = (
    *NAMES, "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]",
    "[fe80::1%25lo]", "169.254.169.254", "[64:ff9b::7f00:1]", "100.64.0.1", "8.8.8.8@127.0.0.1", "127.0.0.1#@8.8.8.8",
    "8.8.8.8\\@127.0.0.1",
    "ⓛocalhost", "１２７.0.0.1", "localhost.", "bucket", "", "a" * 300, "a..b", "xn--",
)  # fmt: skip
PORTS = ("", "", ":443", ":22", ":0", ":99999", ":-1", ":x", ":")
PARTS = (
    "a.wav",
    "corpus",
    "..",
    ".",
    "%2e%2e",
    "..%2f..%2fetc",
    "~",
    "$HOME",
    "\\..",
    "a\0b",
    "*",
    "[a-z]",
    "é",
    " ",
    "",
    "a" * 300,
)
TAILS = ("", "", "?x=1", "#x", "?versionId=../x", "::file:///etc/passwd", "::zip://a", "::https://127.0.0.1/a")
PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")


class Watch:
    """What was done that a manifest must not do."""

    def __init__(self) -> None:
        self.allowed: Path | None = None  # None: it does not watch
        self.found: list[str] = []
        sys.addaudithook(self.see)

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None:
            return
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            address = ipaddress.ip_address(arguments[1][0].partition("%")[0])
            if not address.is_global:
                self.found.append(f"connects to {address}")
            raise ConnectionRefusedError("no packet leaves the fuzzer")
        if event in PROGRAMS:
            self.found.append(f"starts {arguments[:2]}")
        if event == "open" and isinstance(arguments[0], str) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            path = os.path.abspath(arguments[0])
            if not path.startswith(f"{self.allowed}{os.sep}") and path != os.devnull:
                self.found.append(f"writes {path}")

    @contextlib.contextmanager
    def over(self, mirror: Path) -> Iterator[None]:
        self.allowed, self.found = mirror, []
        try:
            yield
        finally:
            self.allowed = None


def seeds() -> list[Files]:
    return [_manifest("a.wav"), _manifest("s3://bucket/corpus/a.wav"), _manifest("gs://bucket/a.wav")]


def make(rng: Random, valid: list[Files]) -> Files:
    """A URL put together of its parts; a few with random changes of their letters."""
    del valid
    protocols = sorted(fsspec.available_protocols())
    protocol = rng.choice(("https", "https", "https", "s3", "gs", "file", "HTTPS", rng.choice(protocols)))
    path = "/".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 4)))
    url = f"{protocol}://{rng.choice(HOSTS)}{rng.choice(PORTS)}/{path}{rng.choice(TAILS)}"
    if rng.random() < 0.2:
        url = f"{rng.choice(protocols)}://{rng.choice(('', 'a.json', 'https', 'x'))}::{url}"
    if rng.random() < 0.2:
        url = mutated_text(rng, url).decode(errors="surrogateescape")
    return _manifest(url)


def _manifest(url: str) -> Files:
    return {"manifest.jsonl": json.dumps({"audio_filepath": url, "duration": 1.0, "text": "one"}).encode() + b"\n"}


def enter(path: Path) -> None:
    """Reads the manifest, and fetches what lies on the web; of buckets only the place in the mirror is looked at."""
    mirror = path.parent.absolute() / "mirror"
    with (
        mock.patch.dict(os.environ, DS2_CACHE=str(mirror)),
        mock.patch.object(object_storage, "WAITS", ()),
        mock.patch.object(socket, "getaddrinfo", functools.partial(_resolved, socket.getaddrinfo)),
    ):
        for utterance in read_manifest(path):
            url = url_of(utterance.audio_path)
            if url is None:
                continue
            assert os.path.normpath(utterance.audio_path).startswith(f"{mirror}{os.sep}")
            if not url.startswith(("s3:", "gs:")):
                with _watch().over(mirror):
                    fetched(utterance.audio_path)
    assert _watch().found == []


@functools.cache
def _watch() -> Watch:
    """An audit hook stays for ever, so there is one."""
    return Watch()


def _resolved(resolve: Any, host: str | bytes | None, port: Any, *arguments: Any, **options: Any) -> Any:
    """Numbers as the system reads them, and the names above; nobody is asked."""
    name = host.decode() if isinstance(host, bytes) else host or ""
    try:
        return resolve(NAMES.get(name.lower(), name), port, *arguments, **options | {"flags": socket.AI_NUMERICHOST})
    except TypeError:  # `flags` was the last of the arguments
        return resolve(NAMES.get(name.lower(), name), port, *arguments[:-1], socket.AI_NUMERICHOST)


KIND = Kind(seeds, make, enter)
