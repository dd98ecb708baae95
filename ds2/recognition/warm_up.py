"""Compiles the kernels ahead of their first use."""

from collections.abc import Iterator

import torch

from ds2.bundle import MODELS
from ds2.ctc.alignment import ctc_align
from ds2.ctc.loss import ctc_loss
from ds2.decoder.compaction import compact
from ds2.decoder.prefixes import begin
from ds2.recognition.recognizer import Recognizer

SAMPLES, FRAMES, OUTPUTS = 8000, 20, 5


def warm_up() -> Iterator[str]:
    """Runs every search of the bundled models, in float32 and in int8, the alignment and the CTC loss once, on noise;
    yields what is ready.

    numba keeps the machine code; later processes of this user and version start with it.
    """
    noise = torch.randn(SAMPLES, generator=torch.Generator().manual_seed(0))
    for path in sorted(MODELS.glob("*.safetensors")):
        recognizer = Recognizer.load(path, "cpu")
        recognizer.transcribe(noise, recognizer.sample_rate)
        if recognizer.model.config.streams:
            stream = recognizer.stream()
            stream.accept(noise, recognizer.sample_rate)
            stream.partial()
            stream.finish()
        Recognizer.load(path, "cpu", precision="int8").transcribe(noise, recognizer.sample_rate)
        yield path.stem
    compact(begin(0))  # only a long stream needs it
    targets = torch.tensor([1, 2])
    ctc_align(torch.zeros(FRAMES, OUTPUTS).log_softmax(1), targets)
    yield "alignment"
    logits = torch.zeros(1, FRAMES, OUTPUTS, requires_grad=True)
    ctc_loss(logits, targets[None], torch.tensor([FRAMES]), torch.tensor([len(targets)])).sum().backward()
    yield "training"
