"""From the decoder's hypotheses of a segment to its transcript: the same offline, live and in the server."""

import dataclasses
import heapq
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.decoder.rescore import Rescorer
from ds2.model.config import ModelConfig
from ds2.model_record import Record
from ds2.recognition.bundled_search import knows_most
from ds2.recognition.calibration import Calibration, Judge
from ds2.recognition.confidence import margins, posteriors, presence
from ds2.recognition.foreign_words import warn_of_foreign_search
from ds2.recognition.hot_spelling import spelt_by
from ds2.recognition.long_words import beside_pauses
from ds2.recognition.options import DecoderOptions, hot_forms
from ds2.recognition.plain_search import PlainSearch, with_hidden_words
from ds2.recognition.punctuation import Punctuator
from ds2.recognition.second_pass import make_rescorer
from ds2.recognition.spoken_to_figures import with_figures
from ds2.recognition.transcript import (
    Alternative,
    SegmentAlternatives,
    Transcript,
    make_transcript,
    placed_texts,
    with_confidences,
)
from ds2.text import Tokenizer, split_words
from ds2.utils.config import from_dict

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TranscriptBuilder:
    """Makes transcripts.

    Attributes:
        frame_seconds: duration of an output frame.
        judge: gives words a calibrated confidence and drops what is no speech; None in a bundle without calibration.
        punctuator: gives words their display form; None leaves them plain.
        figures: display forms have numbers as figures.
        model: name or path of the bundle.
        compared: how many hypotheses, the best one among them, give its words their confidence; None: all.
        alternatives: how many of the best texts a transcript holds besides its own.
        rescorer: weighs hypotheses anew.
        plain: the search without hot words; None where there are no words.
    """

    tokenizer: Tokenizer
    frame_seconds: float
    judge: Judge | None = None
    punctuator: Punctuator | None = None
    figures: bool = True
    model: str = ""
    compared: int | None = None
    alternatives: int = 0
    rescorer: Rescorer | None = None
    plain: PlainSearch | None = None

    @property
    def judged_outputs(self) -> int:
        """The first outputs of the model, whose log-probabilities tell how certain words are; 0 if nobody asks."""
        return 0 if self.judge is None else len(self.tokenizer) + self.judge.phones

    def with_forms_of(self, hot: Iterable[str]) -> "TranscriptBuilder":
        """The same, which writes hot words and phrases as they were typed; see `options.hot_forms`."""
        if self.punctuator is None or not (typed := hot_forms(hot)):
            return self
        forms = {spelt_by(self.tokenizer, word): form for word, form in typed.items()}
        return dataclasses.replace(self, punctuator=self.punctuator.with_forms(forms))

    def rescored(self, nbests: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The hypotheses of several segments, as the second pass sorts them: what a transcript is made of."""
        if self.rescorer is None:
            return nbests
        decode = self.tokenizer.decode
        return self.rescorer(nbests, [[split_words(decode(each.tokens)) for each in nbest] for nbest in nbests])

    def __call__(
        self, nbest: Sequence[Hypothesis], rows: Sequence[np.ndarray], duration: float, start: float = 0.0
    ) -> Transcript:
        """The transcript of the best hypothesis of `duration` seconds of sound, which begin at `start` seconds.

        Args:
            nbest: the best hypothesis and those that compete with it.
            rows: the log-probabilities in which they were found, in chunks of (T, V), or (T, V + P + Q) with phones;
                without any the words keep the confidence that they have without calibration.
        """
        return self.joined([self.heard(nbest, rows, duration, start)], duration)

    def heard(
        self, nbest: Sequence[Hypothesis], rows: Sequence[np.ndarray], duration: float, start: float = 0.0
    ) -> Transcript:
        """Like `__call__`, (T, V) rows of a segment of a recording: `joined` makes the transcript of all segments."""
        found = later(self._placed(nbest[: self.compared], rows, duration), start)
        if not self.alternatives:
            return found
        texts = {found.text: Alternative(found, nbest[0].score)}
        for hypothesis in self._of_other_texts(nbest):
            if len(texts) == self.alternatives:
                break
            competing = [hypothesis, *(each for each in nbest[: self.compared] if each is not hypothesis)]
            transcript = later(self._placed(competing, rows, duration), start)
            texts.setdefault(transcript.text, Alternative(transcript, hypothesis.score))
        ranked = SegmentAlternatives(start, start + duration, tuple(texts.values()))
        return dataclasses.replace(found, segment_alternatives=(ranked,))

    def joined(self, segments: Sequence[Transcript], duration: float) -> Transcript:
        """The transcript of a recording of `duration` seconds from what was heard in its segments, in order of time."""
        whole = self._joined(segments, duration)
        ranked = [each for segment in segments for each in segment.segment_alternatives]
        if not ranked:
            return whole
        # The best texts of the whole are the best sums of one text of each segment.
        texts: dict[str, Alternative] = {}
        for places, score in best_sums(
            [[score for _, score in each.alternatives] for each in ranked], self.alternatives
        ):
            chosen = [each.alternatives[place].transcript for each, place in zip(ranked, places, strict=True)]
            transcript = self._joined(chosen, duration)
            texts.setdefault(transcript.text, Alternative(transcript, score))
        shown = tuple(
            each._replace(
                alternatives=tuple(Alternative(self._joined([t], t.duration), s) for t, s in each.alternatives)
            )
            for each in ranked
        )
        return dataclasses.replace(whole, alternatives=tuple(texts.values()), segment_alternatives=shown)

    def _of_other_texts(self, nbest: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The best hypothesis of each text but the first; some differ only in a pronunciation, or a space at an end."""
        found: dict[str, Hypothesis] = {}
        for hypothesis in nbest:
            found.setdefault(self.tokenizer.decode(hypothesis.tokens).strip(), hypothesis)
        return list(found.values())[1:]

    def _joined(self, segments: Sequence[Transcript], duration: float) -> Transcript:
        between = " " if " " in self.tokenizer.index else ""
        text = between.join(segment.text for segment in segments if segment.text)
        words = tuple(word for segment in segments for word in segment.words)
        dropped = sum(segment.dropped for segment in segments)
        transcript = Transcript(text, words, duration, self.model, calibrated=self.judge is not None, dropped=dropped)
        return transcript if self.punctuator is None else _displayed(transcript, self.punctuator, self.figures)

    def examine(
        self, nbest: Sequence[Hypothesis], log_probs: np.ndarray, duration: float
    ) -> tuple[Transcript, np.ndarray]:
        """The transcript as it is before the judge sees it, and the (W, WEIGHTS) evidence that the judge would see."""
        assert self.judge is not None
        transcript, margin = self._compared(nbest, duration)
        return transcript, self.judge.evidence(transcript, nbest[0], margin, log_probs)

    def _placed(self, nbest: Sequence[Hypothesis], rows: Sequence[np.ndarray], duration: float) -> Transcript:
        """Like `_judged`; no word lasts through a pause."""
        judged = self._judged(nbest, rows, duration)
        return beside_pauses(judged, rows, self.frame_seconds, self.tokenizer.unspoken)

    def _judged(self, nbest: Sequence[Hypothesis], rows: Sequence[np.ndarray], duration: float) -> Transcript:
        """The transcript of the first hypothesis, its times from the start of the segment."""
        transcript, margin = self._compared(nbest, duration)
        if not rows:
            return transcript
        judged = transcript
        if self.judge is not None and transcript.words:
            judged = self.judge(transcript, nbest[0], margin, np.concatenate(rows))
        # A hot word may be found where other words are said, which are then taken for noise.
        if self.plain is None or not nbest[0].hot or 0 < len(judged.words) == len(transcript.words):
            return judged
        [plain] = self.rescored([self.plain(np.concatenate(rows))])
        return with_hidden_words(judged, self._judged(plain[: self.compared], rows, duration))

    def _compared(self, nbest: Sequence[Hypothesis], duration: float) -> tuple[Transcript, np.ndarray]:
        """The transcript of the best hypothesis, its words' confidence their share of the n-best, and their margins."""
        transcript = make_transcript(nbest[0], self.tokenizer, self.frame_seconds, duration)
        if not transcript.words:
            return transcript, np.zeros(0)
        present = presence([placed_texts(each, self.tokenizer) for each in nbest])
        scores = [each.score for each in nbest]
        if len(nbest) > 1:
            transcript = with_confidences(transcript, posteriors(present, scores))
        return transcript, margins(present, scores)


def make_builder(
    tokenizer: Tokenizer,
    bundle: Record,
    options: DecoderOptions,
    beam: BeamDecoder | PronouncingDecoder | None,
    name: str,
) -> TranscriptBuilder:
    """The builder of a bundle. Its calibration belongs to its own search: it is left out, which a warning says, if a
    language model is asked for that lacks most words of the bundle's.

    Raises:
        InputError: the calibration, the punctuation or a language model is damaged.
    """
    if options.lm is not None and isinstance(beam, BeamDecoder) and beam.lm is not None:
        warn_of_foreign_search(beam.lm, tokenizer, bundle)
    judge, lm = None, beam.lm if beam is not None else None
    fits = options.lm is None or knows_most(lm, bundle)
    if bundle.confidence is not None and beam is not None and not fits:
        logger.warning("lm: the confidence of words is not fitted to it, and words in noise are not left out")
    if bundle.confidence is not None and fits and options.beam != 0:
        judge = Judge(from_dict(Calibration, bundle.confidence, f"{name}: calibration"), tokenizer, bundle.phones, lm)
    punctuator = Punctuator.from_bundle(bundle) if options.punctuate else None
    frame_seconds = ModelConfig.of(bundle).frame_seconds
    rescorer = make_rescorer(bundle, options, beam, fits)
    plain = None if beam is None else PlainSearch(beam, len(tokenizer))
    builder = TranscriptBuilder(
        tokenizer, frame_seconds, judge, punctuator, options.figures, name, rescorer=rescorer, plain=plain
    )
    return builder.with_forms_of(options.hot)


def _displayed(transcript: Transcript, punctuator: Punctuator, figures: bool) -> Transcript:
    forms = punctuator([word.text for word in transcript.words])
    pairs = zip(transcript.words, forms, strict=True)
    words = tuple(dataclasses.replace(word, display=form) for word, form in pairs)
    return dataclasses.replace(transcript, words=with_figures(words) if figures else words, punctuated=True)


def best_sums(scores: Sequence[Sequence[float]], most: int) -> list[tuple[list[int], float]]:
    """The largest sums of one score of each list, best first: the place of each score, and the sum."""
    # Whatever follows, only the best sums of the first lists can become the best of all. Places are chained backwards.
    found: list[tuple[float, Any]] = [(0.0, None)]
    for each in scores:
        sums = ((total + score, (place, before)) for total, before in found for place, score in enumerate(each))
        found = heapq.nlargest(most, sums, key=lambda pair: pair[0])
    return [(_unchained(chain), total) for total, chain in found]


def _unchained(chain: Any) -> list[int]:
    places = []
    while chain is not None:
        place, chain = chain
        places.append(place)
    return places[::-1]


def later(transcript: Transcript, seconds: float) -> Transcript:
    """The transcript with its words moved by `seconds`."""
    words = tuple(
        dataclasses.replace(word, start=round(word.start + seconds, 3), end=round(word.end + seconds, 3))
        for word in transcript.words
    )
    return dataclasses.replace(transcript, words=words)
