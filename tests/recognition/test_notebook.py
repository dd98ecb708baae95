"""Transcripts in a notebook."""

import base64
from pathlib import Path

import pytest
from helpers.commands import write_noise

from ds2.recognition import notebook
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word

WORDS = (Word("the", 0.0, 0.2, 0.9), Word("<b>", 0.3, 0.5, 0.25, "<B>"), Word("end", 3.0, 3.2, 0.5, "end."))


def html(**changes: object) -> str:
    """What a notebook shows of three words, the last after a pause."""
    return Transcript("the <b> end", WORDS, 4.0, **changes)._repr_html_()  # type: ignore[arg-type]


def test_segments_are_paragraphs_doubtful_words_are_marked_and_text_is_escaped() -> None:
    assert html() == '<p>the <mark title="0.30 s, confidence 0.25">&lt;B&gt;</mark></p><p>end.</p>'


def test_a_number_in_figures_is_shown_once() -> None:
    words = (Word("twenty", 0.0, 0.2, 0.9, "21"), Word("one", 0.2, 0.4, 0.9, ""))
    assert Transcript("twenty one", words, 1.0)._repr_html_() == "<p>21</p>"


def test_channels_are_numbered() -> None:
    channel = Transcript("the", WORDS[:1], 4.0)
    assert html(channels=(channel, channel)) == "<p><b>1</b> the</p><p><b>2</b> the</p>"


def test_a_player_holds_the_file_if_it_is_there_small_and_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_noise(tmp_path / "a.wav")
    head, _, data = html(path=path).partition(";base64,")
    assert head.startswith('<audio controls src="data:audio/')
    assert base64.b64decode(data.partition('"')[0]) == path.read_bytes()
    assert html(path=path).endswith("</audio>" + html())
    assert html(path=tmp_path / "gone.wav") == html()
    assert html(path=path.rename(tmp_path / "a.sph")) == html()
    monkeypatch.setattr(notebook, "MOST_BYTES", 10)
    assert html(path=write_noise(path)) == html()


def test_a_recording_is_known_by_its_path(tiny_bundle: Path, tmp_path: Path) -> None:
    from ds2.recognition.recognizer import Recognizer

    path = write_noise(tmp_path / "a.wav")
    recognizer = Recognizer.load(tiny_bundle, "cpu")
    assert recognizer.transcribe(str(path)).path == path
    assert recognizer.transcribe(path.read_bytes()).path is None
