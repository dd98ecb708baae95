"""Compiles the kernels ahead of their first use."""

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from ds2.ctc.array_alignment import align_arrays
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.compaction import compact
from ds2.decoder.letter_to_sound import guess_pronunciations
from ds2.decoder.prefixes import begin
from ds2.lm.backoff import advance_all, with_backoffs
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.mixing import mix
from ds2.lm.ngram import NGram
from ds2.lm.pruning import prune
from ds2.recognition.recognizer import Recognizer
from ds2.utils.byte_products import multiplies_bytes
from ds2.utils.model_names import MODELS

SAMPLES, FRAMES, OUTPUTS = 8000, 20, 5
LONG = 8 * SAMPLES  # so many frames that convolutions take them one by one


def warm_up(library: bool = False) -> Iterator[str]:
    """Runs every search of the bundled models once, on noise, and the estimation of language models; with PyTorch also
    int8, the alignment and the losses; yields what is ready.

    numba keeps the machine code; later processes of this user and version start with it.

    `library`: links what works without PyTorch into a library (kernel_linker.py).

    Raises:
        InputError: there is no compiler of C++.
    """
    yield from link_library() if library else _warm_up_inference()
    if find_spec("torch") is not None:
        yield from _warm_up_training()


def link_library() -> Iterator[str]:
    """Links what works without PyTorch into a library; yields what is ready, the path of the library last.

    Raises:
        InputError: there is no compiler of C++.
    """
    from ds2.utils.kernel_linker import link, noting_calls

    with noting_calls() as calls:
        yield from _warm_up_inference()
    yield str(link(calls))


def _warm_up_inference() -> Iterator[str]:
    noise = np.random.default_rng(0).standard_normal(LONG).astype(np.float32)
    for path in sorted(MODELS.glob("*.safetensors")):
        recognizer = Recognizer.load(path, "cpu")
        recognizer.transcribe(noise, recognizer.sample_rate)
        if recognizer.model.config.streams:
            _hear_live(recognizer, noise)
            _hear_live(Recognizer.load(path, "cpu", engine="native", precision="auto", live=True), noise)
        if multiplies_bytes() and not recognizer.model.config.recurrent_layers:
            Recognizer.load(path, "cpu", engine="native", precision="int8").transcribe(noise, recognizer.sample_rate)
        yield path.stem
    compact(begin(0))  # only a long stream needs it
    BeamDecoder().stable(BeamDecoder().begin())  # only a server that says what will not change
    BeamDecoder()(np.zeros((1, FRAMES, OUTPUTS), np.float32), np.array([FRAMES]))  # only callers of the search alone
    guess_pronunciations("a", {"a": [(1,)]})  # only hot words that a model lacks need it
    _warm_up_language_models()
    yield "language models"
    align_arrays(np.zeros((FRAMES, OUTPUTS), np.float32), np.array([1, 2]))
    yield "alignment"


def _hear_live(recognizer: Recognizer, noise: np.ndarray) -> None:
    stream = recognizer.stream()
    stream.accept(noise, recognizer.sample_rate)
    stream.partial()
    stream.finish()


def _warm_up_language_models() -> None:
    """Estimates, mixes, prunes, packs and scores one, in single and double precision."""
    words, orders = mix([estimate([["a", "b"], ["b"]], EstimateConfig(2))], [1.0])
    orders = prune(words, orders, 1e-9)
    model = NGram.from_orders(words, orders)
    for each in (model, NGram.from_orders(words, orders, np.float64), model.quantized()):
        each.score(["a", "b"])
        with_backoffs(words, each.orders())
        for kind in (np.int32, np.int64):
            advance_all(each, np.zeros(1, kind), np.zeros(1, np.int64))


def _warm_up_training() -> Iterator[str]:
    import torch

    from ds2.audio.tempo import change_tempo
    from ds2.bundle import read_record
    from ds2.ctc import ctc_loss
    from ds2.ctc.crf import ctc_crf_loss
    from ds2.ctc.trigram import Trigram
    from ds2.model.acoustic import AcousticModel
    from ds2.model.config import ModelConfig

    samples, targets = torch.zeros(SAMPLES), torch.tensor([1, 2])
    paths = sorted(MODELS.glob("*.safetensors"))
    for path in paths:
        if ModelConfig.of(read_record(path)).recurrent_layers:
            recognizer = Recognizer.load(path, "cpu", engine="torch", precision="int8")
            recognizer.transcribe(samples.numpy(), recognizer.sample_rate)
    yield "int8"
    # A step of training for each architecture: forward, loss, backward.
    change_tempo(samples, SAMPLES, 1.1)
    for record in map(read_record, paths):
        model = AcousticModel(ModelConfig.of(record), len(record.tokens))
        output = model.network(*model.frontend(samples[None], torch.tensor([SAMPLES])))
        losses = ctc_loss(output.logits, targets[None], output.lengths, torch.tensor([len(targets)]))
        others = [scores.sum() for scores in (output.phone_logits, output.biphones) if scores is not None]
        torch.stack([losses, *others]).sum().backward()
    logits = torch.zeros(1, FRAMES, OUTPUTS, requires_grad=True)
    lengths = torch.tensor([FRAMES]), torch.tensor([len(targets)])
    ctc_crf_loss(logits, targets[None], *lengths, Trigram.from_labels([[1, 2]], OUTPUTS)).sum().backward()
    yield "training"
