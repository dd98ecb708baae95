"""Log-probabilities to text, for tokens that are given as strings."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.texts import TimedWord
from ds2.lm.arpa import write_arpa
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.utils.errors import ParameterError

ROOT = Path(__file__).parents[2]
TOKENS = ["", "a", "b", " "]


def rows(tokens: list[str], text: str, sure: float = 0.97) -> np.ndarray:
    """(T, V) log-probabilities with one frame for each character; _ is the blank."""
    scores = np.full((len(text), len(tokens)), (1 - sure) / (len(tokens) - 1))
    scores[range(len(text)), [tokens.index("" if letter == "_" else letter) for letter in text]] = sure
    return np.log(scores)


def test_text_of_arrays_and_tensors_one_or_many() -> None:
    decoder, log_probs = BeamDecoder.from_tokens(TOKENS), rows(TOKENS, "aab_ b")
    assert decoder.decode(log_probs) == decoder.decode(torch.from_numpy(log_probs)) == "ab b"
    assert decoder.decode(np.stack([log_probs] * 2), torch.tensor([6, 2])) == ["ab b", "a"]


def test_words_have_frames() -> None:
    decoder = BeamDecoder.from_tokens(TOKENS, config=BeamConfig(nbest=2))
    [[best, second]] = decoder.nbest(rows(TOKENS, "aab_ b")[None])
    assert best.words == (TimedWord("ab", 0, 3), TimedWord("b", 5, 6))
    assert best.score > second.score


def test_the_blank_may_be_anywhere_and_the_space_a_bar() -> None:
    tokens = ["a", "|", "b", "<pad>"]
    log_probs = rows(["a", " ", "b", ""], "ab_ b")
    assert BeamDecoder.from_tokens(tokens).decode(log_probs) == "ab b"


def test_a_language_model_and_hot_words_decide(tmp_path: Path) -> None:
    write_arpa(tmp_path / "lm.arpa.gz", *estimate([["ab"]] * 9 + [["aa"]], EstimateConfig(2)))
    log_probs = np.log(np.array([[0.02, 0.94, 0.02, 0.02], [0.94, 0.02, 0.02, 0.02], [0.0004, 0.6, 0.3995, 0.0001]]))
    assert BeamDecoder.from_tokens(TOKENS).decode(log_probs) == "aa"
    assert BeamDecoder.from_tokens(TOKENS, tmp_path / "lm.arpa.gz").decode(log_probs) == "ab"
    assert BeamDecoder.from_tokens(TOKENS, tmp_path / "lm.arpa.gz", hot={"aa": 20.0}).decode(log_probs) == "aa"
    assert BeamDecoder.from_tokens(TOKENS, hot=["ab"]).decode(log_probs) == "ab"


def test_a_language_model_over_tokens() -> None:
    tokens = ["", "我", "用", "他"]
    from ds2.lm.ngram import NGram

    lm = NGram.from_orders(*estimate([list("我用")] * 9 + [list("他")], EstimateConfig(2)))
    log_probs = np.log(np.array([[0.001, 0.499, 0.0, 0.5], [0.001, 0.0, 0.999, 0.0]]) + 1e-9)
    assert BeamDecoder.from_tokens(tokens).decode(log_probs) == "他用"
    assert BeamDecoder.from_tokens(tokens, lm).decode(log_probs) == "我用"


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [((["a", "b"],), "tokens"), ((["", "a", "a"],), "tokens"), ((TOKENS, None, ["x"]), "hot"),
     ((["", "a"], None, ["a"]), "tokens")],
)  # fmt: skip
def test_what_cannot_be_spelt_is_refused(arguments: tuple, parameter: str) -> None:
    with pytest.raises(ParameterError, match=f"^{parameter}: "):
        BeamDecoder.from_tokens(*arguments)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        BeamDecoder.from_tokens(TOKENS).decode(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="from_tokens"):
        BeamDecoder().decode(np.zeros((3, 4)))


def test_the_example_finds_the_hot_word() -> None:
    command = [sys.executable, str(ROOT / "examples" / "decode_log_probs.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.splitlines()[0] == "deep speech"
