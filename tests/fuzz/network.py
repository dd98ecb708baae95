"""Hostile clients: requests of HTTP, and messages over a WebSocket."""

import json
import re
import struct
from pathlib import Path
from random import Random

from fuzz.kind import Files, Kind
from fuzz.mutations import NUMBERS, WORDS, dumped, mutated, mutated_json, mutated_text
from fuzz.target import UPLOAD, attack

from ds2.utils.errors import InputError

PATHS = (
    "/",
    "/page.js",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/metrics",
    "/v1/models",
    "/v1/models/x",
    "/v1/models/digits-streaming",
    "/v1/audio/transcriptions",
    "/../x",
    "*",
)
HEADERS = (
    "Transfer-Encoding: chunked",
    "Content-Length: 5",
    "Content-Length: 99999999999999999999",
    "Content-Length: -1",
    "Expect: 100-continue",
    "Connection: Upgrade, keep-alive",
    "Upgrade: websocket",
    "Upgrade: h2c",
    "Host: evil.example",
    "Host: [::1",
    "Origin: http://[",
    "Authorization: Bearer \xff\xfe",
    "X-Forwarded-For: 1.2.3.4",
    "Range: bytes=5-",
    "Sec-WebSocket-Protocol: ds2.key.%ff%00, ds2",
    "Sec-WebSocket-Version: 12",
    "Content-Type: application/x-www-form-urlencoded",
    "Content-Type: multipart/form-data",
    "Content-Encoding: gzip",
    " folded: x",
    "A" * 70_000 + ": x",
    "No colon",
)
FIELDS = (
    "model",
    "language",
    "prompt",
    "response_format",
    "temperature",
    "stream",
    "timestamp_granularities[]",
    "file",
)
VALUES = ("json", "text", "srt", "vtt", "verbose_json", "true", "word", "segment", "0.5", *WORDS)
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
TALK = [
    {
        "config": {
            "sample_rate": 16000,
            "words": True,
            "max_alternatives": 2,
            "encoding": "pcm16",
            "push": False,
            "model": "",
        }
    },
    {"reset": 1},
    {"eof": 1},
]
SPLIT = b"\0next\0"  # between the messages of an input: each is sent after an answer to the one before


def http_seeds() -> list[Files]:
    """The page, what a monitor asks for, an upload, an upload in chunks."""
    gets = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in ("/", "/readyz", "/v1/models")]
    body = _form([("response_format", "verbose_json"), ("stream", "false")], UPLOAD)
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: multipart/form-data; boundary=x\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    uploads = [head + b"Content-Length: %d\r\n\r\n" % len(body) + body, head + chunked]
    return [{"request": request} for request in [*gets, *uploads]]


def _form(fields: list[tuple[str, str]], file: bytes) -> bytes:
    parts = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in fields]
    head = "".join(parts).encode("utf-8", "surrogatepass")
    return head + b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + file + b"\r\n--x--\r\n"


def make_http(rng: Random, valid: list[Files]) -> Files:
    """Headers, fields or any bytes changed; half of the bodies have the length that they claim."""
    if rng.random() < 0.2:
        fields = [(rng.choice(FIELDS), rng.choice(VALUES)) for _ in range(rng.choice((1, 3, 60)))]
        body = _form(fields, rng.choice((b"", UPLOAD, mutated(rng, UPLOAD))))
        head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x"
        request = head + b"\r\nContent-Length: 0\r\n\r\n" + body
        return {"request": _measured(request)}
    request = rng.choice(valid)["request"]
    head, _, body = request.partition(b"\r\n\r\n")
    match rng.randrange(4):
        case 0:
            request = mutated(rng, request, rng.choice(valid)["request"])
        case 1:
            request = mutated_text(rng, head.decode()) + b"\r\n\r\n" + body
        case 2:
            request = head + b"\r\n\r\n" + mutated(rng, body)
        case 3:
            lines = head.decode().split("\r\n")
            lines[0] = (
                f"{rng.choice(('GET', 'POST', 'HEAD', 'PUT', 'X'))} {rng.choice(PATHS)} HTTP/1.{rng.randrange(3)}"
            )
            for _ in range(rng.choice((1, 2, 200))):
                lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(HEADERS))
            request = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    request = _measured(request) if rng.random() < 0.5 else request
    if rng.random() < 0.2:
        request += rng.choice((b"", SPLIT)) + rng.choice(valid)["request"]  # another in the same connection
    return {"request": request}


def _measured(request: bytes) -> bytes:
    """With the right Content-Length."""
    body = request.partition(b"\r\n\r\n")[2]
    return re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), request, count=1)


def socket_seeds() -> list[Files]:
    """A conversation: the format, sound, its end."""
    messages = [_frame(TEXT, json.dumps(TALK[0]).encode()), _frame(BINARY, bytes(16_000))]
    messages += [_frame(TEXT, json.dumps(talk).encode()) for talk in TALK[2:]]
    return [{"messages": SPLIT.join(messages)}]


def _frame(opcode: int, data: bytes, first: int = 0x80, claimed: int | None = None, mask: bytes = b"\1\2\3\4") -> bytes:
    """A frame of a client; `first`: FIN and reserved bits; `claimed`: a length other than the real one."""
    size = len(data) if claimed is None else claimed
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = b"\xfe" + struct.pack(">H", size) if size < 2**16 else b"\xff" + struct.pack(">Q", size % 2**64)
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(data), "big")
    return bytes([first | opcode]) + length + mask + masked


def make_socket(rng: Random, valid: list[Files]) -> Files:
    """A conversation of hostile messages; some of its frames break the protocol itself."""
    messages = [_message(rng) for _ in range(rng.choice((1, 2, 5)))]
    if rng.random() < 0.1:
        messages = [mutated(rng, valid[0]["messages"].replace(SPLIT, b""))]
    if rng.random() < 0.1:
        messages *= 200
        return {"messages": b"".join(messages)}  # at once
    return {"messages": SPLIT.join(messages)}


def _message(rng: Random) -> bytes:
    match rng.randrange(8):
        case 0 | 1 | 2:
            return _frame(TEXT, dumped(mutated_json(rng, rng.choice(TALK)))[: 1 << 20])
        case 3:
            return _frame(TEXT, rng.choice((b"\xff\xfe", b"[" * 5000, b"9" * 5000, b"null", b"", b'{"eof": 1}')))
        case 4 | 5:
            return _frame(BINARY, rng.randbytes(rng.choice((0, 1, 3, 1000, 32_000, 200_000))))
        case 6:
            first, opcode = rng.choice((0x80, 0, 0x90, 0xC0, 0xF0)), rng.randrange(16)
            return _frame(opcode, rng.randbytes(rng.choice((0, 2, 125, 200))), first)
        case _:
            return _frame(rng.choice((TEXT, BINARY, CLOSE, PING)), rng.randbytes(10), claimed=rng.choice(NUMBERS))


def enter_http(path: Path) -> None:
    """An answer that is an error is no fault of the server, but one of its own (500) is."""
    answer = attack(*path.read_bytes().split(SPLIT))
    status = re.match(rb"HTTP/1\.1 (\d\d\d)", answer)
    if status and status[1] == b"500":
        raise AssertionError(answer[:1000])
    if status and status[1] >= b"400":
        raise InputError(f"status {status[1].decode()}")


def enter_socket(path: Path) -> None:
    answer = attack(*path.read_bytes().split(SPLIT), opening=UPGRADE)
    if b'"error"' in answer:
        raise InputError("refused")


HTTP = Kind(http_seeds, make_http, enter_http)
SOCKET = Kind(socket_seeds, make_socket, enter_socket)
