"""Cues of subtitles: how words are divided into cues, and cues into lines."""

import itertools
import random
from dataclasses import replace

import pytest

from ds2.recognition.cues import COLUMNS, LONGEST, SENTENCE_ENDS, Cue, _Layout, _units, make_cues
from ds2.recognition.words import Word

SILENCE = 100.0  # seconds after the last word


def said(text: str, rate: float = 14.0) -> list[Word]:
    """Words of so many characters a second with their display forms; "|" is a pause of a second, "~" of 0.4."""
    words, at = [], 0.0
    for shown in text.split():
        if shown in ("|", "~"):
            at += 1.0 if shown == "|" else 0.4
            continue
        start, at = at, at + (len(shown) + 1) / rate
        words.append(Word(shown.lower().strip('.,?"'), start, at, 0.9, shown))
    return words


def cues_of(words: list[Word]) -> list[Cue]:
    text = " ".join(word.text for word in words)
    return list(make_cues(text, words, words[-1].end + SILENCE))


def lines(text: str, rate: float = 14.0) -> list[list[str]]:
    return [cue.text.split("\n") for cue in cues_of(said(text, rate))]


def test_a_short_sentence_is_one_line() -> None:
    assert lines("So he went home.") == [["So he went home."]]
    assert list(make_cues("", [], 5.0)) == []


def test_two_lines_are_balanced_and_no_word_waits_for_the_next_line() -> None:
    text = "He never said to anybody in the house that it was over."
    assert lines(text) == [["He never said to anybody", "in the house that it was over."]]


def test_cues_end_with_sentences() -> None:
    """Where both sentences would fit into one cue, too."""
    one, two = "I never thought of it in all that time.", "You have to tell me all that you know."
    assert lines(f"{one} {two}") == [[one], [two]]


def test_cues_end_at_pauses() -> None:
    spoken = "he said that he would come in the evening ~ and that we should all wait for him at the door"
    assert [" ".join(each) for each in lines(spoken)] == spoken.split(" ~ ")


def test_no_cue_spans_a_long_pause() -> None:
    """What is said after it would be read long before: single words stand alone instead."""
    assert lines("Yes. | Right.") == [["Yes. Right."]]
    assert lines("Yes. | ~ Right.") == [["Yes."], ["Right."]]
    assert lines("Well | | certainly.") == [["Well certainly."]]
    assert lines("Well | | ~ certainly.") == [["Well"], ["certainly."]]


def test_no_word_stands_alone_unless_silence_is_around_it() -> None:
    text = "The committee has decided to postpone the whole of the meeting until the end of next November."
    assert all(len(" ".join(each).split()) > 2 for each in lines(text))
    assert lines("Yes. | I know.") == [["Yes. I know."]]
    assert lines("Yes. | | | I know.") == [["Yes."], ["I know."]]


def test_the_full_stop_of_a_title_ends_no_sentence() -> None:
    text = "It was the only thing in the world that Mr. Meredith wanted to have, and he never got it from anybody."
    assert not any(line.endswith("Mr.") for each in lines(text) for line in each)
    assert any(line.endswith('said."') for each in lines(f'{text} "That is what you said." {text}') for line in each)


def test_a_number_in_figures_is_one_word() -> None:
    words = said("He paid 25 dollars.")
    number = Word("five", words[2].end, words[2].end + 0.5, 0.9, "")
    [cue] = cues_of([*words[:2], Word("twenty", words[2].start, words[2].end, 0.9, "$25."), number])
    assert (cue.text, cue.end) == ("He paid $25.", number.end)


def test_a_cue_stays_until_it_is_read_or_the_next_begins() -> None:
    [slow] = cues_of(said("I know."))
    assert (slow.start, slow.end) == (0.0, 1.0)
    [fast] = cues_of(said("He had never seen the man with the red hat before.", rate=30))
    assert fast.end - fast.start == 50 / 17
    cues = cues_of(said("He had never seen the man with the red hat before. " * 9, rate=25))
    assert len(cues) > 5
    assert all(cue.end == following.start for cue, following in itertools.pairwise(cues))
    words = [Word("a", 3.8, 3.9, 1.0)]
    assert [(cue.start, cue.end) for cue in make_cues("a", words, 4.0)] == [(3.8, 4.0)]


