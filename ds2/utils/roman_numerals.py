"""Roman numerals: how they are written, what they are worth, and how they are spoken behind a name."""

import itertools
import re

ROMAN = "(?=[CLXVI])C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"  # up to 399
VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
REIGNING = frozenset(  # names of monarchs and popes, whose numerals are ordinals
    """
    adrian albert alexander alfonso alphonse amadeus anne augustus baldwin benedict boniface carl casimir catherine
    celestine charles christian clement constantine darius edward elizabeth eric eugene felipe ferdinand francis
    frederick friedrich george gregory gustav haakon harald henry honorius innocent isabella ivan james john joseph
    juan julius karl leo leopold louis magnus malcolm margaret margrethe martin mary maximilian mehmed mohammed
    murad napoleon nicholas olav oscar otto paul pedro peter philip philippe pius ptolemy ramesses ramses richard
    robert rudolf rupert selim sigismund sixtus stephen theodore umberto urban victor vladimir wenceslaus wilhelm
    william xerxes
    """.split()
)
NO_NAMES = frozenset(  # "The IV was removed", "Her IV"
    "a an and another any as at by each every for from give he her his i in into is it its my no not of on or our she"
    " some start that the their these they this to under via was we with you your".split()
)
TWO_NUMERALS = re.compile("[IVX]{2}")
# Behind a capitalised word: Part IV, Vol. II, Henry VIII; not "Start IV fluids".
BEHIND_NAME = re.compile(
    rf"(?<![\w'])(?P<name>[A-Z][\w']*+)(?P<stop>\.?)\s++(?=[IVX]{{2,}}(?!\w))(?P<numeral>{ROMAN})(?!\w)"
    r"(?! (?:access|antibiotic|bag|catheter|drip|drug|fluid|infusion|line|medication|needle|pole|push|therapy))"
)


def roman_value(numeral: str) -> int:
    """XIV -> 14, of a numeral that ROMAN matches, in capitals."""
    values = [VALUES[letter] for letter in numeral]
    return sum(-value if value < after else value for value, after in itertools.pairwise([*values, 0]))


def spoken_romans(text: str) -> str:
    """World War II -> World War two; Louis XIV -> Louis the fourteenth.

    Only numerals of two capitals or more behind a capitalised word, and up to 39: I is a word, and MD or CD none.
    """
    return BEHIND_NAME.sub(_spoken_roman, text) if TWO_NUMERALS.search(text) else text


def _spoken_roman(match: re.Match[str]) -> str:
    from num2words import num2words  # which only texts with numerals need

    name, number = match["name"].lower(), roman_value(match["numeral"])
    if name in NO_NAMES:
        return match[0]
    if name in REIGNING and not match["stop"]:
        return f"{match['name']} the {num2words(number, to='ordinal')}"
    return f"{match['name']} {num2words(number)}"
