"""Figures for spoken English numbers: years, dates, money, percentages, times of day.

words    on   may   twenty  fifth   he   paid   twenty  dollars
display  On   May   25th,           he   paid   $20.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from text_to_num import find_numbers

from ds2.recognition.false_stops import goes_on, in_a_sentence, without_false_stops
from ds2.recognition.spoken_words import DIGITS, ROUND, SCALES, are_joined, spoken_words
from ds2.recognition.words import Word, at_once
from ds2.utils.spoken_numbers import MONTHS

LEAST = 10  # smaller numbers stay words, unless a unit or a month is beside them
GROUPED = 10_000  # from here on commas divide thousands: years have none
LAST_YEAR = 2100  # a number beyond it that is said by thousands is no year
TEMPORAL = frozenset("after before by during in on since until".split())
DATED = ("the", "of", "early", "late", "year")  # in a time, before its numbers
CENTURIES = range(13, 21)  # "nineteen eighty four"; below, two numbers are rather a time of day
VAGUE = {f"{scale}s" for scale in SCALES}  # "thousands of men"
TENS = "twenties thirties forties fifties sixties seventies eighties nineties".split()
DECADES = dict(zip(TENS, range(20, 100, 10), strict=True))
FIGURES = re.compile(r"\d+(?:\.\d+)?(?:st|nd|rd|th)?")
ORDINAL = ("th", "first", "second", "third")  # the ends of their words
COUNTING = "a an one another every each per".split()  # "a thirty second break"
MONEY = {"dollar": "$", "dollars": "$", "euro": "€", "euros": "€"}
POUNDS = ("pound", "pounds")
CENTS = {"$": "cents", "€": "cents", "£": "pence"}
UNITS = {("percent",): "%", ("per", "cent"): "%"}
COUNTED = [(unit,) for unit in (*MONEY, *POUNDS, "cent", "cents", "pence")] + list(UNITS)
HALVES = {("a", "m"): " a.m.", ("am",): " a.m.", ("p", "m"): " p.m.", ("pm",): " p.m."}


@dataclass(frozen=True)
class Number:
    """The words `first` to `past` - 1, in figures."""

    first: int
    past: int
    text: str

    @property
    def ordinal(self) -> bool:
        """Whether it is a place in an order, such as 3rd."""
        return self.text.endswith(("st", "nd", "rd", "th"))

    @property
    def value(self) -> float:
        """The number that is meant."""
        return float(self.text[:-2] if self.ordinal else self.text)

    def figures(self, words: Sequence[Word]) -> str:
        """The number in figures, its thousands separated unless it may be a year."""
        by_thousands = any(word.text == "thousand" for word in words[self.first : self.past])
        least = LAST_YEAR if by_thousands else GROUPED
        return f"{int(self.value):,}" if self.text.isdecimal() and self.value >= least else self.text


def with_figures(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words, the display form of the first word of a number in figures; that of its other words is empty."""
    words = without_false_stops(words)
    found, numbers = list(words), list(_written(words))
    beginnings = {number.first for number in numbers}
    for number in numbers:
        last = words[number.past - 1]
        mark = last.shown[len(last.text) :]
        if (
            mark == "."
            and _is_only_a_time(words, numbers, number)
            and (number.past in beginnings or goes_on(words, number.past))
        ):
            mark = ","
            found[number.past] = in_a_sentence(words[number.past])
        shown = number.text if mark == "." and number.text.endswith(".") else number.text + mark
        for place in range(number.first, number.past):
            found[place] = replace(words[place], display=shown if place == number.first else "")
        if number.ordinal and (month := _month(words, number)) is not None:
            found[month] = replace(words[month], display=words[month].shown.capitalize())
    return tuple(found)


def _is_only_a_time(words: Sequence[Word], numbers: Sequence[Number], number: Number) -> bool:
    """Whether a sentence tells a time and no more, as in "In 1945." and "On the 6th of June."."""
    first = number.first
    while first > 0 and not words[first - 1].shown.endswith((".", "?")):
        first -= 1
    dated = {place for each in numbers for place in range(each.first, each.past)}
    dated |= {place for place in range(first, number.first) if words[place].text in (*DATED, *MONTHS)}
    return first < number.first and words[first].text in TEMPORAL and dated.issuperset(range(first + 1, number.first))


