"""Letter-to-sound, learned from a handful of words."""

from ds2.data.letter_to_sound import LetterToSound
from ds2.data.pronunciation import INDEX, TOKENS

DICTIONARY = {
    "cat": "K AE T", "cats": "K AE T S", "tack": "T AE K", "sack": "S AE K", "sat": "S AE T", "at": "AE T",
    "tax": "T AE K S", "ax": "AE K S", "sax": "S AE K S", "back": "B AE K", "bat": "B AE T", "city": "S IH T IY",
    "cite": "S AY T", "bite": "B AY T", "kit": "K IH T", "bit": "B IH T", "sit": "S IH T",
    "mat": "M AE T", "mask": "M AE S K",
}  # fmt: skip


def learned() -> LetterToSound:
    return LetterToSound({word: [tuple(INDEX[each] for each in phones.split())] for word, phones in DICTIONARY.items()})


def spoken(learner: LetterToSound, word: str) -> str:
    return " ".join(TOKENS[phone] for phone in learner.pronounce(word))


def test_letters_stand_for_none_one_or_two_phones() -> None:
    """A new word is put together from letters in the contexts that were seen: silent e, x of two phones, hard c."""
    learner = learned()
    assert spoken(learner, "site") == "S AY T"
    assert spoken(learner, "bax") == "B AE K S"
    assert spoken(learner, "cab") == "K AE B"
    assert spoken(learner, "mack") == "M AE K"


def test_known_words_come_out_as_they_were() -> None:
    learner = learned()
    assert {word: spoken(learner, word) for word in DICTIONARY} == DICTIONARY


def test_what_is_no_letter_is_silent() -> None:
    assert learned().pronounce("é1") == ()
