"""Numbers as figures in display forms; the words and their times stay."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ds2
from ds2.recognition.formats import to_json, to_srt
from ds2.recognition.spoken_to_figures import with_figures
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word
from ds2.text import normalize

RECIPES = Path(__file__).parents[2] / "recipes"
CASES = """
on may twenty fifth we left|on May 25th we left
the fifth of june|the 5th of June
on july fourth seventeen seventy six,|on July 4th 1776,
december first two thousand|December 1st 2000
may twenty five men|may 25 men
it cost twenty dollars.|it cost $20.
twenty dollars and fifty cents|$20.50
two million dollars|$2,000,000
twelve hundred dollars|$1,200
three dollars and five cents|$3.05
two hundred euros|€200
in nineteen eighty four, he|in 1984, he
in nineteen oh five|in 1905
between nineteen fourteen and nineteen eighteen|between 1914 and 1918
the nineteen eighties|the 1980s
twenty twenty four|2024
two thousand and five|2005
half past three|half past three
half past ten|half past ten
a quarter past six|a quarter past six
quarter to twelve|quarter to twelve
ten o'clock|ten o'clock
twelve fifteen a m|12:15 a.m.
one of them|one of them
the second man|the second man
a second later|a second later
the first two|the first two
into thirds, twenty fifths, tenths|into thirds, twenty fifths, tenths
the hundredth time|the 100th time
a hundred men|a hundred men
thousands of men|thousands of men
ten millions|ten millions
three and twenty men|three and twenty men
one half|one half
minus ten degrees|minus 10 degrees
three point one four|3.14
three point five percent|3.5%
five per cent|5%
at five thirty p m.|at 5:30 p.m.
the twenty first century|the 21st century
one hundred and twenty three thousand men|123,000 men
forty, fifty|40, 50
one two three four|one two three four
two or three|two or three
the year nineteen. ninety nine was|the year 1999 was
nineteen, ninety nine, nineteen, ninety eight.|1999, 1998.
nineteen hundred, and one.|1901.
one million two hundred thousand. three hundred and four|1,200,304
two thousand, and one, or perhaps nineteen. oh, five.|2001, or perhaps 1905.
eleven point. three seconds|11.3 seconds
twenty, point three seconds|20.3 seconds
two thousand, three hundred men|2,300 men
november, the eleventh, nineteen, eighteen.|november, the 11th, 1918.
the third, nineteen, eighteen and seventeen|the third, 19, 18 and 17
monday. the twelfth at ten, a m.|monday. the 12th at 10 a.m.
one million two hundred and thirty, four thousand five hundred and sixty seven.|1,234,567.
five million four hundred and twenty. one thousand|5,421,000
two hundred, thirty men, twenty, one man|200, 30 men, 20, one man
two hundred and thirty dollars, and ninety nine cents.|$230.99.
twenty dollars, and fifty men|$20, and 50 men
a hundred, two hundred men|a hundred, 200 men
one hundred, two men|100, two men
twenty, twenty five men|20, 25 men
fifteen, forty, fifty|15, 40, 50
a dollar, fifteen ninety nine cents.|a dollar, fifteen ninety nine cents.
a dollar, fifteen, ninety nine cents.|a dollar, fifteen, ninety nine cents.
nineteen ninety nine dollars|nineteen ninety nine dollars
nineteen hundred dollars|$1,900
dollar three point five zero|dollar 3.50
a dollar and one euro|a dollar and €1
two thousand five hundred dollars and ninety nine cents|$2,500.99
eleven oh five a m|11:05 a.m.
a thirty second break|a thirty second break
every ninety second lap, the ninety second lap|every ninety second lap, the 92nd lap
another twenty second.|another 22nd.
it cost twenty dollars fifty.|it cost $20.50.
twenty dollars fifty cents each|$20.50 each
twenty dollars fifty times, twenty dollars, fifty|$20 50 times, $20, 50
twenty dollars five|$20 five
it cost seven pounds fifty.|it cost £7.50.
chapter. twelve begins on page. one hundred and four.|chapter 12 begins on page 104.
chapter. two begins on the page. a man|chapter two begins on the page. a man
in nineteen forty five. thirty seven percent of the people left|in 1945, 37% of the people left
In two thousand and eight. There were ten of them|In 2008, there were 10 of them
In nineteen forty five. John left|In 1945, John left
On the sixth of june nineteen forty four. The|On the 6th of June 1944, the
We met in nineteen forty five. There were ten of us|We met in 1945. There were 10 of us
he left in nineteen forty five. thirty seven percent stayed|he left in 1945. 37% stayed
forty five, fifty six and seventy eight|45, 56 and 78
three point, one, four, one, five nine.|3.14159.
it is three point one four one, five nine in this case|it is 3.14159 in this case
three point one, four people|3.14 people
two or three hundred men|two or three hundred men
four or five thousand dollars|four or five thousand dollars
twenty or thirty people|20 or 30 people
fifty two or sixty people|52 or 60 people
five thousand seven hundred, nineteen writs|5,719 writs
eighty. one thousand seven hundred ninety. one pounds|81,791 pounds
two hundred, nineteen|200, 19
between three and four thousand pounds|between three and four thousand pounds
between twenty and thirty people|between 20 and 30 people
ten or twelve thousand travellers|ten or twelve thousand travellers
forty to fifty thousand|forty to fifty thousand
two thousand to three thousand people|2000 to 3,000 people
ten of us and five thousand men|10 of us and 5,000 men
i may second that motion|i may second that motion
they march first and we march second|they march first and we march second
We left. May first was warm, march second cold|We left. May 1st was warm, March 2nd cold
from may first to march fifth|from May 1st to March 5th
born march fifth|born March 5th
fifteen sixteen year olds|fifteen sixteen year olds
sixteen seventeen year old boys|sixteen seventeen year old boys
nineteen eighteen|1918
in seventeen fifteen, between seventeen fourteen and seventeen fifteen|in 1715, between 1714 and 1715
they won the game seventeen fifteen|they won the game seventeen fifteen
thirteen fourteen fifteen sixteen|13 14 15 16
at seven. Oh, five p m.|at 7:05 p.m.
wake me at ten oh five a m|wake me at 10:05 a.m.
a dollar fifty|a dollar fifty
dollar fifty for a|dollar 50 for a
it is eleven am i late|it is 11 am i late
five to twenty percent|five to twenty percent
six and seventy|six and seventy
two thousand three hundred and fifty people in two thousand and five|2,350 people in 2005
seven pounds and fifty pence, twelve pounds of rice|£7.50, 12 pounds of rice
""".strip().split("\n")


# Spoken in two ways that are the same figures, of which normalisation can choose only one.
SAID_OTHERWISE = {
    "five thousand seven hundred nineteen writs": "five thousand seven hundred and nineteen writs",
    "eighty one thousand seven hundred ninety one pounds": "eighty one thousand seven hundred and ninety one pounds",
    "it is eleven am i late": "it is eleven a m i late",
    "twelve hundred dollars": "one thousand two hundred dollars",
    "nineteen hundred dollars": "one thousand nine hundred dollars",
    "the hundredth time": "the one hundredth time",
    "five per cent": "five percent",
    "nineteen hundred and one": "nineteen oh one",
    "it cost twenty dollars fifty": "it cost twenty dollars and fifty cents",
    "it cost seven pounds fifty": "it cost seven pounds and fifty pence",
    "twenty dollars fifty cents each": "twenty dollars and fifty cents each",
}


def said(text: str) -> tuple[Word, ...]:
    """Words of half a second, each with its display form."""
    shown = text.split()
    return tuple(Word(each.strip(",.").lower(), at / 2, at / 2 + 0.5, 0.9, each) for at, each in enumerate(shown))


@pytest.mark.parametrize("case", CASES)
def test_numbers_become_figures(case: str) -> None:
    spoken, written = case.split("|")
    words = said(spoken)
    found = with_figures(words)
    assert " ".join(word.shown for word in found if word.shown) == written
    assert [replace(word, display="") for word in found] == [replace(word, display="") for word in words]


@pytest.mark.parametrize("case", CASES)
def test_figures_are_read_as_the_words_that_were_said(case: str) -> None:
    """Words -> figures -> normal form gives the words again, except for those of SAID_OTHERWISE."""
    words = said(case.split("|")[0])
    spoken = " ".join(word.text for word in words)
    shown = " ".join(word.shown for word in with_figures(words) if word.shown)
    assert normalize(shown, "en") == SAID_OTHERWISE.get(spoken, spoken)


NUMBERS = """a and minus zero oh one two three ten twelve twenty thirty fifty hundred thousand million half third thirds
    fifth tenths hundredths first second quarter quarters millionths dozen per cent percent dollars pence o'clock m p
    past to of may june eighteen eighty eighties point or""".split()


@given(st.lists(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(["", ",", "."]))))
def test_any_words_have_figures(words: list[tuple[str, str]]) -> None:
    spoken = said(" ".join(word + mark for word, mark in words))
    assert len(with_figures(spoken)) == len(spoken)


def test_a_pause_divides_a_year() -> None:
    first, *others = said("nineteen, ninety nine")
    found = with_figures((first, *(replace(word, start=word.start + 1, end=word.end + 1) for word in others)))
    assert [word.shown for word in found] == ["19,", "99", ""]


def test_a_pause_divides_numbers() -> None:
    first, second = said("twenty five")
    found = with_figures((first, replace(second, start=1.5, end=2.0)))
    assert [word.shown for word in found] == ["20", "five"]


def test_no_pause_divides_a_number_from_its_scale() -> None:
    """Worth forty ... thousand dollars: nobody says forty, and then a thousand."""
    words = said("worth forty thousand dollars")
    later = [replace(word, start=word.start + 0.5, end=word.end + 0.5) for word in words[2:]]
    assert [word.shown for word in with_figures((*words[:2], *later))] == ["worth", "$40,000", "", ""]
    much_later = [replace(word, start=word.start + 1.5, end=word.end + 1.5) for word in words[2:]]
    assert with_figures((*words[:2], *much_later))[1].shown == "40"


def test_no_sentence_ends_within_a_number_without_a_breath() -> None:
    words = said("one hundred ninety. seven creditors")
    at, tight = 0.0, []
    for word in words:
        tight.append(replace(word, start=at, end=at + 0.3))
        at += 0.39
    assert [word.shown for word in with_figures(tuple(tight))] == ["197", "", "", "", "creditors"]
    apart = [*tight[:3], *(replace(word, start=word.start + 0.1, end=word.end + 0.1) for word in tight[3:])]
    assert next(word.shown for word in with_figures(tuple(apart))) == "190."


def test_recognised_sentences_and_digit_strings_keep_their_words() -> None:
    """On real recordings: "five years" and "three one seven nine" are no figures, whatever else was recognised."""
    sentences = ds2.load("english", "cpu").transcribe_files(sorted(RECIPES.glob("english/audio/*.opus")))
    shown = [transcript.display for _, transcript in sentences if isinstance(transcript, Transcript)]
    assert any("five years" in text for text in shown)
    assert not any(character.isdigit() for text in shown for character in text)
    strings = ds2.load("digits", "cpu").transcribe_files(sorted(RECIPES.glob("digits/audio/so762*.opus"))[:20])
    found = [transcript.words for _, transcript in strings if isinstance(transcript, Transcript)]
    assert len(found) == 20
    assert all(with_figures(words) == words for words in found)


def test_files_show_the_figures_and_the_plain_text_stays() -> None:
    words = with_figures(said("He paid twenty five dollars today."))
    transcript = Transcript(" ".join(word.text for word in words), words, 3.0)
    assert transcript.display == "He paid $25 today."
    assert "He paid $25 today." in to_srt(transcript, "")
    assert '"text": "he paid twenty five dollars today"' in to_json(transcript, "")
