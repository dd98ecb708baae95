"""Hostile MP4, Ogg, FLAC and MP3, built field by field from their specifications.

MP4: ISO/IEC 14496-12, QuickTime for PCM. Ogg: RFC 3533, Opus: RFC 7845. FLAC: RFC 9639. MP3: ISO/IEC 11172-3, ID3v2.
"""

import struct
from random import Random

from fuzz import sounds
from fuzz.fields import Fields
from fuzz.kind import Files, Kind

SILENCE = b"\xf8"  # a packet of Opus: 20 ms
SECOND = 8000  # samples of the MP4
MP3_FRAME = 417  # bytes, of 128 kbit/s at 44.1 kHz


def mp4(fields: Fields) -> bytes:
    """A second of PCM: an index in `moov`, or fragments."""
    sound = bytes(2 * SECOND)
    start = 40
    mdat = _box(fields, b"mdat", sound)
    head = _box(fields, b"ftyp", fields.parts(b"isom", bytes(4), b"isommp42")) + _box(fields, b"free", bytes(8))
    fragmented = fields.is_odd()
    moov = _box(fields, b"moov", fields.parts(_movie_header(fields), _track(fields, start + 8, fragmented)))
    if not fragmented:
        return fields.parts(head.ljust(start, b"\0"), mdat, moov)
    run = fields.big(4, 1) + fields.big(4, SECOND) + fields.big(4, 0)
    traf = _box(fields, b"tfhd", bytes(4) + fields.big(4, 1)) + _box(fields, b"trun", run)
    moof = _box(fields, b"moof", _box(fields, b"mfhd", bytes(8)) + _box(fields, b"traf", traf))
    return fields.parts(head, moov, *[moof, mdat] * fields.number(1, 1, 100))


def _box(fields: Fields, kind: bytes, content: bytes) -> bytes:
    return fields.big(4, len(content) + 8) + kind + content


def _movie_header(fields: Fields) -> bytes:
    times = bytes(12) + fields.big(4, SECOND) + fields.big(4, SECOND)
    return _box(fields, b"mvhd", times + bytes(76) + fields.big(4, 2))


def _track(fields: Fields, sound_at: int, fragmented: bool) -> bytes:
    """All boxes of a track of sound; fragmented: without its index."""
    width, channels = fields.number(2), fields.number(1)
    entry = bytes(6) + fields.big(2, 1) + fields.big(2, 0) + bytes(6) + (channels % 65536).to_bytes(2, "big")
    entry += fields.big(2, 16) + bytes(4) + fields.big(4, SECOND << 16)
    codec = (
        fields.rng.choice((b"sowt", b"mp4a", b"alac", b"Opus", b"fl32", b"\0\0\0\0")) if fields.is_odd() else b"sowt"
    )
    table = {
        b"stsd": fields.big(4, 1) + _box(fields, codec, entry),
        b"stts": fields.big(4, 1) + fields.big(4, 0 if fragmented else SECOND) + fields.big(4, 1),
        b"stsc": fields.big(4, 1) + fields.big(4, 1) + fields.big(4, SECOND) + fields.big(4, 1),
        b"stsz": fields.big(4, width * channels) + fields.big(4, SECOND),
        b"stco": fields.big(4, 1) + fields.big(4, sound_at),
    }
    stbl = fields.parts(*(_box(fields, kind, bytes(4) + content) for kind, content in table.items()))
    dinf = _box(
        fields, b"dinf", _box(fields, b"dref", bytes(4) + fields.big(4, 1) + _box(fields, b"url ", b"\0\0\0\1"))
    )
    minf = fields.parts(_box(fields, b"smhd", bytes(8)), dinf, _box(fields, b"stbl", stbl))
    mdhd = bytes(12) + fields.big(4, SECOND) + fields.big(4, SECOND) + bytes(4)
    handler = _box(fields, b"hdlr", bytes(8) + (b"vide" if fields.is_odd() else b"soun") + bytes(13))
    mdia = fields.parts(_box(fields, b"mdhd", mdhd), handler, _box(fields, b"minf", minf))
    tkhd = b"\0\0\0\7" + bytes(8) + fields.big(4, 1) + bytes(4) + fields.big(4, SECOND) + bytes(60)
    return _box(fields, b"trak", fields.parts(_box(fields, b"tkhd", tkhd), _box(fields, b"mdia", mdia)))


