"""Figures for spoken English numbers: years, dates, money, percentages, times of day.

words    on   may   twenty  fifth   he   paid   twenty  dollars
display  On   May   25th,           he   paid   $20.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ds2.recognition.false_stops import goes_on, in_a_sentence, without_false_stops
from ds2.recognition.spoken_dates import (
    CENTURIES,
    TEMPORAL,
    clock_time,
    is_year_despite_marks,
    month_of,
    year,
)
from ds2.recognition.spoken_words import DIGITS, ROUND, SCALES, TEENS, Number, are_joined, are_whole, numbers_among
from ds2.recognition.words import Word, at_once
from ds2.utils.spoken_numbers import MONTHS

LEAST = 10  # smaller numbers stay words, unless a unit or a month is beside them
DATED = ("the", "of", "early", "late", "year")  # in a time, before its numbers
TENS = "twenties thirties forties fifties sixties seventies eighties nineties".split()
DECADES = dict(zip(TENS, range(20, 100, 10), strict=True))
COUNTING = "a an one another every each per".split()  # "a thirty second break"
MONEY = {"dollar": "$", "dollars": "$", "euro": "€", "euros": "€"}
POUNDS = ("pound", "pounds")
SINGLE_COINS = ("dollar", "pound", "euro")  # "a dollar fifty"
AROUND = 8  # words around a number in which another one may share its scale
BELOW_HUNDRED = frozenset([*DIGITS, *TEENS, *ROUND])  # what numbers below a hundred are made of
CENTS = {"$": "cents", "€": "cents", "£": "pence"}
UNITS = {("percent",): "%", ("per", "cent"): "%"}
COUNTED = [(unit,) for unit in (*MONEY, *POUNDS, "cent", "cents", "pence")] + list(UNITS)
HALVES = {("a", "m"): " a.m.", ("am",): " a.m.", ("p", "m"): " p.m.", ("pm",): " p.m."}


def with_figures(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words, the display form of the first word of a number in figures; that of its other words is empty."""
    words = without_false_stops(words)
    found, numbers = list(words), list(_written(words))
    beginnings = {number.first for number in numbers}
    figures = {place for number in numbers for place in range(number.first, number.past)}
    for number in numbers:
        last = words[number.past - 1]
        mark = last.shown[len(last.text) :]
        if (
            mark == "."
            and _is_only_a_time(words, figures, number)
            and (number.past in beginnings or goes_on(words, number.past))
        ):
            mark = ","
            found[number.past] = in_a_sentence(words[number.past])
        shown = number.text if mark == "." and number.text.endswith(".") else number.text + mark
        for place in range(number.first, number.past):
            found[place] = replace(words[place], display=shown if place == number.first else "")
        if number.ordinal and (month := month_of(words, number)) is not None:
            found[month] = replace(words[month], display=words[month].shown.capitalize())
    return tuple(found)


def _is_only_a_time(words: Sequence[Word], figures: set[int], number: Number) -> bool:
    """Whether a sentence tells a time and no more, as in "In 1945." and "On the 6th of June."; `figures`: places of
    words that are shown in figures."""
    first = number.first
    while first > 0 and not words[first - 1].shown.endswith((".", "?")):
        first -= 1
    if first == number.first or words[first].text not in TEMPORAL:
        return False
    return all(place in figures or words[place].text in (*DATED, *MONTHS) for place in range(first + 1, number.first))


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
        if len(chain) > 2 and all(later.value == number.value + 1 for number, later in itertools.pairwise(chain)):
            runs += [[number] for number in chain]  # somebody counts
            continue
        is_divided = not are_whole(words, chain[0].first, chain[-1].past)
        if is_divided and all(len(pair) == 2 and is_year_despite_marks(words, *pair) for pair in pairs):
            runs += pairs
        else:
            runs += _undivided(words, chain)
    return runs


def _chains(words: Sequence[Word]) -> list[list[Number]]:
    """The numbers among the words; those with nothing but "oh" and marks between them, and no pause, in one chain."""
    chains: list[list[Number]] = []
    for number in numbers_among(words):
        last = chains[-1][-1] if chains else number
        between = [word.text for word in words[last.past : number.first]]
        follows = all(at_once(*words[place : place + 2]) for place in range(last.past - 1, number.first))
        if chains and not last.ordinal and between in ([], ["oh"]) and follows:
            chains[-1].append(number)
        else:
            chains.append([number])
    return chains


