"""Prefix beam search of a batch: ours on the GPU, our kernels on the CPU, torchaudio's CUDA decoder where there is one.

    python benchmarks/gpu/decoder.py --output results.json

The sentences, posteriors and word 3-gram of benchmarks/decoder.py, 8.5 s each. torchaudio's decoder takes no language
model. Times are medians, from the log-probabilities on the GPU to the labels on the host; those of our CPU kernels
include the way there. "agrees" is the share of utterances with the same labels as our CPU kernels give.
"""

import argparse
import json
import runpy
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from ds2.decoder import greedy
from ds2.decoder.batched import BatchedDecoder
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.lexicon import Lexicon
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram

simulated = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "decoder.py")))

BATCHES = (1, 16, 64, 256)
BEAMS = (10, 100)
REPEATS = 5

Labels = list[tuple[int, ...]]
Decode = Callable[[Tensor, Tensor], Labels]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here; --device cpu is a dry run")
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else arguments.device
    print(f"{name}; {torch.get_num_threads()} threads on the CPU\n")
    print(
        "| utterances | beam | language model | decoder | ms | utterances/s | agrees |\n|---|---|---|---|---|---|---|"
    )
    sentences, words, problem = read_manual()
    rows = []
    for size in arguments.batches:
        spoken = [simulated.speak(sentences[seed % len(sentences)], seed) for seed in range(size)]
        log_probs = torch.stack(spoken).to(arguments.device)
        lengths = torch.full((size,), log_probs.shape[1])
        rows.append(measure((size, "", ""), "greedy", greedily, log_probs, lengths, None))
        for beam in BEAMS:
            rows += compare((size, beam, "none"), BeamConfig(beam), (), log_probs, lengths)
            config = BeamConfig(beam, lm_weight=simulated.LM_WEIGHT, word_bonus=simulated.WORD_BONUS)
            rows += compare((size, beam, f"{len(words):,} words"), config, problem, log_probs, lengths)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


def read_manual() -> tuple[list[str], list[str], tuple]:
    """Sentences to speak; the words of the others; lexicon, language model and its numbers of the lexicon's words."""
    sentences = simulated.manual()
    training = sentences[len(sentences) // 10 :]
    words, orders = estimate([sentence.split() for sentence in training], EstimateConfig(3))
    lm, alphabet = NGram.from_orders(words, orders), simulated.ALPHABET
    known = [word for word in words if not word.startswith("<")]
    lexicon = Lexicon([[alphabet.index(letter) for letter in word] for word in known], alphabet.index(" "))
    spoken = [sentence for sentence in sentences[: len(sentences) // 10] if simulated.fits(sentence, set(words))]
    return spoken, known, (lexicon, lm, np.array([lm.index[word] for word in known]))


def compare(about: tuple, config: BeamConfig, problem: tuple, log_probs: Tensor, lengths: Tensor) -> list[dict]:
    kernels, batched = BeamDecoder(config, *problem), BatchedDecoder(config, *problem)
    expected = labels_of(kernels(log_probs, lengths))
    competitors: dict[str, Decode] = {
        "kernels on the CPU": lambda *batch: labels_of(kernels(*batch)),
        "ours on the device": lambda *batch: labels_of(batched(*batch)),
    }
    if log_probs.is_cuda and not problem and (theirs := torchaudios(config.beam_width)) is not None:
        competitors["torchaudio on the device"] = theirs
    return [measure(about, name, decode, log_probs, lengths, expected) for name, decode in competitors.items()]


def labels_of(found: list[list]) -> Labels:
    return [nbest[0].tokens for nbest in found]


def greedily(log_probs: Tensor, lengths: Tensor) -> Labels:
    return [hypothesis.tokens for hypothesis in greedy(log_probs, lengths)]


def torchaudios(beam: int) -> Decode | None:
    try:
        from torchaudio.models.decoder import cuda_ctc_decoder

        search = cuda_ctc_decoder(["-", *"abcdefghijklmnopqrstuvwxyz|"], 1, beam, blank_skip_threshold=1.0)
    except (ImportError, OSError, RuntimeError):  # not installed, or without its CUDA part
        return None
    return lambda log_probs, lengths: [
        tuple(nbest[0].tokens) for nbest in search(log_probs, lengths.int().to(log_probs.device))
    ]


def measure(
    about: tuple, name: str, decode: Decode, log_probs: Tensor, lengths: Tensor, expected: Labels | None
) -> dict:
    found, times = decode(log_probs, lengths), []
    for _ in range(REPEATS):
        if log_probs.is_cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        decode(log_probs, lengths)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    agrees = sum(a == b for a, b in zip(found, expected, strict=True)) / len(found) if expected else None
    shown = f"{agrees:.1%}" if agrees is not None else ""
    utterances, beam, model = about
    print(
        f"| {utterances} | {beam} | {model} | {name} | {1000 * seconds:.1f} | {utterances / seconds:,.0f} | {shown} |",
        flush=True,
    )
    return {"utterances": utterances, "beam": beam, "model": model, "decoder": name, "s": seconds, "agrees": agrees}


if __name__ == "__main__":
    main()