def test_fast_speech_shares_a_cue_with_slow_speech() -> None:
    fast, slow = (
        said("I never thought of it in all that time.", rate=30),
        said("Nor did she ever know it at all.", rate=8),
    )
    [cue] = cues_of([*fast, *(replace(each, start=each.start + 1.4, end=each.end + 1.4) for each in slow)])
    assert len(cue.text) / (cue.end - cue.start) < 17


def test_a_word_longer_than_a_line_has_a_cue_for_itself() -> None:
    assert lines(f"so {'a' * 50} it is") == [["so"], ["a" * 50], ["it is"]]


def test_ideographs_take_two_columns_and_lines_do_not_begin_with_their_marks() -> None:
    words = [Word("好", 0.2 * n, 0.2 * n + 0.2, 1.0, "好，" if n % 7 == 6 else "好") for n in range(50)]
    found = [line for cue in make_cues("好" * 50, words, 10.0) for line in cue.text.split("\n")]
    assert "".join(found) == "".join(word.shown for word in words)
    assert max(map(len, found)) <= COLUMNS // 2
    assert not any(line.startswith("，") for line in found)


def test_lines_of_the_users_text_are_kept() -> None:
    """As cues of their own where they are long, together where they are short."""
    verses = ["From fairest creatures we desire increase", "That thereby beauty might never die"]
    words = said(" ".join(verses))
    text = " ".join(word.text for word in words)
    cues = list(make_cues(text, words, words[-1].end + 1, (6,)))
    assert [line for cue in cues for line in cue.text.split("\n")] == verses


@pytest.mark.parametrize("seed", range(20))
def test_no_other_division_costs_less(seed: int) -> None:
    """Of all divisions into cues of two lines at most and of LONGEST seconds."""
    rng = random.Random(seed)
    vocabulary = ["the", "so.", "and,", "extraordinarily", "he", "circumstances", "in", "house."]
    words = said(" ".join(rng.choice(["~", "|", *vocabulary * 2]) for _ in range(11)) + " end", rng.uniform(3, 25))
    layout = _Layout(_units(" ".join(word.text for word in words), words), words[-1].end + 1, COLUMNS)
    count = len(words)

    def cost(spans: list[tuple[int, int]]) -> float:
        return sum(layout.cost_of_span(*span) + layout.line_break(*span)[0] for span in spans)

    def columns(first: int, past: int) -> int:
        return len(" ".join(word.shown for word in words[first:past]))

    def allowed(first: int, past: int) -> bool:
        widest = [max(columns(first, second), columns(second, past)) for second in range(first + 1, past + 1)]
        return past - first == 1 or (words[past - 1].end - words[first].start <= LONGEST and min(widest) <= COLUMNS)

    divisions = (
        list(itertools.pairwise([0, *chosen, count]))
        for size in range(count)
        for chosen in itertools.combinations(range(1, count), size)
    )
    best = min(cost(spans) for spans in divisions if all(allowed(*span) for span in spans))
    assert abs(cost(layout.best_cues()) - best) < 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_every_word_is_shown_in_lines_that_fit(seed: int) -> None:
    rng = random.Random(seed)
    vocabulary = ["the", "so.", "and,", "extraordinarily", "he", "circumstances", "in", "house.", "~", "|"]
    words = said(" ".join(rng.choices(vocabulary, k=200)) + " end.", rng.uniform(3, 25))
    cues = cues_of(words)
    assert " ".join(cue.text for cue in cues).split() == [word.shown for word in words]
    found = [cue.text.split("\n") for cue in cues]
    assert all(len(each) <= 2 for each in found)
    assert all(len(line) <= COLUMNS for each in found for line in each)
    assert all(cue.end <= following.start for cue, following in itertools.pairwise(cues))
    assert found[-1][-1].endswith(SENTENCE_ENDS)
