"""Speech that an aligned text lacks, in log-probabilities that one can add up by hand."""

import numpy as np

from ds2.ctc.array_alignment import STAR, align_arrays
from ds2.recognition.untranscribed_speech import LACKING, MARKED, OtherSpeech, find_other_speech, joined_speech
from ds2.recognition.words import Word

NAMES = ["<blank>", "a", "b"]


def frames(text: str, nats: float) -> np.ndarray:
    """A column for the blank ".", "a" and "b", and one for any other token "x", so many nats above all others."""
    log_probs = np.full((len(text), 4), -nats, np.float32)
    log_probs[np.arange(len(text)), [".abx".index(each) for each in text]] = 0.0
    return log_probs


def found(
    text: str, nats: float, tokens: list[int], frame_seconds: float = 0.5, skip: bool = False
) -> list[OtherSpeech]:
    targets = np.array(tokens)
    log_probs = frames(text, nats)
    return find_other_speech(log_probs, targets, align_arrays(log_probs[:, :3], targets), NAMES, frame_seconds, skip)


def test_what_is_heard_between_the_letters_adds_up() -> None:
    nats = LACKING / 4
    assert found("..a..b..", nats, [1, 2]) == []
    assert found("a.xx.x.xb", nats, [1, 2]) == []
    assert found("a.xx.x.x.x.b", nats, [1, 2]) == [OtherSpeech(1.0, 5.0, False)]
    assert found("xxxxx.a.b", nats, [1, 2]) == [OtherSpeech(0.0, 2.5, False)]
    assert found("a.b.xxxxx", nats, [1, 2]) == [OtherSpeech(2.0, 4.5, False)]


def test_a_star_says_that_there_is_speech() -> None:
    assert found("a..xx...b", MARKED / 1.5, [1, STAR, 2]) == [OtherSpeech(1.5, 2.5, True)]
    assert found("a.......b", MARKED / 1.5, [1, STAR, 2]) == []
    assert found("a..xx...b", MARKED / 1.5, [1, STAR, 2], skip=True) == []
    assert found("a..xx...b", LACKING / 1.5, [1, STAR, 2], skip=True) == [OtherSpeech(1.5, 2.5, True)]


def test_speech_begins_at_the_very_time_at_which_a_word_ends() -> None:
    """60 frames of 30 ms are 1.8 s, although 60 * 0.03 is less in floating point."""
    [speech] = found("." * 58 + "a." + "x." * 4 + "b", LACKING, [1, 2], 0.03)
    assert speech.start == 1.8


def test_a_letter_that_went_astray_does_not_divide_speech() -> None:
    first, second, star = OtherSpeech(1.0, 3.0, False), OtherSpeech(3.4, 5.0, False), OtherSpeech(5.2, 6.0, True)
    assert joined_speech([first, second], []) == [OtherSpeech(1.0, 5.0, False)]
    assert joined_speech([first, second], [Word("on", 3.0, 3.4, 1.0)]) == [first, second]
    assert joined_speech([first, second], [Word("on", 0.5, 1.0, 1.0), Word("at", 5.0, 5.2, 1.0)]) == [
        OtherSpeech(1.0, 5.0, False)
    ]
    assert joined_speech([second, star], []) == [second, star]
    assert joined_speech([first, OtherSpeech(4.5, 5.0, False)], []) == [first, OtherSpeech(4.5, 5.0, False)]
    assert joined_speech([], []) == []
