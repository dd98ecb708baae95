"""Numbers and titles with several readings: a transcript is compared in those of its reference.

reference   Mr. X on May 5, 2012      mister x on may fifth twenty twelve
transcript                            mr x on the fifth of may two thousand and twelve
figures                               on 5 may 2012     in both, so the transcript is read as the reference is

reference   5390                      five thousand three hundred and ninety
transcript                            five five nine zero
figures                               5390, 5590        so the reference is read as the transcript is: one error
"""

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from ds2.metrics import word_errors
from ds2.recognition.spoken_to_figures import with_figures
from ds2.recognition.spoken_words import DIGITS, SCALES, Number, numbers_among
from ds2.recognition.words import Word
from ds2.text import normalize
from ds2.utils.abbreviations import WORDS
from ds2.utils.american_spelling import in_american
from ds2.utils.spoken_numbers import MEASURES, MONTHS

SUMS_AND_SHARES = frozenset("$€£%")
SPELLED = 3  # digits of a number whose parts are read one by one: two and three are not 23
MOST_IN_PARTS = 4  # digits of a number that is read in two parts: nineteen eighty four, three seventy
OH = ("oh", "o")  # a zero between digits
ONE_BY_ONE = frozenset(["zero", *DIGITS, *OH])  # the words of a number that is read digit by digit
PREFIXES = frozenset(
    "anti bi co ex extra inter intra micro mid mis multi non post pre pseudo re semi sub ultra un".split()
)
MOST_INITIALS = 5  # letters that are one abbreviation
DAYS, YEAR_DIGITS = range(1, 32), 4
HOURS = range(1, 13)
PAST_HOUR = {"half": 30, "quarter": 15}
LONGEST_PAST = 31  # minutes after an hour, or before it, are fewer


def normal_form(language: str | None) -> Callable[[str], str]:
    """Brings texts to the normal form of a language, see `ds2.text.normalize`; without one they stay as they are."""
    return str if language is None else functools.partial(normalize, language=language)


def transcript_form(language: str | None) -> Callable[[str, str], str]:
    """Brings a transcript to the form of its reference: the normal one of a language, with numbers and titles as there.

    Without a language it stays as it is.
    """
    form = normal_form(language)
    if language != "en":
        return lambda text, reference: form(text)
    return lambda text, reference: read_alike(form(text), reference)


def both_forms(language: str | None) -> Callable[[str, str], tuple[str, str]]:
    """Like `transcript_form`, but it gives the reference as well: its numbers may be read as the transcript's are."""
    form, normal = transcript_form(language), normal_form(language)

    def both(text: str, reference: str) -> tuple[str, str]:
        if language == "en":
            reference = read_as_said(reference, normal(text))
        return form(text, reference), reference

    return both


def read_as_said(reference: str, text: str) -> str:
    """An English reference in words, each of its longer numbers in that reading that leaves the fewest wrong words in
    the transcript, digit by digit where the transcript has the same number so; else it stays as it is."""
    said = {figures: words for figures, words in _in_figures(text) if figures}
    parts = list(_in_figures(reference))
    words = [words for _, words in parts]
    for place, (figures, now) in enumerate(parts):
        if not figures.isdecimal() or len(figures) < SPELLED or not text:
            continue
        if figures in said:
            words[place] = said[figures] if ONE_BY_ONE.issuperset(said[figures].split()) else now
            continue

        def errors(reading: str, place: int = place) -> int:
            return word_errors(" ".join([*words[:place], reading, *words[place + 1 :]]), text).errors

        words[place] = min((now, *_other_readings(figures)), key=errors)  # of equal ones the first
    return " ".join(words)


def _other_readings(figures: str) -> Iterator[str]:
    """1309 -> one three zero nine, one three oh nine, thirteen zero nine, thirteen oh nine, thirteen hundred and ..."""
    digits, (hundreds, rest) = " ".join(figures), (figures[:-2], figures[-2:])
    parts = f"{hundreds} {' '.join(rest) if rest.startswith('0') else rest}"
    for reading in (digits, parts) if len(figures) <= MOST_IN_PARTS else (digits,):
        spoken = normalize(reading, "en")
        yield from dict.fromkeys((spoken, spoken.replace("zero", OH[0])))
    if len(figures) == MOST_IN_PARTS and hundreds[-1] != "0":
        yield normalize(f"{hundreds} hundred{f' and {int(rest)}' if int(rest) else ''}", "en")


def read_alike(text: str, reference: str) -> str:
    """An English transcript in words: numbers, titles and British words as the reference has the same ones."""
    expected = reference.split()
    words, said = _joined_alike(_initials_alike(text.split(), expected), expected), set(expected)
    titles = {short: full for short, full in WORDS.items() if full in said and short not in said}
    titles |= {full: short for short, full in WORDS.items() if short in said and full not in said}
    measures = ((short, full) for short in MEASURES.keys() & set(words) - said for full in MEASURES[short])
    titles |= {short: full for short, full in measures if f" {full} " in f" {reference} "}  # sixty mph
    spellings = {in_american(word): word for word in expected}
    titles |= {word: spellings.get(in_american(word), word) for word in set(words) - said - titles.keys()}
    text = " ".join(titles.get(word, word) for word in words)
    readings = {figures: words for figures, words in _in_figures(reference) if figures}
    parts = [(figures, readings.get(figures, words)) for figures, words in _in_figures(text)]
    alike = " ".join(words for _, words in parts)
    # Of "a a thousand" and "the july fifth" nothing is taken: what stays would be read as another number or date.
    return alike if list(_in_figures(alike)) == parts else text


