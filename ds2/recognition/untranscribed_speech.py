"""Speech that an aligned text lacks: where the model hears letters between those of the text.

text      |on|            |the|
heard     |on||a||table|  |the|      the path of the text is blank here; the blank's distance from the best token, in
nats        0 4 3 5 3 4 2  0         nats, adds up between two letters of the text
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ds2.ctc.array_alignment import STAR, ArrayAlignment
from ds2.recognition.words import Word
from ds2.text import BLANK

# Of 80 recordings of the dev sets of `english`, one has more nats somewhere with its own text. Without two words of it
# 80 % have more, without three 91 %.
LACKING = 15.0
MARKED = 5.0  # nats: enough where a star says that there is speech


JOINED = 1.0  # seconds: speech on both sides of a shorter gap is one


class OtherSpeech(NamedTuple):
    """Seconds in which the model hears what the text lacks; whether a star stands there."""

    start: float
    end: float
    is_marked: bool


def find_other_speech(
    log_probs: np.ndarray,
    tokens: np.ndarray,
    alignment: ArrayAlignment,
    names: Sequence[str],
    frame_seconds: float,
    skip: bool,
) -> list[OtherSpeech]:
    """Speech between the letters of an aligned text, in order of time.

    Args:
        log_probs: (T, K), the blank first. tokens: (L,) columns, and `STAR`. names: tokens of the columns.
        skip: whether stars stand between all lines, so that they say nothing of speech.
    """
    heard = log_probs.max(1) - log_probs[:, BLANK]
    is_star = tokens == STAR
    letters = [place for place, token in enumerate(tokens.tolist()) if token != STAR and names[token] != " "]
    for start, end in zip(alignment.starts[~is_star].tolist(), alignment.ends[~is_star].tolist(), strict=True):
        heard[start:end] = 0.0
    # From the end of each letter to the start of the next one; before the first and after the last as well.
    starts, ends = [*alignment.starts.tolist(), len(heard)], [*alignment.ends.tolist(), 0]
    found = []
    for before, after in itertools.pairwise([-1, *letters, len(tokens)]):
        is_marked = bool(is_star[before + 1 : after].any())
        first, past = ends[before], starts[after]
        if float(heard[first:past].sum()) > (MARKED if is_marked and not skip else LACKING):
            frames = (first + np.flatnonzero(heard[first:past])).tolist()
            # Rounded as the times of words are: it may begin where a word ends.
            start, end = (round(frame * frame_seconds, 3) for frame in (frames[0], frames[-1] + 1))
            found.append(OtherSpeech(start, end, is_marked))
    return found


def joined_speech(found: Sequence[OtherSpeech], said: Sequence[Word]) -> list[OtherSpeech]:
    """Speech in order of time, neighbours as one where a letter of the text went astray between them.

    Args:
        said: the words that were surely said: they divide.
    """
    joined: list[OtherSpeech] = []
    for speech in found:
        if joined and _is_one(joined[-1], speech, said):
            joined[-1] = joined[-1]._replace(end=speech.end)
        else:
            joined.append(speech)
    return joined


def _is_one(speech: OtherSpeech, later: OtherSpeech, said: Sequence[Word]) -> bool:
    close = speech.is_marked == later.is_marked and later.start - speech.end <= JOINED
    return close and not any(speech.end <= word.start and word.end <= later.start for word in said)
