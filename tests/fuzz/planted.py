"""Kinds with planted bugs, by which the fuzzer is tested; two inputs in five have one."""

import os
import signal
from pathlib import Path
from random import Random

from fuzz.kind import Files, Kind

from ds2.utils.errors import InputError


def _bad(rng: Random, seeds: list[Files]) -> Files:
    """Two inputs in five have the bug."""
    return {"input": bytes([rng.random() < 0.4])}


def _traceback(path: Path) -> None:
    if path.read_bytes() == b"\1":
        raise KeyError("planted")


def _hang(path: Path) -> None:
    while path.read_bytes() == b"\1":
        pass


def _wait(path: Path) -> None:
    if path.read_bytes() == b"\1":
        signal.pause()


def _crash(path: Path) -> None:
    if path.read_bytes() == b"\1":
        os.kill(os.getpid(), signal.SIGSEGV)


def _memory(path: Path) -> None:
    if path.read_bytes() == b"\1":
        bytearray(b"x") * (300 << 20)


def _claimed(path: Path) -> None:
    if path.read_bytes() == b"\1":
        bytearray(1 << 40)


def _exit(path: Path) -> None:
    if path.read_bytes() == b"\1":
        raise SystemExit(2)


def _refuse(path: Path) -> None:
    if path.read_bytes() == b"\1":
        raise InputError(f"{path}: bad")


KINDS = {
    enter.__name__.removeprefix("_"): Kind(lambda: [{"input": b"\0"}], _bad, enter)
    for enter in (_traceback, _hang, _wait, _crash, _memory, _claimed, _exit, _refuse)
}
