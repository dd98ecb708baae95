"""Manifests split into parts, joined and sampled; a speaker or a sentence stays in one part."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from ds2.data.selection import Selection, durations
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, ParameterError

By = Literal["speaker", "text", "utterance"]
KEYS: dict[str, Callable[[Utterance], str]] = {
    "speaker": lambda utterance: utterance.speaker or "",
    "text": lambda utterance: utterance.text,
    "utterance": lambda utterance: f"{utterance.audio_path}:{utterance.offset}",
}


def split(
    utterances: Sequence[Utterance], shares: Mapping[str, float], by: By = "speaker", seed: int = 1
) -> dict[str, list[Utterance]]:
    """Parts of about the wanted shares of the hours; no speaker, or no text, is in two parts.

    Args:
        shares: name of a part -> its share, above 0, below 1 together; "train" gets the rest.
        by: what must not be in two parts: a speaker, a text, or only the utterance.

    Raises:
        InputError: impossible shares, an utterance without a speaker, or fewer speakers (or texts) than parts.
    """
    if not all(share > 0 for share in shares.values()) or not sum(shares.values()) < 1:
        raise InputError(f"shares must be above 0 and below 1 in all, got {dict(shares)}")
    groups = _groups(utterances, by)
    if len(groups) <= len(shares):
        raise ParameterError("by", f"{len(groups)} {by}s cannot be cut into {len(shares) + 1} parts; try utterance")
    order = random.Random(seed).sample(sorted(groups), len(groups))
    total = sum(utterance.duration for utterance in utterances)
    parts: dict[str, list[Utterance]] = {}
    for name, share in shares.items():
        parts[name] = []
        kept = 1 + len(shares) - len(parts)  # a group for train and for each part that is still to come
        # A group is taken while more than half of it is still wanted: parts come out as near as groups allow.
        while len(order) > kept and (
            not parts[name] or _seconds(parts[name]) + _seconds(groups[order[-1]]) / 2 < share * total
        ):
            parts[name] += groups[order.pop()]
    return {"train": [utterance for key in order for utterance in groups[key]], **parts}


def cut_speakers(utterances: Sequence[Utterance], speakers: set[str]) -> tuple[list[Utterance], list[Utterance]]:
    """The utterances of all others, and those of `speakers`; a corpus may precede a speaker: libri-1898."""
    parts: tuple[list[Utterance], list[Utterance]] = [], []
    for utterance in utterances:
        parts[(utterance.speaker or "").rpartition("-")[2] in speakers].append(utterance)
    return parts


def merge(manifests: Sequence[Sequence[Utterance]]) -> list[Utterance]:
    """All utterances of all manifests, in order, none twice.

    Raises:
        InputError: the same audio with two texts.
    """
    merged: dict[tuple[object, ...], Utterance] = {}
    for utterance in (utterance for manifest in manifests for utterance in manifest):
        other = merged.setdefault(utterance.segment, utterance)
        if other.text != utterance.text:
            raise InputError(f"{utterance.place}: {other.place} has the same audio with another text; remove one")
    return list(merged.values())


def sample(utterances: Sequence[Utterance], hours: float, seed: int = 1) -> Selection:
    """Random utterances of about that many hours, in their order; all of them where there are not so many."""
    if not hours > 0:
        raise ParameterError("hours", f"must be above 0, got {hours}")
    lengths, kept, seconds = durations(utterances), [], 0.0
    for index in random.Random(seed).sample(range(len(utterances)), len(utterances)):
        if seconds >= hours * 3600:
            break
        kept.append(index)
        seconds += float(lengths[index])
    return Selection(utterances, np.sort(np.array(kept, np.int64)))


def _groups(utterances: Sequence[Utterance], by: By) -> dict[str, list[Utterance]]:
    groups: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        if by == "speaker" and utterance.speaker is None:
            raise InputError(f"{utterance.place}: names no speaker; split by text or by utterance")
        groups.setdefault(KEYS[by](utterance), []).append(utterance)
    return groups


def _seconds(utterances: Sequence[Utterance]) -> float:
    return sum(utterance.duration for utterance in utterances)
