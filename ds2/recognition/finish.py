"""From the decoder's hypotheses of an utterance to its transcript: the same offline, live and in the server."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ds2.decoder import Hypothesis
from ds2.recognition.calibration import Judge
from ds2.recognition.transcript import Transcript, make_transcript
from ds2.text import Tokenizer


@dataclass(frozen=True)
class Finisher:
    """Makes transcripts.

    Attributes:
        frame_seconds: duration of an output frame.
        judge: gives words a calibrated confidence and drops what is no speech; None in a bundle without calibration.
        model: name or path of the bundle.
    """

    tokenizer: Tokenizer
    frame_seconds: float
    judge: Judge | None = None
    model: str = ""

    def __call__(
        self, nbest: Sequence[Hypothesis], rows: Sequence[Tensor], duration: float, start: float = 0.0
    ) -> Transcript:
        """The transcript of the best hypothesis of `duration` seconds of sound, which begin at `start` seconds.

        Args:
            nbest: the best hypothesis and those that compete with it.
            rows: the log-probabilities in which they were found, in pieces of (T, V), or (T, V + P) with phones.
        """
        best, *competitors = nbest
        transcript = make_transcript(best, self.tokenizer, self.frame_seconds, duration, competitors)
        if self.judge is not None and transcript.words:
            log_probs = torch.cat([piece[:, : len(self.tokenizer)] for piece in rows]).float()
            transcript = self.judge(transcript, best, log_probs.numpy(force=True))
        return dataclasses.replace(later(transcript, start), model=self.model)


def later(transcript: Transcript, seconds: float) -> Transcript:
    """The transcript with its words moved by `seconds`."""
    words = tuple(
        dataclasses.replace(word, start=round(word.start + seconds, 3), end=round(word.end + seconds, 3))
        for word in transcript.words
    )
    return dataclasses.replace(transcript, words=words)