def _written(words: Sequence[Word]) -> Iterator[Number]:
    """What is shown in figures, with its unit."""
    past = 0
    for run in _number_runs(words):
        if run[0].first >= past and (number := _figure(words, run)) is not None:
            yield number
            past = number.past


def _number_runs(words: Sequence[Word]) -> list[list[Number]]:
    """The numbers among the words; those that follow each other at once, or by "oh", in one run.

    Punctuation is guessed from the words alone, and often divides a year: "nineteen. Ninety nine". A mark without a
    pause divides none if all numbers there are years then; "fifteen, twenty five" remain two numbers.
    """
    runs: list[list[Number]] = []
    for chain in _chains(words):
        pairs = [chain[place : place + 2] for place in range(0, len(chain), 2)]
        is_divided = not _whole(words, chain[0].first, chain[-1].past)
        if is_divided and all(len(pair) == 2 and _is_year_despite_marks(words, *pair) for pair in pairs):
            runs += pairs
        else:
            runs += _undivided(words, chain)
    return runs


def _chains(words: Sequence[Word]) -> list[list[Number]]:
    """The numbers among the words; those with nothing but "oh" and marks between them, and no pause, in one chain."""
    chains: list[list[Number]] = []
    for each in find_numbers(spoken_words(words), "en", threshold=0):
        # "fifths" is 5ths for text2num, and no number here
        if not FIGURES.fullmatch(each.text) or VAGUE.intersection(word.text for word in words[each.start : each.end]):
            continue
        number = Number(each.start, each.end, each.text)
        last = chains[-1][-1] if chains else number
        between = [word.text for word in words[last.past : number.first]]
        follows = all(at_once(*words[place : place + 2]) for place in range(last.past - 1, number.first))
        if chains and not last.ordinal and between in ([], ["oh"]) and follows:
            chains[-1].append(number)
        else:
            chains.append([number])
    return chains


def _undivided(words: Sequence[Word], chain: Sequence[Number]) -> list[list[Number]]:
    """The numbers of a chain in runs, between which there are marks."""
    runs = [[chain[0]]]
    for last, number in itertools.pairwise(chain):
        if _whole(words, last.first, number.past):
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _is_year_despite_marks(words: Sequence[Word], century: Number, year: Number) -> bool:
    """Whether two numbers make a year, and if a mark divides them hardly a list or a guess: "twenty, twenty five"."""
    if _year(century, year) is None:
        return False
    sure = year.first > century.past or _whole(words, century.first, year.past) or _ends_a_date(words, century.first)
    return sure or year.value > 2 * century.value


def _ends_a_date(words: Sequence[Word], past: int) -> bool:
    """Whether the words before `past` are a day and a month, as in "november the eleventh"."""
    if past < 2 or not words[past - 1].text.endswith(ORDINAL) or not at_once(words[past - 1], words[past]):
        return False
    return any(word.text in MONTHS for word in words[max(0, past - 4) : past - 1])


def _figure(words: Sequence[Word], run: Sequence[Number]) -> Number | None:
    """A run of numbers in figures, with the unit that follows; None if it stays in words."""
    first, past = run[0].first, run[-1].past
    for unit, half in HALVES.items():
        # Also "at ten, a m": what is said at once is one time.
        if _are_said_at_once(words, past, unit) and (clock := _clock_time(run)):
            return Number(first, past + len(unit), clock + half)
    if len(run) == 2:  # a year, but not before a unit: "fifteen ninety nine cents"
        return None if any(_follows(words, past, unit) for unit in COUNTED) else _year(*run)
    return _single(words, run[0]) if len(run) == 1 else None


def _clock_time(run: Sequence[Number]) -> str:
    """The hour, and the minutes if they were said; empty if the numbers are no time of day."""
    if any(not number.text.isdecimal() for number in run) or not 1 <= run[0].value <= 12:
        return ""
    if len(run) == 1:
        return run[0].text
    return f"{run[0].text}:{int(run[1].value):02}" if len(run) == 2 and run[1].value < 60 else ""


def _year(century: Number, year: Number) -> Number | None:
    by_oh = year.first > century.past
    fits = year.text.isdecimal() and (1 <= year.value < 10 if by_oh else 10 <= year.value < 100)
    if not century.text.isdecimal() or century.value not in CENTURIES or not fits:
        return None
    return Number(century.first, year.past, f"{century.text}{int(year.value):02}")


