"""What may be asked of the decoder."""

from pathlib import Path

import pytest

import ds2
from ds2.recognition.options import DecoderOptions, hot_forms, hot_words
from ds2.utils.errors import ParameterError


@pytest.mark.parametrize(
    ("values", "parameter"),
    [
        ({"beam": -1}, "beam"),
        ({"beam": 1_000_001}, "beam"),
        ({"lm_weight": 1e308}, "lm_weight"),
        ({"lm_weight": float("nan")}, "lm_weight"),
        ({"word_bonus": float("inf")}, "word_bonus"),
        ({"beam": 0, "hot": ("a",)}, "beam"),
    ],
)
def test_the_wrong_parameter_is_named(values: dict[str, object], parameter: str) -> None:
    with pytest.raises(ParameterError) as caught:
        DecoderOptions(**values)  # type: ignore[arg-type]
    assert caught.value.parameter == parameter


def test_a_dict_of_hot_words_gives_their_nats(tiny_bundle: Path) -> None:
    spelt = ds2.load(tiny_bundle, "cpu", hot=["ab=2.5", "ba=-50", "a b=3"])
    mapped = ds2.load(tiny_bundle, "cpu", hot={"ab": 2.5, "ba": -50, "a b": 3})
    for recognizer in (spelt, mapped):
        lexicon = recognizer.beam.space.lexicon  # type: ignore[union-attr]
        assert lexicon.boosts.tolist()[:2] == [2.5, -50.0]
        assert lexicon.phrases == {"a b": 3.0}
    for wrong in ({"ab": 50}, {"ab": None}, {"ab": "loud"}, {"": 3}, {"ab=3": 2}):
        with pytest.raises(ParameterError, match="expected WORD, or WORD=NATS"):
            ds2.load(tiny_bundle, "cpu", hot=wrong)  # type: ignore[arg-type]


def test_hot_words_of_several_characters_are_phrases_of_these() -> None:
    assert hot_words(["北京=2", "deep speech"]) == {"北 京": 2.0, "deep speech": 5.0}


def test_hot_words_are_written_as_they_are_typed() -> None:
    arguments = ["Tencent", "McDonald's=3.5", "deep", "AT&T", "New Year", "sine die"]
    assert hot_forms(arguments) == {
        "tencent": "Tencent",
        "tencent's": "Tencent's",
        "mcdonald's": "McDonald's",
        "new year": "New Year",
        "sine die": "sine die",
    }
