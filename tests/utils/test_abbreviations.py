"""Annotations, abbreviations and Roman numerals: what is spoken of them."""

import pytest

from ds2.text import normalize
from ds2.utils.roman_numerals import roman_value

CASES = """
<unk> [laughs] (noise) {um}|um
<s>a</s> b<br/>c <|nospeech|> <SPOKEN_NOISE>|a b c
[background noise] a [BLANK_AUDIO] (Loud music.) [inaudible 00:12:05] b|a b
a<b and 3 < 5 > 2, <two words>|a b and three five two two words
(whatever) [sic] (no) (he laughs) f(music teacher|whatever sic no he laughs f music teacher
Louis XIV and World War II|louis the fourteenth and world war two
Henry VIII's wife, Pope John Paul II, HENRY IV.|henry the eighth's wife pope john paul the second henry the fourth
Chapter IV, Part II, Vol. II, ACT III|chapter four part two vol two act three
an IV drip and I|an iv drip and i
The IV was out. Start IV fluids. War I, Louis Xi|the iv was out start iv fluids war i louis xi
IV, plan XX, Rule IIII, Super Bowl LVIII, Disc MD|iv plan xx rule iiii super bowl lviii disc md
Mt. Everest, Ft. Worth, Mt Etna|mount everest fort worth mount etna
St. John's St., on St. Patrick's Day in St Louis|saint john's street on saint patrick's day in saint louis
After St. John came to Main St. and 42nd St. Park|after saint john came to main street and forty second street park
MT. ST. HELENS, 5 ft. tall, 6 FT. TALL, a st.|mount saint helens five feet tall six ft tall a st
Lt. Col. Hall, Capt. Kirk, Sgt Pepper|lieutenant colonel hall captain kirk sergeant pepper
Gen. Lee, Rev. Ames, LT. DAN|general lee reverend ames lieutenant dan
Gen X, col. 5, the rev. motor, Sr 90|gen x col five the rev motor sr ninety
King Jr.'s, King Sr. and Davis Jr|king junior's king senior and davis junior
cats vs. dogs, etc., Etc, an ETC.|cats versus dogs et cetera et cetera an et cetera
Mr.Smith, No. 5|mister smith number five
Vol. 2, vol. 12 and the vol. of air|volume two volume twelve and the vol of air
9am–5pm, 9:30 a.m. - 5:15 P.M.|nine a m to five p m nine thirty a m to five fifteen p m
A Ph.D. and her Ph. D. thesis; To-day, to-morrow's, day-to-day|a phd and her phd thesis today tomorrow's day to day
at 5 p.m. - 20 came; I am - 5 pm|at five p m twenty came i am five p m
""".strip().split("\n")


@pytest.mark.parametrize("case", CASES)
def test_abbreviations_are_spoken_in_full(case: str) -> None:
    written, spoken = case.rsplit("|", 1)
    assert normalize(written, "en") == spoken
    assert normalize(spoken, "en") == spoken


def test_any_space_divides() -> None:
    assert normalize("Louis\u00a0 XIV, Dr.\u00a0No", "en") == "louis the fourteenth doctor no"


def test_other_languages_speak_neither() -> None:
    assert normalize("<unk> [noise] Louis XIV, St. Gallen") == "unk noise louis xiv st gallen"


@pytest.mark.parametrize(("numeral", "value"), [("I", 1), ("XIV", 14), ("XXXIX", 39), ("XCIX", 99), ("CCCXL", 340)])
def test_values_of_roman_numerals(numeral: str, value: int) -> None:
    assert roman_value(numeral) == value
