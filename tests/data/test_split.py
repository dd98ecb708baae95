"""Parts of a corpus: who is in one is in no other, and the shares are near what was asked for."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2.data.split import By, merge, sample, sample_speakers, shared_texts, split
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, ParameterError


def corpus(speakers: int = 20, each: int = 10) -> list[Utterance]:
    return [
        Utterance(Path(f"{speaker}-{number}.wav"), 1.0 + number % 3, f"text {number}", speaker=str(speaker))
        for speaker in range(speakers)
        for number in range(each)
    ]


def test_too_few_groups_name_the_parameter() -> None:
    with pytest.raises(ParameterError, match="by: 1 speaker cannot be cut into 2; try text") as caught:
        split([replace(utterance, speaker="x") for utterance in corpus()], {"dev": 0.1})
    assert caught.value.parameter == "by"


@pytest.mark.parametrize("by", ["speaker", "text", "utterance"])
def test_nothing_is_on_two_sides_and_nothing_is_lost(by: By) -> None:
    subsets = split(corpus(), {"dev": 0.1, "test": 0.2}, by)
    assert sorted(u.audio_path for subset in subsets.values() for u in subset) == sorted(u.audio_path for u in corpus())
    keys = [
        {getattr(utterance, "audio_path" if by == "utterance" else by) for utterance in subset}
        for subset in subsets.values()
    ]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_shares_are_of_the_hours() -> None:
    subsets = split(corpus(), {"dev": 0.1, "test": 0.2})
    total = sum(utterance.duration for utterance in corpus())
    for name, share in (("dev", 0.1), ("test", 0.2)):
        assert sum(u.duration for u in subsets[name]) / total == pytest.approx(share, abs=0.026)  # half a speaker


@given(st.integers(1, 30), st.floats(0.01, 0.9))
def test_every_part_gets_something(each: int, share: float) -> None:
    assert all(split(corpus(3, each), {"dev": share}).values())


def test_large_shares_leave_a_group_for_every_part() -> None:
    assert [len(subset) for subset in split(corpus(3), {"dev": 0.6, "test": 0.1}).values()] == [10, 10, 10]


def test_who_speaks_more_than_a_subset_holds_is_left_to_another() -> None:
    """One speaker with half of the hours is never the whole test set of a tenth, whatever the seed."""
    utterances = corpus(9, 10) + [Utterance(Path(f"{n}.wav"), 2.0, f"much {n}", speaker="x") for n in range(90)]
    for seed in range(20):
        subsets = split(utterances, {"test": 0.1, "dev": 0.1}, seed=seed)
        assert {u.speaker for u in subsets["train"]} >= {"x"}
        assert len({u.speaker for u in subsets["test"]}) > 1
    two = [each for each in utterances if each.speaker in ("0", "x")]  # where all are longer, the shortest of them
    assert {u.speaker for u in split(two, {"test": 0.01})["test"]} == {"0"}


def test_texts_on_two_sides_are_counted() -> None:
    subsets = split(corpus(), {"test": 0.2})
    assert shared_texts(subsets["train"], subsets["test"]) == len(subsets["test"])
    assert shared_texts(subsets["train"], []) == 0


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(InputError, match="1 speaker cannot be cut into 2"):
        split(corpus(1), {"dev": 0.1})
    with pytest.raises(InputError, match="names no speaker"):
        split([Utterance(Path("a"), 1.0, "a", place="m:1")], {"dev": 0.1})
    for shares in ({"dev": 0.5, "test": 0.5}, {"dev": 0.0}, {"dev": -1.0}):
        with pytest.raises(InputError, match="the shares must be above 0, and below 1 together"):
            split(corpus(), shares)


def test_merge_takes_each_once_and_refuses_two_texts_for_one_recording() -> None:
    assert merge([corpus(2), corpus(3)]) == corpus(3)
    one, other = ([Utterance(Path(name), 1.0, text, place=f"{text}:{name}") for name in "vwxyz"] for text in "ab")
    with pytest.raises(InputError, match="another text: b:v and a:v, b:w and a:w, b:x and a:x and 2 more; remove one"):
        merge([one, other])


def test_sample_has_the_hours_and_the_order() -> None:
    drawn = list(sample(corpus(), 0.05, seed=2))
    assert 180 <= sum(utterance.duration for utterance in drawn) <= 183
    assert drawn == [utterance for utterance in corpus() if utterance in drawn]
    assert list(sample(corpus(), 100.0)) == corpus()
    assert drawn != list(sample(corpus(), 0.05, seed=3))
    with pytest.raises(InputError, match="above 0"):
        sample(corpus(), 0.0)


def test_speakers_are_sampled_with_equal_hours() -> None:
    """60 s of 5 speakers, 12 s each: utterances take up to 3 s, so nobody is above 12 s by as much."""
    drawn = list(sample_speakers(corpus(), 5, 60 / 3600, seed=2))
    seconds: dict[str | None, float] = {}
    for utterance in drawn:
        seconds[utterance.speaker] = seconds.get(utterance.speaker, 0.0) + utterance.duration
    assert len(seconds) == 5
    assert all(12 <= each < 15 for each in seconds.values())
    assert drawn == [utterance for utterance in corpus() if utterance in drawn]
    assert drawn != list(sample_speakers(corpus(), 5, 60 / 3600, seed=3))
    with pytest.raises(ParameterError, match="speakers: there are only 20; choose fewer"):
        sample_speakers(corpus(), 21, 42 / 3600)
    with pytest.raises(ParameterError, match="speakers: only 0 have 100 s"):
        sample_speakers(corpus(), 2, 200 / 3600)