def _single(words: Sequence[Word], number: Number) -> Number | None:
    first, past = number.first, number.past
    before = words[first - 1].text if first else ""
    after = words[past].text if past < len(words) else ""
    if number.ordinal:
        is_joined = past < len(words) and are_joined(words[past - 1], words[past])
        if before in COUNTING and past - first == 2 and words[past - 1].text == "second" and is_joined:
            return None
        counted = number.value >= LEAST and words[first].text not in SCALES
        return number if counted or _month(words, number) is not None else None
    if after in DECADES and number.value in CENTURIES and _follows(words, past, (after,)):
        return Number(first, past + 1, f"{number.text}{DECADES[after]}s")
    # "quarter to twelve", "three and twenty"
    joined = (words[first - 2].text, before) if first > 1 else ("", "")
    if joined == ("quarter", "to") or (before == "and" and _is_digit_before_tens(words, number)):
        return None
    # "two or three hundred", "five to twenty": both in words, as the first is small
    if before in ("or", "to") and joined[0] in DIGITS and (first < 3 or words[first - 3].text not in ROUND):
        return None
    # "a hundred", "half past ten", "ten o'clock"
    if words[first].text in SCALES or "past" in (before, after) or after == "o'clock":
        return None
    if after in MONEY and _follows(words, past, (after,)):
        return _money(words, number, MONEY[after])
    if after in POUNDS and _follows(words, past, (after,)) and "." in (money := _money(words, number, "£")).text:
        return money  # with pence: without any, pounds may be a weight
    for unit, sign in UNITS.items():
        if _follows(words, past, unit):
            return Number(first, past + len(unit), number.figures(words) + sign)
    return Number(first, past, number.figures(words)) if number.value >= LEAST or "." in number.text else None


def _is_digit_before_tens(words: Sequence[Word], number: Number) -> bool:
    """Whether the number is the twenty of "three and twenty", not of "fifty three and twenty"."""
    if number.first < 2 or words[number.first].text not in ROUND or number.past > number.first + 1:
        return False
    tens = words[number.first - 3].text if number.first > 2 else ""
    return words[number.first - 2].text in DIGITS and tens not in ROUND


def _month(words: Sequence[Word], day: Number) -> int | None:
    """The place of the month in "may fifth", "the fifth of may"; None where there is none."""
    before, after = day.first - 1, day.past + 1
    if before >= 0 and words[before].text in MONTHS:
        return before
    dated = after < len(words) and words[after - 1].text == "of" and words[after].text in MONTHS
    return after if dated else None


def _money(words: Sequence[Word], number: Number, sign: str) -> Number:
    """ "twenty dollars", also "twenty dollars and fifty cents", or "twenty dollars fifty" with nothing behind it."""
    past = number.past + 1
    amount = f"{sign}{int(number.value):,}" if number.text.isdecimal() else sign + number.text
    start = past + (past < len(words) and words[past].text == "and")
    for cents in find_numbers(spoken_words(words[start : start + 3]), "en", threshold=0)[:1]:
        end = start + cents.end
        is_named = _follows(words, end, (CENTS[sign],))
        is_last = end == len(words) or not are_joined(words[end - 1], words[end])
        follows = _whole(words, past - 1, start + 1) or (is_named and at_once(*words[past - 1 : past + 1]))
        if not (follows and cents.start == 0 and cents.text.isdecimal() and cents.value < 100):
            continue
        if is_named or (start == past and is_last and cents.value >= LEAST):
            return Number(number.first, end + is_named, f"{amount}.{int(cents.value):02}")
    return Number(number.first, past, amount)


def _follows(words: Sequence[Word], place: int, texts: tuple[str, ...]) -> bool:
    """These words come at `place`, with nothing between them and the word before."""
    return _are_said_at_once(words, place, texts) and _whole(words, place - 1, place + len(texts))


def _are_said_at_once(words: Sequence[Word], place: int, texts: tuple[str, ...]) -> bool:
    """These words come at `place`, with no pause between them and the word before."""
    found = words[place - 1 : place + len(texts)]
    return tuple(word.text for word in found[1:]) == texts and all(
        itertools.starmap(at_once, itertools.pairwise(found))
    )


def _whole(words: Sequence[Word], first: int, past: int) -> bool:
    """Neither a mark nor a pause divides the words."""
    return all(are_joined(words[place], words[place + 1]) for place in range(first, past - 1))