def _undivided(words: Sequence[Word], chain: Sequence[Number]) -> list[list[Number]]:
    """The numbers of a chain in runs, between which there are marks; none divides "seven. Oh, five p m"."""
    runs = [[chain[0]]]
    for last, number in itertools.pairwise(chain):
        is_time = number.first > last.past and any(_are_said_at_once(words, number.past, half) for half in HALVES)
        if is_time or are_whole(words, last.first, number.past):
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _figure(words: Sequence[Word], run: Sequence[Number]) -> Number | None:
    """A run of numbers in figures, with the unit that follows; None if it stays in words."""
    first, past = run[0].first, run[-1].past
    for unit, half in HALVES.items():
        # Also "at ten, a m": what is said at once is one time. "It is eleven, am I late" tells no half.
        if unit == ("am",) and words[past + 1 : past + 2] and words[past + 1].text == "i":
            continue
        if _are_said_at_once(words, past, unit) and (clock := clock_time(run)):
            return Number(first, past + len(unit), clock + half)
    if len(run) == 2:  # a year, but not before a unit: "fifteen ninety nine cents"
        return None if any(_follows(words, past, unit) for unit in COUNTED) else year(words, *run)
    return _single(words, run[0]) if len(run) == 1 else None


def _single(words: Sequence[Word], number: Number) -> Number | None:
    first, past = number.first, number.past
    before = words[first - 1].text if first else ""
    after = words[past].text if past < len(words) else ""
    if number.ordinal:
        is_joined = past < len(words) and are_joined(words[past - 1], words[past])
        if before in COUNTING and past - first == 2 and words[past - 1].text == "second" and is_joined:
            return None
        counted = number.value >= LEAST and words[first].text not in SCALES
        return number if counted or month_of(words, number) is not None else None
    if after in DECADES and number.value in CENTURIES and _follows(words, past, (after,)):
        return Number(first, past + 1, f"{number.text}{DECADES[after]}s")
    # "a dollar fifty", "quarter to twelve", "three and twenty"
    joined = (words[first - 2].text, before) if first > 1 else ("", "")
    if _shares_a_scale(words, number) or (before in SINGLE_COINS and joined[0] in ("a", "one")):
        return None
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


def _shares_a_scale(words: Sequence[Word], number: Number) -> bool:
    """Whether "thousand" counts for two numbers, as in "ten or twelve thousand", "between three and four thousand"."""
    before, behind = words[max(0, number.first - AROUND) : number.first], words[number.first : number.past + AROUND]
    texts = ["", "", *(word.text for word in (*before, *behind)), "", ""]
    first, past = 2 + len(before), 2 + len(before) + number.past - number.first

    def is_link(place: int, start: int) -> bool:
        return texts[place] in ("or", "to") or (texts[place] == "and" and texts[start - 1] == "between")

    end, start = past + 1, first - 1
    while texts[end] in BELOW_HUNDRED:
        end += 1
    while texts[start - 1] in BELOW_HUNDRED:
        start -= 1
    with_scale = not set(SCALES).isdisjoint(texts[first:past])
    if with_scale:
        return start < first - 1 and is_link(first - 1, start)
    return end > past + 1 and texts[end] in SCALES and is_link(past, first)


def _is_digit_before_tens(words: Sequence[Word], number: Number) -> bool:
    """Whether the number is the twenty of "three and twenty", not of "fifty three and twenty"."""
    if number.first < 2 or words[number.first].text not in ROUND or number.past > number.first + 1:
        return False
    tens = words[number.first - 3].text if number.first > 2 else ""
    return words[number.first - 2].text in DIGITS and tens not in ROUND


def _money(words: Sequence[Word], number: Number, sign: str) -> Number:
    """ "twenty dollars", also "twenty dollars and fifty cents", or "twenty dollars fifty" with nothing behind it."""
    past = number.past + 1
    amount = f"{sign}{int(number.value):,}" if number.text.isdecimal() else sign + number.text
    start = past + (past < len(words) and words[past].text == "and")
    for cents in numbers_among(words[start : start + 3])[:1]:
        end = start + cents.past
        is_named = _follows(words, end, (CENTS[sign],))
        is_last = end == len(words) or not are_joined(words[end - 1], words[end])
        follows = are_whole(words, past - 1, start + 1) or (is_named and at_once(*words[past - 1 : past + 1]))
        if not (follows and cents.first == 0 and cents.text.isdecimal() and cents.value < 100):
            continue
        if is_named or (start == past and is_last and cents.value >= LEAST):
            return Number(number.first, end + is_named, f"{amount}.{int(cents.value):02}")
    return Number(number.first, past, amount)


def _follows(words: Sequence[Word], place: int, texts: tuple[str, ...]) -> bool:
    """These words come at `place`, with nothing between them and the word before."""
    return _are_said_at_once(words, place, texts) and are_whole(words, place - 1, place + len(texts))


def _are_said_at_once(words: Sequence[Word], place: int, texts: tuple[str, ...]) -> bool:
    """These words come at `place`, with no pause between them and the word before."""
    found = words[place - 1 : place + len(texts)]
    return tuple(word.text for word in found[1:]) == texts and all(
        itertools.starmap(at_once, itertools.pairwise(found))
    )
