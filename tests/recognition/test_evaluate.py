"""Measuring a recogniser on a manifest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ds2.cli.error_rates import report_evaluation
from ds2.cli.options import DEFAULT_EVALUATION
from ds2.data.manifest import read_manifest
from ds2.recognition.evaluate import Evaluation, comparable_letters, evaluate
from ds2.recognition.readings import transcript_form
from ds2.recognition.recognizer import Recognizer
from ds2.text import BLANK_TOKEN, Tokenizer
from ds2.utils.jit import njit


def test_transcripts_are_brought_to_the_form_of_the_references(spoken_digits: Callable[[int], Path]) -> None:
    recognizer, utterances = Recognizer.load("digits", "cpu"), read_manifest(spoken_digits(3))
    plain = evaluate(recognizer, utterances).hypotheses
    assert "".join(plain).islower()
    both = evaluate(recognizer, utterances, form=lambda text, reference: (f"{text.upper()} {reference}", "x"))
    assert both.references == ["x"] * len(both.utterances)
    assert both.hypotheses == [
        f"{text.upper()} {utterance.text}" for text, utterance in zip(plain, utterances, strict=True)
    ]


def test_the_form_of_a_transcript() -> None:
    said = "on july two thousand and twelve p.m."
    assert transcript_form(None)(said, "on july twenty twelve p m") == said
    assert transcript_form("zh")(said, "on july twenty twelve p m") == "on july two thousand and twelve p m"
    assert transcript_form("en")(said, "on july twenty twelve p m") == "on july twenty twelve p m"


def test_a_model_without_spaces_is_compared_without_spaces() -> None:
    """Mandarin with Latin words: a space between them would be an error that no model can avoid."""
    assert comparable_letters(Tokenizer([BLANK_TOKEN, "听", "l", "e", "t", "i"]))("听 Let  It") == "听letit"
    assert comparable_letters(Tokenizer([BLANK_TOKEN, " ", "l", "e", "t", "i"]))(" Let  It") == "let it"


def test_seconds_of_compiling_kernels_are_told(
    spoken_digits: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A first run compiles, and its real-time factor says little of the next one's."""
    recognizer, utterances = Recognizer.load("digits", "cpu"), read_manifest(spoken_digits(1))
    evaluate(recognizer, utterances)

    def measured(on_done: Callable[[], object]) -> tuple[Evaluation, str]:
        result = evaluate(recognizer, utterances, lambda: on_done() and None)
        report_evaluation(result, "digits", {}, DEFAULT_EVALUATION)
        return result, capsys.readouterr().out

    def called(x: int) -> int:
        return x + 1

    inner = njit(forceinline=True)(called)

    def kernel(x: int) -> int:
        return inner(x) * 2

    result, output = measured(lambda: njit()(kernel)(3))
    assert 0.0 < result.compiling_seconds < result.compute_seconds
    assert f"{result.compiling_seconds:.1f} s of it compiled kernels, which a second run does not need" in output
    result, output = measured(lambda: None)
    assert result.compiling_seconds == 0.0
    assert "compiled" not in output
