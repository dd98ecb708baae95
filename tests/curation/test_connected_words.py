"""Strings of words: who says them, how often each word comes, where they lie."""

import random
from pathlib import Path

import numpy as np
import soundfile

from ds2.curation.connected_words import WordString, WordStringConfig, join, make_strings, write_strings
from ds2.data.manifest import read_manifest

WORD = np.full(800, 0.1, np.float32)


def test_strings_are_of_one_speaker_and_use_every_word_equally_often() -> None:
    words = [WordString(WORD, f"{number}{speaker}", speaker) for number in range(9) for speaker in "xy"]
    strings = make_strings(words, 300, WordStringConfig(), 8000, random.Random(0))
    assert len(strings) == 300
    for string in strings:
        assert set(string.text.replace(" ", "")) - set("012345678") == {string.speaker}
        assert 1 <= len(string.text.split()) <= 7
    said = [word for string in strings for word in string.text.split()]
    counts = [said.count(word) for word in set(said) if word.endswith("x")]
    assert max(counts) - min(counts) <= 1


def test_joined_words_follow_each_other_without_overlap_unless_pauses_are_negative() -> None:
    words = [np.ones(1000, np.float32) / 4] * 3
    assert np.count_nonzero(join(words, WordStringConfig(), 8000, random.Random(0))) == 3000
    overlapping = join(words, WordStringConfig(pause=(-0.05, -0.05), edge=(0, 0)), 8000, random.Random(0))
    assert len(overlapping) == 3000 - 2 * 400


def test_mandarin_words_join_without_spaces() -> None:
    words = [WordString(WORD, text, "x") for text in ("你好", "世界")]
    config = WordStringConfig(words=(2, 2), separator="")
    assert make_strings(words, 1, config, 8000, random.Random(0))[0].text in {"你好世界", "世界你好"}


def test_written_strings_have_a_manifest(tmp_path: Path) -> None:
    written = write_strings(tmp_path, "dev", [WordString(WORD, "a", "x"), WordString(WORD, "b", "x")], 8000)
    assert read_manifest(tmp_path / "dev.jsonl") == written
    samples, rate = soundfile.read(written[1].audio_path)
    assert rate == 8000
    assert np.allclose(samples, WORD, atol=1e-4)
