"""ds2: end-to-end speech recognition based on Deep Speech 2.

    recognizer = ds2.load()                              a Recognizer; load("best.safetensors") is your own
    transcript = recognizer.transcribe("call.wav")       a Transcript: text, display, words, segments, to_srt(), ...
    for path, result in recognizer.transcribe_files(paths): ...   of many, in batches; a bad one is an InputError
    stream = ds2.load("english").stream()                live: accept(samples, rate), partial(), results(), finish()
    ds2.transcribe("call.wav")                           one recording, by the default model

A Word has text, start and end in seconds, and confidence, the probability that it is right. `ds2.ctc` holds the CTC
loss, `ds2.decoder.beam` the search for the output of other models.

Shape letters, used in every docstring: B utterances, N samples, T frames, F frequency bins, C channels, V outputs
(blank included, index 0), L labels, H hidden units.
"""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ds2.utils.errors import InputError
from ds2.utils.version import VERSION

if TYPE_CHECKING:
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.transcript import Transcript
    from ds2.recognition.words import Word

__version__ = VERSION
__all__ = ["InputError", "Recognizer", "Transcript", "Word", "__version__", "load", "transcribe"]
LAZY = {  # classes whose modules are imported at first use, so that `import ds2` costs nothing
    "Recognizer": "ds2.recognition.recognizer",
    "Transcript": "ds2.recognition.transcript",
    "Word": "ds2.recognition.words",
}


def load(
    model: str | Path = "english",
    device: str = "auto",
    *,
    lm: str | Path | None = None,
    lm_weight: float | None = None,
    word_bonus: float | None = None,
    beam: int | None = None,
    hot: str | Sequence[str] | Mapping[str, float] = (),
    rescore: str | Path | None = None,
) -> "Recognizer":
    """Loads a model.

    Args:
        model: path of a bundle, or the name of one (`ds2 models list` shows them).
        device: auto, cpu or cuda.
        lm: language model for the search: ARPA, plain or .gz, or the compiled form; by default that of the bundle.
        lm_weight: weight of the language model's natural log-probability.
        word_bonus: nats added for each word.
        beam: width of the prefix beam search; 0 decodes greedily.
        hot: words and phrases to prefer, such as "word", "word=nats" or "two words=nats", at most 15 nats for each
            word and at least -100 for all of a phrase; one of them, several in a list, or a dict of the nats of each:
            {"word": nats}.
        rescore: larger language model that rescores the n-best hypotheses; also in KenLM's binary form.

    Raises:
        InputError: a file is missing or damaged, or a parameter cannot be used.
    """
    from ds2.recognition.options import DecoderOptions, hot_arguments
    from ds2.recognition.recognizer import Recognizer

    options = DecoderOptions(
        lm=None if lm is None else Path(lm),
        lm_weight=lm_weight,
        word_bonus=word_bonus,
        beam=beam,
        hot=hot_arguments(hot),
        rescore=None if rescore is None else Path(rescore),
    )
    return Recognizer.load(model, device, options)


def transcribe(audio: "str | Path | bytes | BinaryIO") -> "Transcript":
    """Transcribes one recording with the default model; to transcribe many, keep the Recognizer that `load` returns.

    Args:
        audio: path of a file, its bytes, or a file opened in binary mode.

    Raises:
        InputError: the file cannot be read.
    """
    return load().transcribe(audio)


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})


def __getattr__(name: str) -> object:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(LAZY[name]), name)
