"""Each upload is decoded in a process of its own, so that a recording that breaks a decoder breaks no other upload.

    server --- link of the upload -----------------------> decoder: an order in, chunks of sound out
       \\-- links --> forker: has imported libsndfile and FFmpeg, holds nothing of any client --fork--^

A decoder has limits of memory and processor time, and ends when the server closes its link.
"""

import asyncio
import contextlib
import json
import logging
import math
import multiprocessing
import os
import resource
import signal
import socket
import struct
import threading
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from typing import IO, Any

from ds2.serve.logs import JsonLines
from ds2.serve.upload_sound import CHUNK_SECONDS, iter_upload
from ds2.utils.errors import InputError, TooLong
from ds2.utils.forks import die_with_parent, name_process

log = logging.getLogger("ds2.serve")
DECODER_BYTES = 48 << 20  # of address space that a decoder may add to the forker's; an hour of AAC takes 9 MB
LEAST_SECONDS = 20.0  # of the processor that a decoder may use
SPEED = 20.0  # by which decoding must be faster than the longest recording that is allowed
QUICK_SECONDS = 1  # of the processor, after which a decoder leaves precedence to others
PRECEDENCE = 15  # that it leaves: 1/28 of a process of common precedence
NAME = "ds2-forker"
ORDER_BYTES = 4096
ERROR_BYTES = 8192  # of a message that says why a file was refused
# What a decoder answers: one of these, the bytes that follow, these bytes.
ANSWER = struct.Struct("<cI")
SOUND, END, BAD, TOO_LONG = b"s", b"e", b"b", b"t"


@dataclass(frozen=True)
class Order:
    """What a decoder is asked for, beside the file: see `iter_upload`."""

    name: str
    sample_rate: int  # Hz
    longest: float  # seconds
    channel: int | None = None  # from 1 on


class DecodersFailed(Exception):
    """The forker has ended."""


class Decoders:
    """The forker as the server sees it; it starts with the first upload, and again after it was lost."""

    def __init__(self) -> None:
        self.forker: multiprocessing.process.BaseProcess | None = None
        self.links: socket.socket  # to the forker

    async def chunks(self, file: IO[bytes], order: Order) -> AsyncGenerator[bytes, None]:
        """What `iter_upload` yields, and raises. A decoder that breaks raises InputError.

        Raises:
            OSError: the file cannot be stored, or no process can be started. DecodersFailed: the forker has ended.
        """
        reader, writer = await asyncio.open_unix_connection(sock=self._begin(file, order))
        most = max(ERROR_BYTES, round(CHUNK_SECONDS * order.sample_rate) * 4)
        try:
            while True:
                kind, size = ANSWER.unpack(await reader.readexactly(ANSWER.size))
                data = await reader.readexactly(size) if size <= most else b""
                if kind == END:
                    return
                if kind != SOUND or not data:
                    raise {TOO_LONG: TooLong, BAD: InputError}[kind](data.decode())
                yield data
        except (EOFError, ConnectionError, KeyError) as error:
            if self.forker is None or not self.forker.is_alive():
                raise DecodersFailed("the process that decodes uploads stopped; send it again") from error
            log.warning("a decoder broke")
            reason = "its decoder broke or took too much memory or time; convert it to FLAC or MP3"
            raise InputError(f"{order.name}: {reason}") from error
        finally:
            writer.close()

    def stop(self) -> None:
        """Ends the forker; decoders end by themselves."""
        if self.forker is not None:
            self.links.close()
            self.forker.kill()
            self.forker.join()

    def _begin(self, file: IO[bytes], order: Order) -> socket.socket:
        """Has a decoder forked; returns the server's end of its link."""
        if self.forker is None or not self.forker.is_alive():
            self._start()
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(ours, [json.dumps(asdict(order)).encode()], [file.fileno()])
            socket.send_fds(self.links, [b"\0"], [theirs.fileno()])
        return ours

    def _start(self) -> None:
        self.stop()
        self.links, theirs = socket.socketpair()
        self.links.setblocking(False)
        with theirs:
            context = multiprocessing.get_context("spawn")
            self.forker = context.Process(target=run_forker, args=(theirs,), name=NAME, daemon=True)
            self.forker.start()


def run_forker(links: socket.socket) -> None:
    """The body of the forker: forks a decoder for each link, until the server ends."""
    parent = multiprocessing.parent_process()
    die_with_parent(parent.pid if parent else None)
    name_process(NAME)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):  # the server ends it; nobody waits for decoders
        signal.signal(number, signal.SIG_IGN)
    handler = logging.StreamHandler()  # without a thread, which no fork would have
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import av  # noqa: F401

    import ds2.audio.files  # noqa: F401

    while (received := socket.recv_fds(links, 1, 1))[0]:
        with socket.socket(fileno=received[1][0]) as link, contextlib.suppress(OSError):  # no more processes
            if os.fork() == 0:
                links.close()
                run_decoder(link)


def run_decoder(link: socket.socket) -> None:
    """The body of a decoder: answers the order that waits in its link."""
    status = 1
    try:
        message, [file], _, _ = socket.recv_fds(link, ORDER_BYTES, 1)
        order = Order(**json.loads(message))
        threading.Thread(target=_end_with, args=(link,), daemon=True).start()
        _limit_decoder(order.longest)
        with open(file, "rb") as sound:
            try:
                for chunk in iter_upload(sound, **asdict(order)):
                    _answer(link, SOUND, chunk)
                _answer(link, END)
            except InputError as error:
                _answer(link, TOO_LONG if isinstance(error, TooLong) else BAD, str(error).encode())
        status = 0
    except (MemoryError, OSError):  # its limit, or the server has closed the link
        pass
    except Exception:
        log.exception("decoding failed")
    finally:
        os._exit(status)


def _answer(link: socket.socket, kind: bytes, data: bytes = b"") -> None:
    link.sendall(ANSWER.pack(kind, len(data)))
    link.sendall(data)


def _end_with(link: socket.socket) -> None:
    """A thread: ends the process when the server closes the link, also while a crafted file is measured."""
    with contextlib.suppress(ConnectionError):  # closed before all of the answer was taken
        link.recv(1)
    os._exit(0)


def _limit_decoder(longest: float) -> None:
    """Limits memory and processor time; `longest`: seconds of sound that are allowed."""
    seconds = math.ceil(max(LEAST_SECONDS, longest / SPEED))
    if (used := _address_space()) is not None:
        resource.setrlimit(resource.RLIMIT_AS, (used + DECODER_BYTES, used + DECODER_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def leave_precedence(*_: Any) -> None:
        os.nice(PRECEDENCE)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)

    signal.signal(signal.SIGXCPU, leave_precedence)
    resource.setrlimit(resource.RLIMIT_CPU, (QUICK_SECONDS, seconds))


def _address_space() -> int | None:
    """Bytes; None where the system does not say, as macOS, which does not limit them either."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None
