"""Cues of subtitles: what stands on the screen at once, in one line or two.

    And so he went home,  |  and then, in the evening, it rained.  |  He ...

Whatever makes a cue hard to read has a cost. A dynamic program over the words finds the cues whose costs are least in
sum; those of the first n words cost

    least[n] = min over k < n of least[k] + the cost of a cue of the words k to n - 1

The limits are those that broadcasters agree on: two lines of 42 columns, 17 to 20 characters a second.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ds2.recognition.segments import with_spaces
from ds2.recognition.words import Word
from ds2.text import width

COLUMNS = 42  # of a line
LONGEST = 7.0  # seconds that the words of a cue may take
LEAST = 1.0  # seconds that a cue stays, unless the next one begins
SPEED, FASTEST = 17.0, 20.0  # characters a second: at ease, just so

# Costs of a break: after a comma or a pause, between other words, after a word that belongs to the next one. A break
# after a sentence costs nothing, and one between the lines of a cue half as much.
CLAUSE, PLAIN, DANGLING = 0.6, 1.5, 5.0
# Costs of a cue: of each, of one without text, of one of a single word, of one that is read at the speed FASTEST.
CUE, EMPTY, ORPHAN, FAST = 0.5, 1.0, 3.0, 1.0
# Costs within a cue: of the end of a sentence, of a second of a pause, of an empty line beside a full one.
SENTENCE, PAUSE, IMBALANCE = 1.2, 3.0, 3.0
SHORT_PAUSE = 0.2  # seconds that cost nothing
# Seconds of a pause in which a cue ends, after a sentence or anywhere: what follows would be read long before.
BETWEEN_SENTENCES, WITHIN_SENTENCE = 1.2, 2.0

SENTENCE_ENDS = (".", "?", "!", "。", "？", "！")
CLAUSE_ENDS = (",", ";", ":", "—", "，", "、", "；", "：")
QUOTES = "\"'”’»)」"  # may follow them
TITLES = frozenset("mr mrs ms dr mister missus miss doctor saint".split())
# Titles, articles, possessives, prepositions, conjunctions: what follows belongs to them.
DANGLERS = TITLES | frozenset(
    "a an the my your his her its our their this these every no about above across after against along among around at "
    "before behind below beneath beside between beyond by during for from in into near of on onto through to toward "
    "towards under upon with within without and or nor but if as than that because while when where until unless "
    "though although whether who which".split()
)


@dataclass(frozen=True)
class Cue:
    """Seconds from the start of the recording, and what is shown: one line or two.

    A cue of the user's own also has the suffix of its file, and as they were there its text, its settings, and what
    stood before it.
    """

    start: float
    end: float
    text: str
    kind: str = ""
    written: str = ""
    settings: str = ""
    before: str = ""


def lasting_end(columns: int, start: float, end: float, following: float) -> float:
    """The end of a cue that stays long enough to be read unless the next one begins, at `following` seconds."""
    return max(end, min(start + max(LEAST, columns / SPEED), following))


def make_cues(
    text: str, words: Sequence[Word], duration: float, line_starts: Sequence[int] = (), label: int = 0
) -> Iterator[Cue]:
    """The cues of a recording of `duration` seconds; `text` tells where spaces stand between its words.

    `line_starts` are the numbers of the words that begin a line of the user's text; lines are kept as sentences are.
    A cue leaves room for a label of so many columns before it.
    """
    if words:
        layout = _Layout(_units(text, words, frozenset(line_starts)), duration, COLUMNS - label)
        yield from itertools.starmap(layout.cue, layout.best_cues())


@dataclass(frozen=True)
class _Unit:
    """A word, or a number in figures; `cost` is that of a break after it."""

    text: str
    space: str  # before it
    start: float
    end: float
    cost: float


def _units(text: str, words: Sequence[Word], line_starts: frozenset[int] = frozenset()) -> list[_Unit]:
    units: list[_Unit] = []
    for number, (word, space) in enumerate(with_spaces(text, words)):
        if units and number in line_starts:
            units[-1] = replace(units[-1], cost=0.0)
        if word.shown or not units:
            units.append(_Unit(word.shown, space, word.start, word.end, _break_cost(word)))
        else:
            units[-1] = replace(units[-1], end=word.end)
    return units


def _break_cost(word: Word) -> float:
    shown, plain = word.shown.rstrip(QUOTES), word.text.lower()
    if plain in TITLES:  # whose full stop ends no sentence
        return DANGLING
    if shown.endswith(SENTENCE_ENDS):
        return 0.0
    if shown.endswith(CLAUSE_ENDS):
        return CLAUSE
    return DANGLING if plain in DANGLERS else PLAIN


class _Layout:
    """The units of a recording in one endless line, and what it costs to divide it.

    A span of units is given by its first one and the one past its last.
    """

    def __init__(self, units: Sequence[_Unit], duration: float, columns: int):
        self.units, self.columns = units, columns
        self.starts, self.ends = [*(each.start for each in units), duration], [each.end for each in units]
        # The columns where units begin and end.
        widths = [width(each.text) for each in units]
        self.rights = list(itertools.accumulate(len(each.space) + own for each, own in zip(units, widths, strict=True)))
        self.lefts = [right - own for right, own in zip(self.rights, widths, strict=True)]
        # What a break after each unit costs, and what the places up to each unit cost without a break, in sum.
        self.breaks, self.unbroken = [each.cost for each in units], [0.0]
        # After which units a cue has to end.
        self.apart = [False] * len(units)
        for place, (unit, following) in enumerate(itertools.pairwise(units)):
            self.apart[place] = following.start - unit.end > (WITHIN_SENTENCE if unit.cost else BETWEEN_SENTENCES)
            pause = max(0.0, following.start - unit.end - SHORT_PAUSE)
            self.unbroken.append(self.unbroken[-1] + PAUSE * pause + (0.0 if unit.cost else SENTENCE))
            if unit.cost == PLAIN and pause:
                self.breaks[place] = CLAUSE
        self.breaks[-1] = 0.0

    def best_cues(self) -> list[tuple[int, int]]:
        """The spans of the cues whose costs are least in sum."""
        least, begins = [0.0], [0]
        for past in range(1, len(self.units) + 1):
            best = math.inf, past
            for first in self.candidates(past):
                cost = least[first] + self.cost_of_span(first, past)
                if cost <= best[0]:  # a break between lines makes it no less
                    best = min(best, (cost + self.line_break(first, past)[0], first))
            least.append(best[0])
            begins.append(best[1])
        edges = [len(self.units)]
        while edges[-1]:
            edges.append(begins[edges[-1]])
        return list(itertools.pairwise(reversed(edges)))

    def candidates(self, past: int) -> Iterator[int]:
        """Where a cue that ends before `past` may begin, latest first.

        It fits into two lines, is not too long, and holds no long pause.
        """
        yield past - 1
        lefts, right, above = self.lefts, self.rights[past - 1], self.rights[past - 1]
        for first in range(past - 2, -1, -1):
            if self.apart[first]:
                return
            # The second line begins as early as it can; `above` is where the first line ends then.
            if right - lefts[first] <= self.columns:
                above = self.rights[first - 1]
            elif above - lefts[first] > self.columns:
                return
            if self.ends[past - 1] - self.starts[first] > LONGEST:
                return
            yield first

    def fits(self, first: int, past: int) -> bool:
        """Whether the units fit into one line."""
        return first == past or self.width(first, past) <= self.columns

    def width(self, first: int, past: int) -> int:
        return self.rights[past - 1] - self.lefts[first]

    def cost_of_span(self, first: int, past: int) -> float:
        """What a cue costs without a break between lines."""
        columns = self.width(first, past)
        cost = CUE + EMPTY * (1 - columns / (2 * self.columns)) ** 2
        cost += self.breaks[past - 1] + self.unbroken[past - 1] - self.unbroken[first]
        if past - first == 1:
            cost += ORPHAN
        # It can stay until the next one begins.
        seconds = max(0.01, self.starts[past] - self.starts[first])
        speed = max(columns, SPEED * LEAST) / seconds
        cost += FAST * (max(0.0, speed - SPEED) / (FASTEST - SPEED)) ** 4
        return cost

    def line_break(self, first: int, past: int) -> tuple[float, int]:
        """The least cost of a break between lines, and the first unit of the second line; `past` without a break."""
        if past - first == 1 or self.fits(first, past):
            return 0.0, past
        places = []
        for second in range(past - 1, first, -1):
            above, below = self.width(first, second), self.width(second, past)
            if below > self.columns:
                break
            if above <= self.columns:
                imbalance = ((above - below) / self.columns) ** 2
                places.append((self.breaks[second - 1] / 2 + IMBALANCE * imbalance, second))
        return min(places)

    def cue(self, first: int, past: int) -> Cue:
        """A cue, which stays long enough to be read unless the next one begins."""
        second = self.line_break(first, past)[1]
        text = "\n".join(filter(None, (self.text(first, second), self.text(second, past))))
        start = self.starts[first]
        return Cue(start, lasting_end(self.width(first, past), start, self.ends[past - 1], self.starts[past]), text)

    def text(self, first: int, past: int) -> str:
        return "".join(each.space + each.text for each in self.units[first:past]).lstrip()
