"""Pages of an alignment."""

import dataclasses
from pathlib import Path

import numpy as np
import soundfile

from ds2.recognition.align import AlignedRecording
from ds2.recognition.plots import MOST_PAGES, PAGE_SECONDS, Page, choose_pages, draw_alignment
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word

FRAME = 0.02  # seconds


def aligned(path: Path, seconds: float, doubtful: tuple[float, ...] = ()) -> AlignedRecording:
    """A recording of noise with "a" every second, doubtful at these times."""
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, round(seconds * 8000)), 8000)
    words = tuple(Word("a", n, n + 0.5, 0.001 if n in doubtful else 0.9) for n in np.arange(0.0, seconds))
    frames = round(seconds / FRAME)
    return AlignedRecording(
        path,
        Transcript("a", words, seconds),
        peaks=[],
        log_probs=np.zeros((frames, 3), np.float32),
        names=["<blank>", "a"],
        tokens=np.ones(len(words), np.int64),
        starts=np.array([round(word.start / FRAME) for word in words]),
        level=np.zeros(1),
        others=[],
        lines=[],
    )


def test_a_short_recording_is_one_page_and_a_longer_one_shows_the_doubtful_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    assert choose_pages(aligned(path, 29.5)) == [Page(0.0, 29.5)]
    assert choose_pages(aligned(path, 100.0)) == [Page(0.0, 30.0)]
    assert choose_pages(aligned(path, 100.0, (40.0, 95.0))) == [Page(30.0, 60.0), Page(90.0, 100.0)]


def test_the_worst_pages_are_drawn_where_there_are_too_many(tmp_path: Path) -> None:
    once = tuple(PAGE_SECONDS * n + 5 for n in range(13))
    pages = choose_pages(aligned(tmp_path / "a.wav", 390.0, (*once, 320.0)))
    assert len(pages) == MOST_PAGES
    assert Page(300.0, 330.0) in pages
    assert pages == sorted(pages, key=lambda page: page.start)


def test_every_page_is_a_picture_of_bounded_size(tmp_path: Path) -> None:
    recording = aligned(tmp_path / "a.wav", 70.0, (35.0, 61.0))
    paths = draw_alignment(tmp_path, "a", recording, 8000, FRAME)
    assert [path.name for path in paths] == ["a_at_30s.png", "a_at_60s.png"]
    sizes = [np.frombuffer(path.read_bytes()[16:24], ">u4").tolist() for path in paths]
    assert sizes == [[PAGE_SECONDS * 80, 560], [10 * 80, 560]]
    short = aligned(tmp_path / "b.wav", 10.0)
    assert draw_alignment(tmp_path, "b", short, 8000, FRAME) == [tmp_path / "b.png"]


def test_a_page_without_tokens_is_drawn(tmp_path: Path) -> None:
    recording = aligned(tmp_path / "a.wav", 10.0)
    silent = dataclasses.replace(
        recording, transcript=Transcript("", (), 10.0), tokens=recording.tokens[:0], starts=recording.starts[:0]
    )
    [path] = draw_alignment(tmp_path, "a", silent, 8000, FRAME)
    assert path.read_bytes().startswith(b"\x89PNG")
