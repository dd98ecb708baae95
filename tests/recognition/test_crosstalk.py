"""Channels with the same words at the same times."""

from hypothesis import given
from hypothesis import strategies as st

from ds2.recognition.crosstalk import crosstalk_warning
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.recognition.words import Word

CALL = "good morning this is the station how may i help you".split()


def said(texts: list[str], start: float = 0.0, every: float = 0.5) -> tuple[Word, ...]:
    return tuple(
        Word(text, start + every * place, start + every * place + 0.4, 0.9) for place, text in enumerate(texts)
    )


def test_a_voice_that_leaks_into_the_other_channel_is_told() -> None:
    answer = said("i have lost a bag on the train".split(), 10.0)
    leaked = (*said(["good", "mourning", *CALL[2:]], 0.1), *answer)
    warning = crosstalk_warning([said(CALL), leaked])
    assert warning.startswith("channels 1 and 2 have 10 words in common at the same times")
    merged = merge_channels([Transcript("", each, 20.0) for each in (said(CALL), leaked)])
    assert merged.warning == warning
    assert f'"warning": "{warning}"' in merged.to_json()


def test_speakers_who_take_turns_or_say_a_word_together_are_not() -> None:
    assert crosstalk_warning([said(CALL), said(CALL, 10.0)]) == ""
    assert crosstalk_warning([said(CALL), said(["yes", *CALL[1:4]])]) == ""
    assert crosstalk_warning([said(CALL[:3]), said(CALL[:3])]) == ""
    assert crosstalk_warning([said(CALL)]) == crosstalk_warning([]) == crosstalk_warning([(), said(CALL)]) == ""


def test_each_pair_of_three_channels_is_told() -> None:
    other = said("well that is fine by me then".split(), 0.2)
    assert crosstalk_warning([said(CALL), other, said(CALL)]).startswith("channels 1 and 3 ")
    assert crosstalk_warning([said(CALL)] * 3).count("in common") == 3


@given(st.lists(st.sampled_from(CALL), min_size=4), st.floats(0, 1e4), st.floats(-0.25, 0.25))
def test_a_channel_and_its_shifted_copy_are_the_same(texts: list[str], start: float, shift: float) -> None:
    assert f"{len(texts)} words in common" in crosstalk_warning([said(texts, start), said(texts, start + shift)])