def ogg(fields: Fields) -> bytes:
    """Pages of Opus, their checksums right; seldom another stream among them."""
    head = b"OpusHead" + fields.big(1, 1) + fields.big(1, 1, 2) + fields.little(2, 0, 312) + fields.little(4, 48_000)
    head += fields.little(2, 0) + fields.big(1, 0)
    tags = b"OpusTags" + fields.little(4, 3) + b"ds2" + fields.little(4, 0)
    packets = fields.number(50) % 3000
    pages = [_page(fields, [head], 0, 0, 2), _page(fields, [tags], 1, 0, 0)]
    for number in range(2, 5):
        place = 960 * packets * (number - 1)
        pages.append(_page(fields, [SILENCE] * packets, number, place, 4 if number == 4 else 0))
    return sounds.sealed(fields.parts(*pages))


def _page(fields: Fields, packets: list[bytes], number: int, place: int, flags: int) -> bytes:
    lacing = b"".join(fields.big(1, len(packet)) for packet in packets)[:255]
    head = b"OggS" + fields.big(1, 0) + fields.big(1, flags) + fields.little(8, place) + fields.little(4, 7)
    head += fields.little(4, number) + bytes(4) + fields.big(1, len(lacing))
    return head + lacing + b"".join(packets[: len(lacing)])


def flac(fields: Fields) -> bytes:
    """Frames whose samples are all the same: 4,096 of them in 14 bytes."""
    frames = fields.number(3, 200) % 2000
    rate, total = fields.number(16_000, 44_100), fields.number(4096 * frames)
    packed = (rate << 44 | fields.number(0) << 41 | fields.number(15) << 36 | total) % 2**64
    info = fields.big(2, 4096) * 2 + fields.big(3, 0) * 2 + struct.pack(">Q", packed) + bytes(16)
    seeks = b"".join(fields.big(8, 0, 4096) + fields.big(8, 0) + fields.big(2, 4096) for _ in range(3))
    comment = fields.little(4, 3) + b"ds2" + fields.little(4, 0)
    picture = (
        fields.big(4, 3) + fields.big(4, 9) + b"image/png" + fields.big(4, 0) + bytes(16) + fields.big(4, 5) + b"abcde"
    )
    blocks = [(3, seeks), (4, comment), (6, picture), (1, bytes(100))]
    metadata = [fields.big(1, 0) + fields.big(3, len(info)) + info]
    metadata += [fields.big(1, kind) + fields.big(3, len(block)) + block for kind, block in blocks]
    metadata += [b"\x81" + fields.big(3, 4) + bytes(4)]
    return b"fLaC" + fields.parts(*metadata) + fields.parts(*(_frame(fields, number) for number in range(frames)))


def _frame(fields: Fields, number: int) -> bytes:
    """4,096 samples of 16 bits, the rate as in STREAMINFO."""
    coded = chr(number).encode() if number < 0xD800 else b"\0"
    head = b"\xff\xf8" + fields.big(1, 0xC0) + fields.big(1, 0x08) + coded
    frame = head + bytes([_crc(head, 8, 0x07)]) + fields.big(1, 0) + fields.big(2, number % 100)
    return frame + _crc(frame, 16, 0x8005).to_bytes(2, "big")


def _crc(data: bytes, width: int, polynomial: int) -> int:
    value = 0
    for byte in data:
        value ^= byte << width - 8
        for _ in range(8):
            value = (value << 1 ^ (polynomial if value >> width - 1 else 0)) & (1 << width) - 1
    return value


def mp3(fields: Fields) -> bytes:
    """Silent frames of 128 kbit/s behind tags; the first seldom counts them."""
    header = b"\xff\xfb\x90\xc4"
    frame = header.ljust(MP3_FRAME, b"\0")
    frames = [frame] * (fields.number(5, 300) % 2000)
    counted = header + bytes(17) + b"Xing" + fields.big(4, 3) + fields.big(4, len(frames)) + fields.big(4, 100_000)
    text = b"TIT2" + fields.big(4, 4) + bytes(2) + b"\0ds2"
    size = len(text)
    tag = b"ID3" + fields.big(1, 4) + b"\0" + fields.big(1, 0) + fields.big(4, size) + text
    first = counted.ljust(MP3_FRAME, b"\0") if fields.rng.random() < 0.5 else b""
    return fields.parts(tag, first, b"".join(frames), b"TAG" + bytes(125) if fields.is_odd() else b"")


FORMATS = {"mp4": mp4, "ogg": ogg, "flac": flac, "mp3": mp3}


def seeds() -> list[Files]:
    return [{f"sound.{suffix}": build(Fields(Random(0), 0.0))} for suffix, build in FORMATS.items()]


def make(rng: Random, valid: list[Files]) -> Files:
    """One of the formats; from one field in 200 to one in 10 is extreme."""
    suffix, build = rng.choice(list(FORMATS.items()))
    return {f"sound.{suffix}": build(Fields(rng, rng.choice((0.005, 0.02, 0.1))))}


KIND = Kind(seeds, make, sounds.enter)
