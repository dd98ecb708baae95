"""Hostile WebM, built element by element: more packets than bytes should hold, odd times, sizes and codecs."""

import struct
from random import Random

from fuzz import sounds
from fuzz.kind import Files, Kind
from fuzz.mutations import NUMBERS

SILENCE = b"\xf8"  # a packet of Opus in one byte: 20 ms
FIXED_LACING = 0x84  # a key frame, and packets of one size in a block


def webm(
    blocks: int = 10, packets: int = 4, rate: float = 48_000, channels: int = 1, codec: bytes = b"A_OPUS"
) -> bytes:
    """Silence, as blocks of so many packets (1 to 256) of one byte."""
    head = b"OpusHead\1" + bytes([channels]) + bytes(2) + struct.pack("<I", 48_000) + bytes(3)
    audio = element("e1", element("b5", struct.pack(">d", rate)), element("9f", bytes([channels])))
    track = [element(name, content) for name, content in (("d7", b"\1"), ("73c5", b"\1"), ("83", b"\2"))]
    track += [element("86", codec), element("63a2", head), audio]
    times = [struct.pack(">H", min(20 * packets * number, 32_767)) for number in range(blocks)]
    lacing = bytes([FIXED_LACING, packets - 1])
    sound = [element("a3", b"\x81", time, lacing, SILENCE * packets) for time in times]
    info = element("1549a966", element("2ad7b1", (1_000_000).to_bytes(3, "big")))
    cluster = element("1f43b675", element("e7", b"\0"), *sound)
    tracks = element("1654ae6b", element("ae", *track))
    return element("1a45dfa3", element("4282", b"webm")) + element("18538067", info, tracks, cluster)


def element(identity: str, *content: bytes) -> bytes:
    """An element of EBML: its identity, its size in eight bytes, its content."""
    data = b"".join(content)
    return bytes.fromhex(identity) + (1 << 56 | len(data)).to_bytes(8, "big") + data


def make(rng: Random, valid: list[Files]) -> Files:
    """Fields drawn from what is usual and what is extreme; one in three has a size or time that is wrong."""
    data = bytearray(
        webm(
            rng.choice((0, 1, 10, 10, 1000)),
            rng.choice((1, 4, 4, 256)),
            rng.choice((48_000, 48_000, 0, -1, 1e300, float("nan"))),
            rng.choice((1, 1, 2, 8, 255)),
            rng.choice((b"A_OPUS", b"A_OPUS", b"A_VORBIS", b"A_PCM/INT/LIT", b"A_AAC", b"V_VP8", b"")),
        )
    )
    if rng.random() < 0.3:
        place = rng.randrange(len(data) - 8)
        data[place : place + 8] = (rng.choice(NUMBERS) % 2**64).to_bytes(8, "big")
    return {"sound.webm": bytes(data)}


KIND = Kind(lambda: [{"sound.webm": webm()}], make, sounds.enter)
