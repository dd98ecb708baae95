"""The synthetic recipe: what is held out is held out, blocks are made once, words have their times."""

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import soundfile

from ds2.curation.synthesis import installed
from ds2.data.manifest import read_manifest
from ds2.text import normalize

needs_espeak = pytest.mark.skipif(not installed("espeak-ng"), reason="espeak-ng is not installed")


@pytest.fixture(scope="module")
def prepare(recipe_script: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_script("synthetic/prepare")


def test_texts_and_voices_of_the_splits_are_disjoint(prepare: ModuleType) -> None:
    rng = random.Random(0)
    sources = {split: prepare.source("english", split) for split in ("train", "dev", "test")}
    said = {split: {source(rng) for _ in range(3000)} for split, source in sources.items()}
    assert not said["train"] & said["dev"]
    assert not said["train"] & said["test"]
    assert not said["dev"] & said["test"]
    voices = [{prepare.choose_voice("english", unheard, rng).name for _ in range(2000)} for unheard in (False, True)]
    assert not voices[0] & voices[1]
    assert len(voices[0]) > 300


def test_every_text_is_of_letters_and_speakable(prepare: ModuleType) -> None:
    rng = random.Random(0)
    english = prepare.texts.sentences(None)
    assert len(english) == 12000
    assert set("".join(map(normalize, english))) <= set("abcdefghijklmnopqrstuvwxyz' ")
    numbers = {normalize(prepare.texts.numbers(rng)) for _ in range(2000)}
    assert set("".join(numbers)) <= set("abcdefghijklmnopqrstuvwxyz' ")
    assert len(numbers) > 800
    mandarin = {prepare.texts.mandarin(rng) for _ in range(2000)}
    assert len(mandarin) > 1800
    assert all("\u4e00" <= character <= "\u9fff" for text in mandarin for character in normalize(text, "zh"))


@needs_espeak
@pytest.mark.parametrize("kind", ["english", "mandarin"])
def test_a_block_is_made_once_and_holds_sound_text_and_times(
    prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(prepare, "BLOCK", 6)
    plan = prepare.Plan(tmp_path, kind, 8000, 1)
    seconds = [prepare.make_block(plan, number) for number in range(3)]
    manifest = tmp_path / "blocks" / "00000.jsonl"
    made = manifest.stat().st_mtime_ns
    assert prepare.make_block(plan, 0) == seconds[0]
    assert manifest.stat().st_mtime_ns == made
    parts = {split: [each for number in range(3) for each in prepare.block_part(plan, number, split)]
             for split in ("train", "dev", "test", "test_noisy")}  # fmt: skip
    assert [len(part) for part in parts.values()] == [6, 6, 6, 6]
    timed = 0
    for part in parts.values():
        for utterance in part:
            info = soundfile.info(utterance.audio_path)
            assert (info.samplerate, info.duration) == (8000, pytest.approx(utterance.duration, abs=1e-3))
            words = utterance.extra.get("words", [])
            timed += bool(words)
            assert all(0 <= start < end <= utterance.duration for _, start, end in words)
            assert not words or "".join(word for word, *_ in words).replace(" ", "") == utterance.text.replace(" ", "")
    assert timed >= 9
    assert [each.text for each in parts["test"]] == [each.text for each in parts["test_noisy"]]
    assert len(read_manifest(manifest)) == 6