def _initials_alike(words: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Writes "am" as "a m", and "u s" as "us", where the reference does so beside the same word."""
    places = _places_of_initials(reference)
    found, place, ends = list[str](), 0, ("", *words, "")
    while place < len(words):
        for past in range(min(place + MOST_INITIALS, len(words)), place, -1):
            letters = "".join(words[place:past])
            if past > place + 1 and len(letters) > past - place:
                continue  # not all of them are single letters
            beside = ends[place], ends[past + 1]
            there = {length for before, length, after in places[letters] if before == beside[0] or after == beside[1]}
            if there and past - place not in there:
                found += [letters] if 1 in there else letters
                break
        else:
            found.append(words[place])
            past = place + 1
        place = past
    return found


def _joined_alike(words: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Writes "coordination" as "co ordination", and "re arranged" as "rearranged", where the reference does so:
    a hyphen after a prefix is a matter of taste."""
    divided = {a + b: (a, b) for a, b in itertools.pairwise(reference) if a in PREFIXES}
    found, whole = list[str](), set(reference)
    for word in words:
        if found and found[-1] + word in whole and found[-1] in PREFIXES:
            found[-1] += word
        else:
            found += (word,) if word in whole else divided.get(word, (word,))
    return found


def _places_of_initials(words: Sequence[str]) -> Mapping[str, set[tuple[str, int, str]]]:
    """Of each word of a few letters, and of single letters in a row: the word before, how many words it is, the word
    after."""
    places, ends = defaultdict[str, set[tuple[str, int, str]]](set), ("", *words, "")
    for first in range(len(words)):
        for past in range(first + 1, min(first + MOST_INITIALS, len(words)) + 1):
            letters = "".join(words[first:past])
            if 1 < len(letters) <= MOST_INITIALS and len(letters) in (past - first, len(words[first])):
                places[letters].add((ends[first], past - first, ends[past + 1]))
    return places


def _in_figures(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text, those of a number or a date together after what it is in figures; "" for other words."""
    said = text.split()
    # "a hundred" is 100 as well, though it is shown in words.
    counted = ["one" if each == "a" and after in SCALES else each for each, after in itertools.pairwise([*said, ""])]
    words = [Word(word, 0.0, 0.0, 1.0) for word in counted]
    shown = [word.shown for word in with_figures(words)]
    numbers = {each.first: each for each in numbers_among(words) if counted[each.first] not in OH}
    place = 0
    while place < len(said):
        found = _signed(shown, place) or _date(counted, numbers, place) or _numeral(counted, numbers, place)
        figures, past = found or ("", place + 1)
        yield figures, " ".join(said[place:past])
        place = past


def _signed(shown: Sequence[str], place: int) -> tuple[str, int] | None:
    """A sum or a share: its figures, and the place after it."""
    if not SUMS_AND_SHARES.intersection(shown[place]):
        return None
    return shown[place], next((later for later in range(place + 1, len(shown)) if shown[later]), len(shown))


def _date(words: Sequence[str], numbers: Mapping[int, Number], place: int) -> tuple[str, int] | None:
    """May fifth, may the fifth, the fifth of may, five may: the day and its month, and the place after them."""
    is_first = words[place] in MONTHS
    day = numbers.get(_past(words, place + is_first, "the"))
    if day is None or day.value not in DAYS:
        return None
    if is_first:
        # July twenty twelve, but may ten eighteen fifty one.
        following = None if day.ordinal else _numeral(words, numbers, day.past)
        is_year = following is not None and len(following[0]) != YEAR_DIGITS
        return None if is_year else (f"{int(day.value)} {words[place]}", day.past)
    after = _past(words, day.past, "of")
    return (f"{int(day.value)} {words[after]}", after + 1) if {*words[after : after + 1]} & {*MONTHS} else None


def _past(words: Sequence[str], place: int, word: str) -> int:
    """The place, or the next one if the word stands there."""
    return place + (words[place : place + 1] == [word])


def _numeral(words: Sequence[str], numbers: Mapping[int, Number], place: int) -> tuple[str, int] | None:
    """A number, in one or read in parts as "one oh one" and "three seventy" are, or a time of day: its figures."""
    if place == len(words):
        return None
    if (time := _time_of_day(words, numbers, place)) is not None:
        return time
    if place not in numbers:
        return None
    first = numbers[place]
    figures, past = first.text, first.past
    while figures.isdecimal():
        zeros = sum(1 for _ in itertools.takewhile(OH.__contains__, words[past:]))
        following = numbers.get(past + zeros)
        if following is None or not following.text.isdecimal():
            break
        figures, past = figures + "0" * zeros + following.text, following.past
    return (figures, past) if past == first.past or len(figures) >= SPELLED else (first.text, first.past)


def _time_of_day(words: Sequence[str], numbers: Mapping[int, Number], place: int) -> tuple[str, int] | None:
    """Half past seven, twenty to four: 730 and 340, and the place after them."""
    number = numbers.get(place)
    minutes = PAST_HOUR.get(words[place], int(number.text) if number and number.text.isdecimal() else LONGEST_PAST)
    past = number.past if number else place + 1
    if minutes >= LONGEST_PAST or not {"past", "to"}.intersection(words[past : past + 1]):
        return None
    following = numbers.get(past + 1)
    if following is None or not following.text.isdecimal() or int(following.text) not in HOURS:
        return None
    hour = int(following.text)
    if words[past] == "to":
        hour, minutes = hour - 1 or HOURS[-1], 60 - minutes
    return f"{hour}{minutes:02d}", following.past
