"""Prefix beam search with a word 3-gram: ours, flashlight-text and pyctcdecode in turn, on the same posteriors.

    pip install --no-deps flashlight-text pyctcdecode pygtrie; python benchmarks/decoder.py

The text is Python's reference manual, which every machine has: the language model is estimated from nine of ten
sentences, and posteriors are simulated for the others, noisy, 8.5 s at 50 frames a second. The first table decodes one
utterance after the other on one thread, the second all of them in one call. Then follow live streams, and 6,000 symbols
with a language model over tokens, with and without pruning.
"""

import functools
import gc
import math
import multiprocessing
import pydoc_data.topics
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.greedy import greedy
from ds2.decoder.lexicon import Lexicon
from ds2.lm.arpa import write_arpa
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.metrics import wer
from ds2.text import normalize

UTTERANCES = 100
FRAMES = 425  # 8.5 s at 20 ms
ALPHABET = ["", *" 'abcdefghijklmnopqrstuvwxyz"]  # the blank first
# Chosen so that greedy decoding has a WER of some 38 % and pyctcdecode takes 17 ms, as in published measurements
NOISE, BLANK_SCORE, LETTER_SCORE = 1.7, 9.0, 14.0
COMPETITION = 0.11  # probability that a letter has a competitor
LM_WEIGHT, WORD_BONUS = 0.7, 1.5
BEAMS = (50, 100, 500)
SYMBOLS, SYMBOL_FRAMES = 6000, 385
LIVE_STREAMS = (1, 10, 50)

Decode = Callable[[Tensor], str]


