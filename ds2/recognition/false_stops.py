"""Full stops where none can be: punctuation sets them before numbers, as in "Chapter. Twelve begins on page. 4"."""

from collections.abc import Sequence
from dataclasses import replace

from ds2.recognition.words import Word, at_once

NUMBERED = frozenset(
    "act apartment article channel chapter episode exercise figure flight floor gate grade highway lesson level line "
    "number page part platform room route scene season section step table task track unit verse version volume".split()
)
NUMBERS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety".split()
)

# They have a capital only where a sentence begins.
SMALL = frozenset(
    "a an and as but he her his in it its my no not nobody on one our people she some that the their them there these "
    "they this those to was we were what when where which who you your".split()
)


def goes_on(words: Sequence[Word], place: int) -> bool:
    """Whether a sentence goes on at this word rather than begins: no pause is before it."""
    return 0 < place < len(words) and at_once(words[place - 1], words[place])


def in_a_sentence(word: Word) -> Word:
    """The word as it is written where no sentence begins."""
    return replace(word, display=word.shown.lower()) if word.text in SMALL else word


def without_false_stops(words: Sequence[Word]) -> Sequence[Word]:
    """The words, without a full stop between what is numbered and its number, unless there is a pause."""
    found = list(words)
    for place in range(len(words) - 1):
        label, number = words[place], words[place + 1]
        if label.text in NUMBERED and label.shown.endswith(".") and number.text in NUMBERS and at_once(label, number):
            found[place] = replace(label, display=label.shown[:-1])
            found[place + 1] = replace(number, display=number.shown.lower())
    return found
