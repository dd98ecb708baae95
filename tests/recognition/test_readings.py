"""Numbers and titles with several readings, in a transcript and its reference."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds2.metrics import word_errors
from ds2.recognition.readings import both_forms, read_alike
from ds2.text import normalize

WORDS = (
    "in the of and a point minus two twelve twenty thousand hundred thousands hundredth hundredths july may dollars oh "
    "five fifth fifths first second seconds half quarter past twenties percent p m"
).split()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("on the 22nd of July 2012.", "on the twenty second of july two thousand and twelve"),
        ("It cost $1,100 in 2005", "it cost eleven hundred dollars in two thousand five"),
        ("in 2012 and in 2012", "in two thousand twelve and in twenty twelve"),
        ("100 men and 1,000,000 more", "a hundred men and a million more"),
        ("100% of 150 men", "a hundred percent of a hundred and fifty men"),
        ("Mr. and Mrs. Smith", "mr and missus smith"),
        ("mr smith", "mister smith"),
        ("on May 5", "on may the fifth"),
        ("on May 5", "on the fifth of may"),
        ("May 10, 1851", "may ten eighteen fifty one"),
        ("5 May 2012", "may the fifth two thousand twelve"),
        ("the 2nd of June", "june second"),
        ("2500 people", "twenty five hundred people"),
        ("£9.99", "nine pounds ninety nine"),
        ("room 101", "room one oh one"),
        ("flight 370", "flight three seventy"),
        ("in 1066", "in ten sixty six"),
        ("call 555-0123", "call five five five oh one two three"),
        ("at 7:30", "at half past seven"),
        ("at 3:20", "at twenty past three"),
        ("at 8:45", "at quarter to nine"),
        ("at 12:50", "at ten to one"),
        ("at 3:05 p.m.", "at five past three p m"),
        ("At 9 a.m. in the U.S. Embassy.", "at nine am in the us embassy"),
        ("am I here at 9 a.m.?", "am i here at nine am"),
        ("the USA won", "the u s a won"),
        ("He drove 60 mph.", "he drove sixty mph"),
        ("1 km, 5 km", "one kilometer five km"),
        ("My neighbour's grey colour programme", "my neighbor's gray color program"),
        ("We traveled to the theater and organized it.", "we travelled to the theatre and organised it"),
        ("OK then", "okay then"),
        ("we practiced", "we practised"),
        ("some skillful co-ordination", "some skillful coordination"),
        ("rearranged parts", "re arranged parts"),
    ],
)
def test_a_number_in_another_reading_is_no_error(written: str, said: str) -> None:
    reference = normalize(written, "en")
    assert said != reference
    assert read_alike(said, reference) == reference


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("in 2012", "in two thousand and thirteen"),
        ("he is 35", "he is thirty six"),
        ("a long way", "along way"),
        ("from day to day", "from day today"),
        ("two of them", "to of them"),
        ("100 men, one hundred of them", "a man, one under of them"),
        ("", "in two thousand and twelve"),
        ("on May 5", "on may sixth"),
        ("on May 5", "five of them may"),
        ("23", "two three"),
        ("half past 7", "seven thirty one"),
        ("3:20", "thirty five past three"),
        ("from five to nine", "from five to ten"),
        ("1.5", "fifteen"),
        ("$3.50", "three fifty"),
        ("room 101", "room one o"),
        ("2/3 of them", "three fifths of the men"),
        ("1 of the two", "ones of the two"),
        ("by tens", "by ten"),
        ("in the 1920s", "in the nineteen twenty"),
        ("four prizes", "for prises"),
        ("filing", "filling"),
        ("a center and a centre", "a centre and a center"),
        ("the U.S. told them", "they told us"),
    ],
)
def test_other_numbers_and_words_stay(written: str, said: str) -> None:
    assert read_alike(said, normalize(written, "en")) == said


@pytest.mark.parametrize(
    ("written", "said", "errors", "words"),
    [
        ("5390", "five three nine zero", 0, 4),
        ("5390", "five five nine zero", 1, 4),
        ("5390", "five three nine", 1, 4),
        ("his number is 5390 here", "his number is five five nine oh here", 1, 8),
        ("539", "five nine", 1, 3),
        ("1313", "thirteen hundred and twelve", 1, 4),
        ("flight 370", "flight four seventy", 1, 3),
        ("5390", "five thousand four hundred and ninety", 1, 6),
        ("born in 2012", "born in two thousand and twelve", 0, 4),
        ("112 people", "one hundred twelve people", 0, 5),
        ("in 1984", "in nineteen eighty five", 1, 4),
        ("35", "three six", 2, 2),
        ("5390", "", 6, 6),
        ("call 555-0199", "call five five five oh one one nine", 1, 8),
    ],
)
def test_a_number_has_as_few_errors_as_in_the_reading_of_the_transcript(
    written: str, said: str, errors: int, words: int
) -> None:
    text, reference = both_forms("en")(said, normalize(written, "en"))
    assert word_errors(reference, text).errors == errors
    assert len(reference.split()) == words


@given(st.lists(st.sampled_from(WORDS)), st.lists(st.sampled_from(WORDS)))
def test_other_readings_never_add_errors(said: list[str], reference: list[str]) -> None:
    text, read = both_forms("en")(" ".join(said), " ".join(reference))
    alone = read_alike(" ".join(said), " ".join(reference))
    assert word_errors(read, text).errors <= word_errors(" ".join(reference), alone).errors


@given(st.lists(st.sampled_from(WORDS)))
@example("a a thousand in thousand".split())
@example("the july fifth five july".split())
def test_what_was_read_alike_stays(words: list[str]) -> None:
    """A number that a text has twice, in two readings, is read in one of them."""
    text = " ".join(words)
    read = read_alike(text, text)
    assert read_alike(read, text) == read
