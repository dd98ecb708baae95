"""Decodes the log-probabilities of any CTC model, with a language model and hot words."""

import argparse

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig

TOKENS = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]  # of your model, the blank is ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lm", nargs="?", help="a language model, lm.arpa.gz")
    lm = parser.parse_args().lm
    log_probs = spoken("deep speach")  # (T, V) of your model, from numpy or torch
    decoder = BeamDecoder.from_tokens(TOKENS, lm=lm, hot={"speech": 6.0}, config=BeamConfig(nbest=3))
    print(decoder.decode(log_probs))
    for hypothesis in decoder.nbest(log_probs[None])[0]:
        print(f"{hypothesis.score:8.2f}", *(f"{word.text} ({word.start}-{word.end})" for word in hypothesis.words))


def spoken(text: str) -> np.ndarray:
    """(T, V) log-probabilities in which each letter fills a frame and resembles e and c a little."""
    scores = np.zeros((2 * len(text), len(TOKENS)))
    scores[1::2, 0] = 8.0
    for place, letter in enumerate(text):
        scores[2 * place, TOKENS.index(letter)] = 8.0
        scores[2 * place, [TOKENS.index("e"), TOKENS.index("c")]] += 5.0
    return (scores - np.log(np.exp(scores).sum(1, keepdims=True))).astype(np.float32)


if __name__ == "__main__":
    main()
