"""Changes to valid bytes, texts and JSON values. All are drawn from a `Random`, so that a number gives its input."""

import copy
import json
import struct
from random import Random
from typing import Any

NUMBERS = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    256,
    32767,
    65535,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
)
HEADER = 256  # bytes in which half of the changes lie
DIGITS, DEEP = "@digits@", "@deep@"  # stand for 5,000 digits and 5,000 brackets in JSON
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        2**31,
        -(2**31),
        2**53,
        2**63,
        2**64,
        10**30,
        10**400,
        0.5,
        -0.5,
        1e-300,
        1e308,
        -1e308,
    ),
    *(float("nan"), float("inf"), "", " ", "a", "a\nb", "\0", "²", "\ud800", "../../x", "a" * 100_000),
    *([], {}, [[]], [None], [1e308], {"": None}, {"preset": "x"}, DIGITS, DEEP),
)
WORDS = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "\0",
        "-1",
        "0",
        "1",
        "1e308",
        "-1e308",
        "nan",
        "inf",
        "²",
        "9" * 5000,
        "9999999999",
        "true",
    ),
    *(
        "[" * 2000,
        "{" * 2000,
        '"' * 3,
        "<s>",
        "</s>",
        "<unk>",
        "\\data\\",
        "\\end\\",
        "\\2-grams:",
        "ngram 2=999999999",
    ),
    *("x" * 200_000, "\ufeff", "\u2028", "= ", "[model]", "preset = 5", "]", "}", "'", "#", "1979-05-27T07:32:00Z"),
)


def mutated(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """One to four changes to bytes; `other` gives pieces."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(rng, changed, other or data)
    return bytes(changed)


def _change(rng: Random, data: bytearray, other: bytes) -> None:
    place = rng.randrange(len(data) + 1)
    if rng.random() < 0.5:
        place = min(place, rng.randrange(HEADER))
    size = rng.choice((1, 2, 4, 16, 256, 4096))
    start = rng.randrange(len(other) + 1)
    match rng.randrange(8):
        case 0:
            for _ in range(rng.choice((1, 8, 100))):
                if data:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            data[place : place + 1] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))])
        case 2:
            packed = number(rng)
            data[place : place + len(packed)] = packed
        case 3:
            del data[place : place + size]
        case 4:
            data[place:place] = rng.randbytes(size)
        case 5:
            del data[place:]
        case 6:
            data[place : place + size] = other[start : start + size]
        case 7:
            data[place:place] = data[place : place + size] * rng.choice((1, 2, 50))


def number(rng: Random) -> bytes:
    """An extreme integer of 2, 4 or 8 bytes, in either order of bytes."""
    size, form = rng.choice(((2, "H"), (4, "I"), (8, "Q")))
    value = rng.choice((*NUMBERS, rng.getrandbits(64))) % 2 ** (8 * size)
    return struct.pack(rng.choice("<>") + form, value)


def mutated_text(rng: Random, text: str) -> bytes:
    """One to four changes to words and lines; now and then to the bytes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        lines = text.split("\n")
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        words = lines[at].split(" ")
        word = rng.randrange(len(words))
        match rng.randrange(7):
            case 0 | 1:
                words[word] = rng.choice(WORDS)
                lines[at] = " ".join(words)
            case 2:
                words.insert(word, rng.choice(WORDS))
                lines[at] = " ".join(words)
            case 3:
                del lines[at]
            case 4:
                lines[at], lines[other] = lines[other], lines[at]
            case 5:
                lines[at:at] = [lines[other]] * rng.choice((1, 1, 1000))
            case 6:
                del lines[at:]
        text = "\n".join(lines)
    data = text.encode("utf-8", "surrogatepass")
    return mutated(rng, data) if rng.random() < 0.2 else data


def mutated_json(rng: Random, value: Any) -> Any:
    """A copy with one to three changes, anywhere in nested values."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 3))):
        holder, key = _somewhere(rng, value)
        if holder is None:
            return copy.deepcopy(rng.choice(VALUES))
        match rng.randrange(6):
            case 0 | 1 | 2:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
            case 3:
                holder[key] = _near(rng, holder[key])
            case 4:
                del holder[key]
            case 5 if isinstance(holder, dict):
                holder[rng.choice(("", "x", "\ud800", *holder))] = holder.pop(key)
            case _:
                holder[key] = [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 500)))]
    return value


def _somewhere(rng: Random, value: Any) -> tuple[Any, Any]:
    """A container in nested values, and a key of it."""
    holder, key = None, None
    while isinstance(value, dict | list) and value and (holder is None or rng.random() < 0.8):
        holder, key = value, rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = holder[key]
    return holder, key


def _near(rng: Random, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        half = value // 2 if isinstance(value, int) else value / 2
        return rng.choice((-value, value + 1, value - 1, value * 2, value * 1000, half, str(value)))
    return 2 * value if isinstance(value, str | list) else [value]


def dumped(value: Any) -> bytes:
    """JSON, with what stands for endless digits and brackets put in."""
    text = json.dumps(value, ensure_ascii=False)
    text = text.replace(f'"{DIGITS}"', "9" * 5000).replace(f'"{DEEP}"', "[" * 5000 + "]" * 5000)
    return text.encode("utf-8", "surrogatepass")
