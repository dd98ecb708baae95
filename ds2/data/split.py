"""Manifests split into subsets, joined and sampled; a speaker or a sentence stays in one subset."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from ds2.data.columnar import Selection, durations, values
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, ParameterError, counted, some_of

By = Literal["speaker", "text", "utterance"]


def split(
    utterances: Sequence[Utterance], shares: Mapping[str, float], by: By = "speaker", seed: int = 1
) -> dict[str, Selection]:
    """Subsets of about the wanted shares of the hours; no speaker, or no text, is in two subsets.

    Args:
        shares: name of a subset -> its share, above 0, below 1 together; "train" gets the rest.
        by: what must not be in two subsets: a speaker, a text, or only the utterance.

    Raises:
        InputError: impossible shares, an utterance without a speaker, or fewer speakers (or texts) than subsets.
    """
    if not all(share > 0 for share in shares.values()) or not sum(shares.values()) < 1:
        given = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise InputError(f"the shares must be above 0, and below 1 together, to leave some for train; got {given}")
    numbers: dict[str, int] = {}
    group = np.fromiter((numbers.setdefault(key, len(numbers)) for key in _shared_keys(utterances, by)), np.int64)
    if len(numbers) <= len(shares):
        remedy = "utterance" if by == "text" else "text, which keeps equal sentences together, or utterance"
        raise ParameterError("by", f"{counted(len(numbers), by)} cannot be cut into {len(shares) + 1}; try {remedy}")
    order = [numbers[key] for key in random.Random(seed).sample(sorted(numbers), len(numbers))]
    lengths = durations(utterances)
    seconds, total = np.bincount(group, lengths), float(lengths.sum())  # of each group, of all
    subsets: dict[str, list[int]] = {}
    for name, share in shares.items():
        kept = len(shares) - len(subsets)  # a group for train and for each subset that is still to come
        subsets[name] = _near(order, seconds, share * total, len(order) - kept)
        taken = set(subsets[name])
        order = [each for each in order if each not in taken]
    return {name: _of_groups(utterances, group, wanted) for name, wanted in {"train": order, **subsets}.items()}


def _near(order: Sequence[int], seconds: np.ndarray, wanted: float, most: int) -> list[int]:
    """The groups of a subset, the last ones in the order, of about the `wanted` seconds; (G,) seconds of each group.

    A group is taken while more than half of it is still wanted: subsets come out as near as groups allow. One that is
    longer than the subset is left for another one, unless all are.
    """
    taken, filled = list[int](), 0.0
    for each in reversed(order):
        if seconds[each] > wanted:
            continue
        if len(taken) == most or filled + seconds[each] / 2 >= wanted:
            break
        taken.append(each)
        filled += seconds[each]
    return taken or [min(reversed(order), key=seconds.__getitem__)]


def shared_texts(train: Sequence[Utterance], other: Sequence[Utterance]) -> int:
    """How many utterances of the other subset have a text that is in train."""
    known, texts = (np.fromiter(map(hash, values(each, "text")), np.int64) for each in (train, other))
    return int(np.isin(texts, known).sum())


def check_earlier(paths: Iterable[Path], utterances: Sequence[Utterance]) -> None:
    """Refuses to replace manifests that no split of these utterances can have written.

    Raises:
        InputError: naming one with an utterance that is not among them.
    """
    there = list(filter(Path.is_file, paths))
    known = {utterance.span for utterance in utterances} if there else set()
    for path in there:
        if other := next((each for each in read_manifest(path) if each.span not in known), None):
            raise InputError(f"{other.place}: is not of the manifest to split; name another folder")


def cut_speakers(utterances: Sequence[Utterance], speakers: set[str]) -> tuple[list[Utterance], list[Utterance]]:
    """The utterances of all others, and those of `speakers`; a corpus may precede a speaker: libri-1898."""
    subsets: tuple[list[Utterance], list[Utterance]] = [], []
    for utterance in utterances:
        subsets[(utterance.speaker or "").rpartition("-")[2] in speakers].append(utterance)
    return subsets


def merge(manifests: Sequence[Sequence[Utterance]]) -> list[Utterance]:
    """All utterances of all manifests, in order, none twice.

    Raises:
        InputError: the same audio with two texts; the message names the first three places.
    """
    merged: dict[tuple[object, ...], Utterance] = {}
    contradictions = []
    for utterance in (utterance for manifest in manifests for utterance in manifest):
        other = merged.setdefault(utterance.span, utterance)
        if other.text != utterance.text:
            contradictions.append(f"{utterance.place} and {other.place}")
    if contradictions:
        raise InputError(f"the same audio with another text: {some_of(contradictions)}; remove one of each")
    return list(merged.values())


def sample(utterances: Sequence[Utterance], hours: float, seed: int = 1) -> Selection:
    """Random utterances of about that many hours, in their order; all of them where there are not so many."""
    if not hours > 0:
        raise ParameterError("hours", f"must be above 0, got {hours}")
    kept = _drawn(range(len(utterances)), durations(utterances), hours * 3600, random.Random(seed))
    return Selection(utterances, np.sort(np.array(kept, np.int64)))


def sample_speakers(utterances: Sequence[Utterance], speakers: int, hours: float, seed: int = 1) -> Selection:
    """As many random speakers, each with about an equal part of the hours, in their order.

    Shows what more speakers are worth at the same number of hours.

    Raises:
        ParameterError: too few speakers, or too few who have as much.
    """
    if not hours > 0:
        raise ParameterError("hours", f"must be above 0, got {hours}")
    if speakers < 1:
        raise ParameterError("speakers", f"must be at least 1, got {speakers}")
    lengths, each = durations(utterances), hours * 3600 / speakers
    indices: dict[str, list[int]] = {}
    for index, speaker in enumerate(values(utterances, "speaker")):
        if speaker is not None:
            indices.setdefault(speaker, []).append(index)
    if len(indices) < speakers:
        raise ParameterError("speakers", f"there are only {len(indices)}; choose fewer")
    enough = sorted(speaker for speaker, own in indices.items() if lengths[own].sum() >= each)
    if len(enough) < speakers:
        raise ParameterError("speakers", f"only {len(enough)} have {each:.0f} s; choose fewer speakers or hours")
    chance = random.Random(seed)
    chosen = chance.sample(enough, speakers)
    kept = [index for speaker in chosen for index in _drawn(indices[speaker], lengths, each, chance)]
    return Selection(utterances, np.sort(np.array(kept, np.int64)))


def _drawn(indices: Sequence[int], lengths: np.ndarray, wanted: float, chance: random.Random) -> list[int]:
    """Random ones of the indices until they have the `wanted` seconds; (N,) `lengths` of all utterances."""
    kept, seconds = [], 0.0
    for index in chance.sample(indices, len(indices)):
        if seconds >= wanted:
            break
        kept.append(index)
        seconds += float(lengths[index])
    return kept


def _shared_keys(utterances: Sequence[Utterance], by: By) -> Iterator[str]:
    """What each utterance must share a subset with the others that have it."""
    if by == "utterance":
        yield from (f"{utterance.audio_path}:{utterance.offset}" for utterance in utterances)
        return
    for number, key in enumerate(values(utterances, by)):
        if key is None:
            remedy = "split by text or by utterance, or say who speaks: a column, or the key speaker of each line"
            raise InputError(f"{utterances[number].place}: names no speaker; {remedy}")
        yield key


def _of_groups(utterances: Sequence[Utterance], group: np.ndarray, wanted: Sequence[int]) -> Selection:
    """The utterances of the groups `wanted`, group by group; (N,) `group` of each utterance."""
    place = np.full(int(group.max()) + 1, len(group))
    place[list(wanted)] = np.arange(len(wanted))
    there = np.flatnonzero(place[group] < len(group))
    return Selection(utterances, there[np.argsort(place[group[there]], kind="stable")])
