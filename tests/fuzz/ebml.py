"""Hostile WebM, built field by field from its specifications: EBML (RFC 8794), Matroska (RFC 9559)."""

import itertools
import struct
from random import Random

from fuzz import sounds
from fuzz.fields import Fields
from fuzz.kind import Files, Kind
from fuzz.mutations import NUMBERS

SILENCE = b"\xf8"  # a packet of Opus: 20 ms
CODECS = (b"A_VORBIS", b"A_PCM/INT/LIT", b"A_AAC", b"A_FLAC", b"A_MPEG/L3", b"A_MS/ACM", b"V_VP8", b"S_TEXT/UTF8", b"")
RATES = (0.0, -1.0, 1.0, 1e9, 1e300, float("nan"), float("inf"))
DEEP = 500  # elements one inside the other
PACKET, BLOCK, SECOND = 20, 80, 1000  # milliseconds


def webm(fields: Fields) -> bytes:
    """Some seconds of silence in blocks of every lacing."""
    sizes = _element(fields, "42f2", fields.big(1, 4)) + _element(fields, "42f3", fields.big(1, 8))
    head = _element(fields, "1a45dfa3", _element(fields, "4282", b"webm") + sizes + _element(fields, "4287", b"\4"))
    clusters = [_cluster(fields, number) for number in range(fields.number(3, 10) % 50)]
    parts = [_element(fields, "ec", bytes(fields.number(0, 30) % 1000)), _seek_head(fields), _info(fields)]
    parts += [_tracks(fields), *clusters, _cues(fields), _tags(fields)]
    return fields.parts(head, _element(fields, "18538067", fields.parts(*parts)))


def _element(fields: Fields, identity: str, content: bytes) -> bytes:
    """An element: its identity, its size, its content; an odd one has no known size, holds itself, or is unknown."""
    name, size = bytes.fromhex(identity), len(content)
    if not fields.is_odd():
        return name + _number(size, fields.rng.choice((4, 8)) if size < (1 << 28) - 1 else 8) + content
    match fields.rng.randrange(4):
        case 0:
            return name + fields.rng.choice((b"\xff", b"\x01" + b"\xff" * 7)) + content
        case 1:
            return name + _number(fields.rng.choice(NUMBERS) % (1 << 56), 8) + content
        case 2:
            for _ in range(fields.rng.choice((1, DEEP))):
                content = name + _number(len(content), 8) + content
            return content
        case _:
            return (
                fields.rng.choice((b"\x7f\xff", b"\0", b"\xff", fields.rng.randbytes(4))) + _number(size, 8) + content
            )


def _number(value: int, width: int) -> bytes:
    """A number of EBML in so many bytes, its length told by the first bit that is set."""
    return (1 << 7 * width | value).to_bytes(width, "big")


def _integer(fields: Fields, identity: str, *usual: int) -> bytes:
    """An unsigned integer, of up to nine bytes where it is odd."""
    width = fields.rng.randrange(10) if fields.is_odd() else 8
    return _element(fields, identity, fields.big(width, *usual) if width else b"")


def _float(fields: Fields, identity: str, usual: float) -> bytes:
    return _element(fields, identity, struct.pack(">d", fields.rng.choice(RATES) if fields.is_odd() else usual))


def _seek_head(fields: Fields) -> bytes:
    """Where other parts lie; seldom at itself."""
    entries = [
        _element(fields, "53ab", bytes.fromhex(name)) for name in ("1549a966", "1654ae6b", "1c53bb6b", "114d9b74")
    ]
    seeks = (_element(fields, "4dbb", entry + _integer(fields, "53ac", 0, 50, 300)) for entry in entries)
    return _element(fields, "114d9b74", fields.parts(*seeks))


def _info(fields: Fields) -> bytes:
    scale = _integer(fields, "2ad7b1", 1_000_000)
    return _element(fields, "1549a966", fields.parts(scale, _float(fields, "4489", 2000.0)))


