"""Speakers with a channel each, of whom one hears the other: what is said once is transcribed on both channels."""

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from ds2.recognition.words import Word

TOGETHER = 0.3  # seconds between the starts of a word on two channels that was said once
SEVERAL = 4  # words: people do say yes at the same time
SHARE = 0.3  # of the words of the channel with fewer of them


def crosstalk_warning(channels: Sequence[Sequence[Word]]) -> str:
    """A line on channels whose words are the same at the same times; empty if there are hardly any."""
    lines = []
    for (first, words), (second, others) in itertools.combinations(enumerate(channels, 1), 2):
        fewer, more = sorted((words, others), key=len)
        both = _said_on_both(fewer, more)
        if both >= max(SEVERAL, SHARE * len(fewer)):
            lines.append(
                f"channels {first} and {second} have {both} words in common at the same times: one hears the other, "
                "so they are written twice; mixed channels have each once"
            )
    return "; ".join(lines)


def _said_on_both(words: Sequence[Word], others: Sequence[Word]) -> int:
    """How many of the words begin at the same time among the others."""
    starts: defaultdict[str, list[float]] = defaultdict(list)
    for other in others:
        starts[other.text].append(other.start)
    count = 0
    for word in words:
        found = starts[word.text]
        place = bisect_left(found, word.start - TOGETHER)
        count += place < len(found) and found[place] <= word.start + TOGETHER
    return count
