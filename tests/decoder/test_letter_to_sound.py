"""Letter-to-sound, learned from a handful of words."""

from ds2.data.phone_sets import CMUDICT
from ds2.decoder.letter_to_sound import guess_pronunciations, with_guesses
from ds2.decoder.pronunciations import Pronunciations

DICTIONARY = {
    "cat": "K AE T", "cats": "K AE T S", "tack": "T AE K", "sack": "S AE K", "sat": "S AE T", "at": "AE T",
    "tax": "T AE K S", "ax": "AE K S", "sax": "S AE K S", "back": "B AE K", "bat": "B AE T", "city": "S IH T IY",
    "cite": "S AY T", "bite": "B AY T", "kit": "K IH T", "bit": "B IH T", "sit": "S IH T",
    "mat": "M AE T", "mask": "M AE S K",
}  # fmt: skip


KNOWN = {word: [CMUDICT.numbers(phones.split())] for word, phones in DICTIONARY.items()}


def spoken(*words: str) -> list[str]:
    guessed = guess_pronunciations(words, KNOWN)
    return [CMUDICT.text(guessed[word]) for word in words]


def test_letters_stand_for_none_one_or_two_phones() -> None:
    """A new word is put together from letters in the contexts that were seen: silent e, x of two phones, hard c."""
    assert spoken("site", "bax", "cab", "mack") == ["S AY T", "B AE K S", "K AE B", "M AE K"]


def test_known_words_come_out_as_they_were() -> None:
    assert spoken(*DICTIONARY) == list(DICTIONARY.values())


def test_what_is_no_letter_is_silent() -> None:
    assert guess_pronunciations(["é1", ""], KNOWN) == {"é1": ()}


def test_guesses_join_the_pronunciations_that_there_are() -> None:
    """Known words keep theirs, and a word without one letter that was learned gets none."""
    known = Pronunciations.of(KNOWN)
    both = with_guesses(known, ["cab", "cat", "cab", "é1"]).to_dict()
    assert both == {**known.to_dict(), "cab": [CMUDICT.numbers(("K", "AE", "B"))]}
    assert with_guesses(known, ["cat"]) is known
    assert with_guesses(Pronunciations.of({}), ["cat"]).to_dict() == {}