def main() -> None:
    torch.set_num_threads(1)
    sentences = manual()
    random.Random(0).shuffle(sentences)
    others, training = sentences[: len(sentences) // 10], sentences[len(sentences) // 10 :]
    words, orders = estimate([sentence.split() for sentence in training], EstimateConfig(3))
    held_out = [sentence for sentence in others if fits(sentence, set(words))][:UTTERANCES]
    spoken = [speak(sentence, seed) for seed, sentence in enumerate(held_out)]
    rows = torch.stack(spoken)
    heard = ["".join(ALPHABET[t] for t in h.tokens) for h in greedy(rows, torch.full((len(rows),), FRAMES))]
    print(f"{len(held_out)} utterances, {len(words)} words; greedy WER {wer(held_out, heard):.1%}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lm.arpa"
        write_arpa(path, words, orders)
        print("| beam | decoder | ms per utterance | WER |\n|---|---|---|---|")
        gc.disable()
        for beam in BEAMS:
            for name, make in MAKERS.items():
                try:
                    decode = make(path, words, beam)
                except ImportError as error:
                    print(f"| {beam} | {name} | not installed: {error} | |")
                    continue
                report(f"| {beam} | {name}", decode, spoken, held_out)
        together(path, words, rows)
        live(path, words)
    many_symbols()


def manual() -> list[str]:
    text = " ".join(pydoc_data.topics.topics.values())
    found = (normalize(sentence) for sentence in re.split(r"[.!?:;]\s|\n\n", text))
    return sorted({s for s in found if re.fullmatch("[a-z' ]+", s) and 4 <= len(s.split()) <= 25})


def fits(sentence: str, known: set[str]) -> bool:
    return 50 <= len(sentence) <= 130 and known.issuperset(sentence.split())


def speak(sentence: str, seed: int) -> Tensor:
    """(T, V) log-probabilities: blank, except for one or two frames of each letter, some with a competing letter."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, NOISE, (FRAMES, len(ALPHABET)))
    scores[:, 0] += BLANK_SCORE
    places = np.linspace(4, FRAMES - 6, len(sentence)).astype(int)
    for place, letter in zip(places, sentence, strict=True):
        frames = slice(place, place + rng.integers(1, 3))
        scores[frames, ALPHABET.index(letter)] += LETTER_SCORE
        if rng.random() < COMPETITION:
            scores[frames, rng.integers(1, len(ALPHABET))] += LETTER_SCORE + rng.normal(0.0, 1.0)
    return torch.from_numpy(scores).log_softmax(1).float()


def report(title: str, decode: Decode, spoken: list[Tensor], references: list[str]) -> None:
    decode(spoken[0])
    times, texts = [], []
    for rows in spoken:
        began = time.perf_counter()
        texts.append(decode(rows))
        times.append(time.perf_counter() - began)
    print(f"{title} | {1000 * statistics.mean(times):.2f} | {wer(references, texts):.1%} |", flush=True)


def decoder(path: Path, words: list[str], beam: int, quantized: bool = False, **settings: Any) -> BeamDecoder:
    lm = NGram.load(path)
    lm = lm.quantized() if quantized else lm
    known = [word for word in words if not word.startswith("<")]
    lexicon = Lexicon([[ALPHABET.index(letter) for letter in word] for word in known], ALPHABET.index(" "))
    config = BeamConfig(beam, lm_weight=LM_WEIGHT, word_bonus=WORD_BONUS, **settings)
    return BeamDecoder(config, lexicon, lm, np.array([lm.index[word] for word in known]))


def ours(path: Path, words: list[str], beam: int, **settings: Any) -> Decode:
    search = decoder(path, words, beam, **settings)

    def decode(rows: Tensor) -> str:
        hypothesis = search(rows.unsqueeze(0), torch.tensor([len(rows)]))[0][0]
        return "".join(ALPHABET[token] for token in hypothesis.tokens)

    return decode


def pyctc_search(path: Path, words: list[str]) -> Any:
    from pyctcdecode import build_ctcdecoder

    known = [word for word in words if not word.startswith("<")]
    return build_ctcdecoder(ALPHABET, str(path), unigrams=known, alpha=LM_WEIGHT, beta=WORD_BONUS)


def pyctc(path: Path, words: list[str], beam: int) -> Decode:
    search = pyctc_search(path, words)
    return lambda rows: search.decode(rows.numpy(), beam_width=beam)


def flashlight(path: Path, words: list[str], beam: int) -> Decode:
    from flashlight.lib.text.decoder import (
        CriterionType,
        LexiconDecoder,
        LexiconDecoderOptions,
        SmearingMode,
        Trie,
    )
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    letters = [letter if letter not in ("", " ") else {"": "<b>", " ": "|"}[letter] for letter in ALPHABET]
    known, dictionary = [word for word in words if not word.startswith("<")], Dictionary(["<unk>"])
    for word in known:
        dictionary.add_entry(word)
    lm = KenLM(str(path), dictionary)
    trie, start = Trie(len(letters), letters.index("|")), lm.start(False)
    for word in known:
        number = dictionary.get_index(word)
        _, score = lm.score(start, number)
        trie.insert([*(letters.index(letter) for letter in word), letters.index("|")], number, score)
    trie.smear(SmearingMode.MAX)
    options = LexiconDecoderOptions(
        beam_size=beam, beam_size_token=len(letters), beam_threshold=25.0, lm_weight=LM_WEIGHT * math.log(10),
        word_score=WORD_BONUS, unk_score=-math.inf, sil_score=0.0, log_add=True, criterion_type=CriterionType.CTC,
    )  # fmt: skip
    search = LexiconDecoder(options, trie, lm, letters.index("|"), 0, dictionary.get_index("<unk>"), [], False)

    def decode(rows: Tensor) -> str:
        frames = rows.contiguous()
        best = search.decode(frames.data_ptr(), frames.shape[0], frames.shape[1])[0]
        return " ".join(dictionary.get_entry(word) for word in best.words if word >= 0)

    return decode


MAKERS: dict[str, Callable[[Path, list[str], int], Decode]] = {
    "ds2": ours,
    "ds2, quantised language model": functools.partial(ours, quantized=True),
    "ds2, score_threshold 10": functools.partial(ours, score_threshold=10.0),
    "ds2, no other words": functools.partial(ours, closed=True),
    "ds2, no other words, score_threshold 12": functools.partial(ours, closed=True, score_threshold=12.0),
    "pyctcdecode": pyctc,
    "flashlight-text, no other words": flashlight,
}


def together(path: Path, words: list[str], rows: Tensor) -> None:
    """All utterances in one call at beam 100: our threads, pyctcdecode's processes."""
    search, lengths = decoder(path, words, 100), torch.full((len(rows),), FRAMES)
    print("\n| threads or processes | decoder | utterances a second |\n|---|---|---|")
    for count in (1, 2):
        torch.set_num_threads(count)
        rate(f"| {count} | ds2", lambda: search(rows, lengths), len(rows))
        torch.set_num_threads(1)
        try:
            peer = pyctc_search(path, words)
        except ImportError:
            continue
        with multiprocessing.get_context("fork").Pool(count) as pool:
            decode_all = functools.partial(peer.decode_batch, pool, list(rows.numpy()), 100)
            rate(f"| {count} | pyctcdecode", decode_all, len(rows))


def rate(title: str, decode_all: Callable[[], object], utterances: int) -> None:
    decode_all()
    began = time.perf_counter()
    decode_all()
    print(f"{title} | {utterances / (time.perf_counter() - began):.0f} |", flush=True)


def live(path: Path, words: list[str]) -> None:
    """Steps of 40 ms of many streams at beam 50."""
    print("\n| streams | one step of 40 ms of all, ms |\n|---|---|")
    search = decoder(path, words, 50)
    rows = speak("the value of the expression is a string of characters that is read again", 1)
    for count in LIVE_STREAMS:
        streams, times = [search.begin() for _ in range(count)], []
        for start in range(0, FRAMES - 1, 2):
            began = time.perf_counter()
            search.step(streams, [rows[start : start + 2]] * count)
            times.append(time.perf_counter() - began)
        print(f"| {count} | {1000 * statistics.median(times):.2f} |", flush=True)


def many_symbols() -> None:
    """A token 3-gram over 6,000 symbols; a beam of 200, pruned at p = 0.99 and 40 symbols, and not pruned."""
    rng = np.random.default_rng(0)
    weights = 1.0 / np.arange(1, SYMBOLS)
    corpus = [rng.choice(np.arange(1, SYMBOLS), 20, p=weights / weights.sum()) for _ in range(5000)]
    lm = NGram.from_orders(*estimate([[str(token) for token in sentence] for sentence in corpus], EstimateConfig(3)))
    numbers = np.array([lm.index.get(str(token), 0) for token in range(SYMBOLS)])
    print("\n| symbols | ms per utterance | language-model look-ups | character error rate |\n|---|---|---|---|")
    for name, config in {
        "p = 0.99, at most 40": BeamConfig(200, cumulative_probability=0.99, lm_weight=0.5, word_bonus=1.0),
        "all 6,000": BeamConfig(
            200, math.inf, cumulative_probability=1.0, max_symbols=SYMBOLS, lm_weight=0.5, word_bonus=1.0
        ),
    }.items():
        search = BeamDecoder(config, None, lm, numbers)
        times, errors, lookups, count = [], [], 0, 5 if config.max_symbols < SYMBOLS else 1
        for seed in range(count):
            rows = speak_tokens(corpus[seed], seed)
            stream = search.begin()
            search.step([stream], [rows[:1]])  # compiles
            stream = search.begin()
            began = time.perf_counter()
            search.step([stream], [rows])
            tokens = search.finish(stream)[0].tokens
            times.append(time.perf_counter() - began)
            lookups += search.lookups(stream)
            errors.append(wer([" ".join(map(str, corpus[seed]))], [" ".join(map(str, tokens))]))
        print(
            f"| {name} | {1000 * statistics.mean(times):.1f} | {lookups / count:,.0f} | {statistics.mean(errors):.1%} |"
        )


def speak_tokens(sentence: np.ndarray, seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, 1.5, (SYMBOL_FRAMES, SYMBOLS))
    scores[:, 0] += 18.0
    for place, token in zip(np.linspace(4, SYMBOL_FRAMES - 6, len(sentence)).astype(int), sentence, strict=True):
        scores[place : place + 2, token] += 15.0
        scores[place : place + 2, 0] -= 4.0
    return torch.from_numpy(scores).log_softmax(1).float()


if __name__ == "__main__":
    main()
