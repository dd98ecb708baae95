"""Spoken years, months and times of day: "nineteen oh five", "may second", "seven oh five p m"."""

from collections.abc import Sequence

from ds2.recognition.spoken_words import Number, are_whole
from ds2.recognition.words import Word, at_once
from ds2.utils.spoken_numbers import MONTHS

CENTURIES = range(13, 21)  # "nineteen eighty four"; below, two numbers are rather a time of day
TEMPORAL = frozenset("after before by during in on since until".split())
ORDINAL = ("th", "first", "second", "third")  # the ends of their words
VERBS = ("may", "march")  # as verbs they stand before ordinals, too: "I may second that"
# Before a year or a month: not before "seventeen fifteen" of a game, nor before a verb.
BEFORE_DATES = TEMPORAL | frozenset(
    "and between born circa dated due early for from is last late next of the this till through to was year "
    "sunday monday tuesday wednesday thursday friday saturday".split()
)


def year(words: Sequence[Word], century: Number, rest: Number) -> Number | None:
    """The year of two numbers, the second one below a hundred; None if they make none.

    Two teens need a word that goes before years: "in seventeen fifteen", but "sixteen seventeen year old boys".
    """
    by_oh = rest.first > century.past
    fits = rest.text.isdecimal() and (1 <= rest.value < 10 if by_oh else 10 <= rest.value < 100)
    if not century.text.isdecimal() or century.value not in CENTURIES or not fits:
        return None
    if rest.past < len(words) and words[rest.past].text in ("year", "years"):
        return None
    if century.value < 19 and rest.value < 20 and not by_oh and not _is_dated(words, century.first):
        return None
    return Number(century.first, rest.past, f"{century.text}{int(rest.value):02}")


def _is_dated(words: Sequence[Word], place: int) -> bool:
    """Whether a year may begin there, after a word such as "in", or after a month or a day."""
    before = words[place - 1].text if place else ""
    return before in BEFORE_DATES or before in MONTHS or before.endswith(ORDINAL)


def is_year_despite_marks(words: Sequence[Word], century: Number, rest: Number) -> bool:
    """Whether two numbers make a year, and if a mark divides them hardly a list or a guess: "twenty, twenty five"."""
    if year(words, century, rest) is None:
        return False
    sure = rest.first > century.past or are_whole(words, century.first, rest.past) or _ends_a_date(words, century.first)
    return sure or rest.value > 2 * century.value


def _ends_a_date(words: Sequence[Word], past: int) -> bool:
    """Whether the words before `past` are a day and a month, as in "november the eleventh"."""
    if past < 2 or not words[past - 1].text.endswith(ORDINAL) or not at_once(words[past - 1], words[past]):
        return False
    return any(word.text in MONTHS for word in words[max(0, past - 4) : past - 1])


def month_of(words: Sequence[Word], day: Number) -> int | None:
    """The place of the month in "may fifth", "the fifth of may"; None where there is none, as in "we may first see"."""
    before, after = day.first - 1, day.past + 1
    if before >= 0 and words[before].text in MONTHS:
        is_verb = words[before].text in VERBS and before > 0 and are_whole(words, before - 1, before + 1)
        return before if not is_verb or words[before - 1].text in BEFORE_DATES else None
    dated = after < len(words) and words[after - 1].text == "of" and words[after].text in MONTHS
    return after if dated else None


def clock_time(run: Sequence[Number]) -> str:
    """The hour, and the minutes if they were said; empty if the numbers are no time of day."""
    if any(not number.text.isdecimal() for number in run) or not 1 <= run[0].value <= 12:
        return ""
    if len(run) == 1:
        return run[0].text
    return f"{run[0].text}:{int(run[1].value):02}" if len(run) == 2 and run[1].value < 60 else ""
