"""The public API: what `import ds2` offers."""

import pydoc
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ds2
from ds2.bundle import Bundle
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram


def test_load_and_transcribe(spoken_digits: Callable[[int], Path]) -> None:
    path = spoken_digits(1).parent / "0.wav"
    transcript = ds2.load("digits").transcribe(path)
    assert (transcript.text, transcript.model) == ("zero", "digits")
    [word] = transcript.words
    assert isinstance(word, ds2.Word)
    assert 0 <= word.start < word.end <= transcript.duration
    assert 0.5 < word.confidence <= 1


def test_every_public_name_is_there() -> None:
    assert all(getattr(ds2, name) for name in ds2.__all__)
    assert isinstance(ds2.load("digits"), ds2.Recognizer)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ds2.nothing  # noqa: B018


def test_help_begins_with_the_api_and_names_all_of_it() -> None:
    """The first screen shows what to call."""
    text = pydoc.plain(pydoc.render_doc(ds2))
    first = "\n".join(text.splitlines()[:30])
    for name in ("ds2.load()", "transcribe_files(", "stream()", "Transcript", "Word", "InputError"):
        assert name in first
    classes = text[text.index("CLASSES") : text.index("DATA")]
    assert all(f"{name}(" in classes for name in ("Recognizer", "Transcript", "Word", "load", "transcribe"))
    assert set(ds2.__all__) <= set(dir(ds2))


def test_reprs_fit_on_a_line(tiny_bundle: Path) -> None:
    words = tuple(ds2.Word(text, at, at + 0.5, 0.75) for at, text in enumerate(["one", "two"] * 200))
    transcript = ds2.Transcript(" ".join(word.text for word in words), words, 400.0)
    assert repr(words[0]) == "Word('one', 0.00 to 0.50 s, confidence 0.75)"
    assert repr(transcript) == (
        "Transcript('one two one two one two one two one two one two one two ...', 400 words, 400.00 s)"
    )
    assert repr(transcript.segments[0]).startswith("TranscriptSegment('one two ")
    assert repr(ds2.load("digits-streaming").stream()) == "LiveStream(0.00 s heard, 0 segments waiting)"
    assert repr(ds2.load(tiny_bundle, "cpu")) == f"Recognizer({str(tiny_bundle)!r}, 8000 Hz, greedy, cpu)"
    assert re.fullmatch(
        r"Bundle\('.*digits\.safetensors', knows 10 words and no other: .*\)", repr(Bundle.load("digits"))
    )


def test_load_takes_the_options_of_the_decoder(tiny_bundle: Path, tmp_path: Path) -> None:
    NGram.from_orders(*estimate([["ab"], ["ab", "cab"]], EstimateConfig(1))).save(tmp_path / "lm")
    recognizer = ds2.load(
        tiny_bundle, "cpu", lm=str(tmp_path / "lm"), lm_weight=0.5, word_bonus=0.1, beam=5, hot=["ab=2"]
    )
    assert recognizer.beam is not None
    config = recognizer.beam.config
    assert (config.beam_width, config.lm_weight, config.word_bonus) == (5, 0.5, 0.1)
    with pytest.raises(ds2.InputError, match="hot: x"):
        ds2.load(tiny_bundle, hot=["x"])
    assert ds2.load("digits", beam=0).beam is None
    with pytest.raises(ds2.InputError, match="hot: xyz: "):  # one word, not its letters
        ds2.load(tiny_bundle, hot="xyz")


@pytest.mark.long
def test_a_script_that_imports_ds2_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-torch.*,numba.*]\nfollow_imports = skip\n")  # 20 s of theirs
    (tmp_path / "script.py").write_text(
        "import ds2\nrecognizer: ds2.Recognizer = ds2.load('digits', hot=['one'])\n"
        "text: str = recognizer.transcribe('a.wav').segments[0].text\nreveal_type(ds2.transcribe(b''))\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(tmp_path / "mypy.ini"),
        "--strict",
        "--follow-imports",
        "silent",
        "--cache-dir",
        str(tmp_path),
        str(tmp_path / "script.py"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=Path(ds2.__file__).parents[1])
    assert 'Revealed type is "ds2.recognition.transcript.Transcript"' in result.stdout
    assert result.returncode == 0, result.stdout
