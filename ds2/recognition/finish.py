"""From the decoder's hypotheses of an utterance to its transcript: the same offline, live and in the server."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from ds2.bundle import Bundle
from ds2.decoder import Hypothesis
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.model.config import ModelConfig
from ds2.recognition.calibration import Calibration, Judge
from ds2.recognition.options import DecoderOptions
from ds2.recognition.transcript import Transcript, make_transcript
from ds2.text import Tokenizer
from ds2.utils.config import from_dict
from ds2.utils.errors import ParameterError

if TYPE_CHECKING:
    from ds2.recognition.punctuation import Punctuator


@dataclass(frozen=True)
class Finisher:
    """Makes transcripts.

    Attributes:
        frame_seconds: duration of an output frame.
        judge: gives words a calibrated confidence and drops what is no speech; None in a bundle without calibration.
        punctuator: gives words their display form; None in a bundle without punctuation.
        punctuate: the display form is the text.
        model: name or path of the bundle.
    """

    tokenizer: Tokenizer
    frame_seconds: float
    judge: Judge | None = None
    punctuator: "Punctuator | None" = None
    punctuate: bool = False
    model: str = ""

    def __call__(
        self, nbest: Sequence[Hypothesis], rows: Sequence[np.ndarray], duration: float, start: float = 0.0
    ) -> Transcript:
        """The transcript of the best hypothesis of `duration` seconds of sound, which begin at `start` seconds.

        Args:
            nbest: the best hypothesis and those that compete with it.
            rows: the log-probabilities in which they were found, in pieces of (T, V), or (T, V + P) with phones;
                without any the words keep the confidence that they have without calibration.
        """
        best, *competitors = nbest
        transcript = make_transcript(best, self.tokenizer, self.frame_seconds, duration, competitors)
        if self.judge is not None and rows and transcript.words:
            log_probs = np.concatenate([piece[:, : len(self.tokenizer)] for piece in rows])
            transcript = self.judge(transcript, best, log_probs)
        if self.punctuator is not None:
            transcript = _displayed(transcript, self.punctuator)
        transcript = dataclasses.replace(later(transcript, start), model=self.model)
        return transcript.punctuated if self.punctuate else transcript


def make_finisher(
    tokenizer: Tokenizer,
    bundle: Bundle,
    options: DecoderOptions,
    beam: BeamDecoder | PronouncingDecoder | None,
    name: str,
) -> Finisher:
    """The finisher of a bundle. Its calibration is that of its own search: it is left out if another one is asked for.

    Raises:
        InputError: the calibration or the punctuation is damaged.
        ParameterError: punctuation is asked for, and the bundle has none.
    """
    judge, lm = None, beam.lm if beam is not None else None
    if "confidence" in bundle.metadata and options.lm is None and options.beam != 0:
        judge = Judge(from_dict(Calibration, bundle.metadata["confidence"], f"{name}: calibration"), tokenizer, lm)
    punctuator = _punctuator(bundle)
    if options.punctuate and punctuator is None:
        raise ParameterError("punctuate", f"{name} has no punctuation" if not bundle.punctuation else "needs torch")
    frame_seconds = from_dict(ModelConfig, bundle.metadata["config"], name).frame_seconds
    return Finisher(tokenizer, frame_seconds, judge, punctuator, options.punctuate, name)


def _punctuator(bundle: Bundle) -> "Punctuator | None":
    """The punctuator of a bundle, if it has one; it is a network of torch, and is left out where that is missing."""
    if not bundle.punctuation or find_spec("torch") is None:
        return None
    from ds2.recognition.punctuation import Punctuator

    return Punctuator.from_bundle(bundle)


def _displayed(transcript: Transcript, punctuator: "Punctuator") -> Transcript:
    forms = punctuator([word.text for word in transcript.words])
    words = zip(transcript.words, forms, strict=True)
    return dataclasses.replace(transcript, words=tuple(dataclasses.replace(word, display=form) for word, form in words))


def later(transcript: Transcript, seconds: float) -> Transcript:
    """The transcript with its words moved by `seconds`."""
    words = tuple(
        dataclasses.replace(word, start=round(word.start + seconds, 3), end=round(word.end + seconds, 3))
        for word in transcript.words
    )
    return dataclasses.replace(transcript, words=words)
