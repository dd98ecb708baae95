"""Transcripts of an hour, read by the packages that other people read such files with."""

import html
import itertools
import random
from pathlib import Path

import pytest
import srt
import textgrid
import webvtt
from praatio import textgrid as praat

from ds2.recognition.formats import FORMATS
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.recognition.words import Word

SECONDS = 3600.0
SPELT = ("deep", "<b>", "a&b", 'say "so"', "it's", "Größe", "语音", "-->")


def spoken(seed: int) -> Transcript:
    """An hour of words, some of which look like markup; some pauses are long."""
    rng = random.Random(seed)
    words, at = [], 0.0
    while at < SECONDS - 10:
        start = round(at + rng.choice((0.0, 0.05, 0.2, 1.0, 5.0)), 3)
        at = round(start + rng.uniform(0.05, 0.6), 3)
        words.append(Word(rng.choice(SPELT), start, at, 0.9))
    return Transcript(" ".join(word.text for word in words), tuple(words), SECONDS)


@pytest.fixture(params=[False, True], ids=["one channel", "two channels"])
def transcript(request: pytest.FixtureRequest) -> Transcript:
    return merge_channels([spoken(1), spoken(2)]) if request.param else spoken(1)


@pytest.fixture
def words(transcript: Transcript) -> list[str]:
    return [piece for word in transcript.words for piece in word.text.split()]


def write(transcript: Transcript, name: str, folder: Path) -> Path:
    path = folder / f"hour.{name}"
    path.write_text(FORMATS[name](transcript, "hour.wav"), encoding="utf-8")
    return path


def said(line: str, channels: bool) -> list[str]:
    """The words of a cue, without the number of its channel; ideographs stand without spaces."""
    return line.split(": ", 1)[1].split() if channels else line.split()


def test_srt(transcript: Transcript, words: list[str], tmp_path: Path) -> None:
    cues = list(srt.parse(write(transcript, "srt", tmp_path).read_text(encoding="utf-8")))
    assert [cue.index for cue in cues] == list(range(1, len(cues) + 1))
    found = "".join(itertools.chain.from_iterable(said(cue.content, bool(transcript.channels)) for cue in cues))
    assert sorted(found) == sorted("".join(words))
    assert all(cue.start < cue.end for cue in cues)
    assert cues[-1].end.total_seconds() <= SECONDS


def test_vtt(transcript: Transcript, words: list[str], tmp_path: Path) -> None:
    cues = list(webvtt.read(write(transcript, "vtt", tmp_path)))
    found = "".join("".join(html.unescape(cue.text).split()) for cue in cues)
    assert sorted(found) == sorted("".join(words))
    assert {cue.voice for cue in cues} == ({"channel 1", "channel 2"} if transcript.channels else {None})
    assert all(cue.start_in_seconds <= cue.end_in_seconds <= SECONDS for cue in cues)


def test_textgrid(transcript: Transcript, tmp_path: Path) -> None:
    """Every word with its text and times, in a tier that has no gap."""
    path = write(transcript, "TextGrid", tmp_path)
    parts = transcript.channels or (transcript,)
    grid = textgrid.TextGrid.fromFile(path)
    assert [tier.name for tier in grid] == (["channel 1", "channel 2"] if transcript.channels else ["words"])
    for tier, part in zip(grid, parts, strict=True):
        assert [(i.mark, i.minTime, i.maxTime) for i in tier if i.mark] == [
            (w.text, w.start, w.end) for w in part.words
        ]
        assert (tier[0].minTime, tier[-1].maxTime) == (0, SECONDS)
        assert all(before.maxTime == after.minTime for before, after in itertools.pairwise(tier))
    opened = praat.openTextgrid(str(path), includeEmptyIntervals=False)
    for name, part in zip(opened.tierNames, parts, strict=True):
        entries = [(entry.label, entry.start, entry.end) for entry in opened.getTier(name).entries]
        assert entries == [(word.text, word.start, word.end) for word in part.words]