def _tracks(fields: Fields) -> bytes:
    """One track of Opus; seldom of another codec, encrypted, or packed with zlib."""
    codec = fields.rng.choice(CODECS) if fields.is_odd() else b"A_OPUS"
    private = b"OpusHead" + fields.big(1, 1) + fields.big(1, 1, 2) + fields.little(2, 312) + fields.little(4, 48_000)
    audio = fields.parts(_float(fields, "b5", 48_000.0), _integer(fields, "9f", 1, 2), _integer(fields, "6264", 16))
    track = [
        _integer(fields, "d7", 1),
        _integer(fields, "73c5", 1),
        _integer(fields, "83", 2),
        _element(fields, "86", codec),
    ]
    track += [_element(fields, "63a2", private + bytes(3)), _element(fields, "e1", audio)]
    track += [_integer(fields, "56aa", 6_500_000), _integer(fields, "56bb", 80_000_000)]
    if fields.is_odd():
        packing = _element(fields, "5034", _integer(fields, "4254", 0, 1, 3) + _element(fields, "4255", bytes(5)))
        scope = _integer(fields, "5031", 0, 1) + _integer(fields, "5032", 1, 2, 3) + _integer(fields, "5033", 0, 1)
        track.append(_element(fields, "6d80", _element(fields, "6240", scope + packing)))
    entry = _element(fields, "ae", fields.parts(*track))
    return _element(fields, "1654ae6b", entry * (fields.number(1) % 1000))


def _cluster(fields: Fields, number: int) -> bytes:
    """A second of blocks; seldom with another cluster inside."""
    lacings = [fields.rng.randrange(1, 4) for _ in range(12)] + [0, 0]
    starts = (min(BLOCK * place, SECOND - PACKET * (14 - place)) for place in range(14))
    blocks = [_block(fields, start, lacing) for start, lacing in zip(starts, lacings, strict=True)]
    if fields.is_odd() and number:
        blocks.append(_cluster(fields, number - 1))
    return _element(fields, "1f43b675", _integer(fields, "e7", SECOND * number) + fields.parts(*blocks))


def _block(fields: Fields, start: int, lacing: int) -> bytes:
    """A simple block, or one in a group with its duration and padding; four packets, or one that is not laced."""
    packets = [SILENCE * fields.rng.choice((1, 1, 3, 300)) for _ in range(4)]
    if lacing == 2:
        packets = [packets[0]] * 4
    head = fields.big(1, 0x81) + fields.big(2, start) + fields.big(1, 0x80 | lacing << 1)
    sound = packets[0] if lacing == 0 else fields.big(1, len(packets) - 1) + _laced(fields, lacing, packets)
    if fields.rng.random() < 0.7:
        return _element(fields, "a3", head + sound)
    length = _integer(fields, "9b", BLOCK if lacing else PACKET)
    about = [_integer(fields, "75a2", 0) if fields.is_odd() else b"", _integer(fields, "fb", 0)]
    return _element(fields, "a0", fields.parts(_element(fields, "a1", head + sound), length, *about))


def _laced(fields: Fields, lacing: int, packets: list[bytes]) -> bytes:
    """Sizes and packets: 1 as in Xiph's formats, 2 all of one size, 3 differences of EBML."""
    sizes = [fields.number(len(packet)) % (1 << 20) for packet in packets[:-1]]
    told = b""
    if lacing == 1:
        told = b"".join(b"\xff" * (size // 255) + bytes([size % 255]) for size in sizes)
    if lacing == 3:
        steps = [after - before for before, after in itertools.pairwise(sizes)]
        told = _number(sizes[0], 4) + b"".join(_number((1 << 27) - 1 + step, 4) for step in steps)
    return told + b"".join(packets)


def _cues(fields: Fields) -> bytes:
    """The index: times and places of clusters."""
    place = _element(
        fields, "b7", _integer(fields, "f7", 1) + _integer(fields, "f1", 300, 0) + _integer(fields, "f0", 0)
    )
    points = (_element(fields, "bb", _integer(fields, "b3", 0, 1000) + place) for _ in range(fields.number(3) % 1000))
    return _element(fields, "1c53bb6b", fields.parts(*points))


def _tags(fields: Fields) -> bytes:
    """A tag in tags in tags, and a chapter."""
    tag = _element(fields, "67c8", _element(fields, "45a3", b"TITLE") + _element(fields, "4487", b"ds2"))
    for _ in range(fields.number(2) % DEEP):
        tag = _element(fields, "67c8", tag)
    chapter = _element(fields, "45b9", _element(fields, "b6", _integer(fields, "73c4", 1) + _integer(fields, "91", 0)))
    return _element(fields, "1254c367", _element(fields, "7373", tag)) + _element(fields, "1043a770", chapter)


def make(rng: Random, valid: list[Files]) -> Files:
    """From one field in 500 to one in 10 is extreme."""
    return {"sound.webm": webm(Fields(rng, rng.choice((0.002, 0.01, 0.1))))}


KIND = Kind(lambda: [{"sound.webm": webm(Fields(Random(0), 0.0))}], make, sounds.enter)
