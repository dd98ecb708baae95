"""The phones of a language, which are the outputs of a model's second layer: those of CMUdict, or those of pinyin."""

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ds2.text import BLANK, BLANK_TOKEN
from ds2.utils.errors import InputError

SPACE = 1  # the output between words


@dataclass(frozen=True)
class PhoneSet:
    """Phones, and which of them may follow each other.

    Attributes:
        name: of the phones, for messages.
        phones: from output 2 on; a blank and a space come first.
        initials: how many of the first phones need another one after them, and end no word; a word of a language with
            such phones is a syllable: one of the others, alone or after an initial. 0: any phone may follow any.
    """

    name: str
    phones: tuple[str, ...]
    initials: int = 0

    @functools.cached_property
    def tokens(self) -> tuple[str, ...]:
        """All outputs of the model's layer, blank first."""
        return (BLANK_TOKEN, " ", *self.phones)

    def knows(self, phone: str) -> bool:
        """Whether it is one of the phones, with a stress digit or without; or the bar between syllables of pinyin."""
        return self._plain(phone) in self._outputs or (phone == "|" and self.initials > 0)

    def numbers(self, spoken: Iterable[str]) -> tuple[int, ...]:
        """The outputs of phones that it knows."""
        return tuple(SPACE if phone == "|" else self._outputs[self._plain(phone)] for phone in spoken)

    @functools.cached_property
    def _outputs(self) -> dict[str, int]:
        return {phone: number for number, phone in enumerate(self.phones, 2)}

    def _plain(self, phone: str) -> str:
        return phone if self.initials else phone.rstrip("012")

    @property
    def follows(self) -> np.ndarray | None:
        """(V, V) whether output b may follow output a, [a, b], the beginning and the end in place of the blank; None if
        any may."""
        if not self.initials:
            return None
        kinds = np.array([BLANK, SPACE, *[2] * self.initials, *[3] * (len(self.phones) - self.initials)])
        #                 to: end, space, initials, finals
        allowed = np.array([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 0, 0]], bool)
        return allowed[kinds[:, None], kinds]

    def text(self, labels: Iterable[int]) -> str:
        """Phones as text, with a bar between words: K AE T | S AE T."""
        return " ".join("|" if label == SPACE else self.tokens[label] for label in labels)


CMUDICT = PhoneSet(
    "CMUdict",
    tuple(
        "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()
    ),
)
INITIALS = "b p m f d t n l g k h j q x zh ch sh r z c s".split()
FINALS = (
    "a o e ai ei ao ou an en ang eng er ong i ia ie iao iou ian in iang ing iong "
    "u ua uo uai uei uan uen uang ueng v ve van vn"
).split()
TONES = "12345"  # 5 is the neutral one
PINYIN = PhoneSet(
    "pinyin", (*INITIALS, *(final + tone for final, tone in itertools.product(FINALS, TONES))), len(INITIALS)
)
PHONE_SETS = (CMUDICT, PINYIN)


def phone_set(outputs: int) -> PhoneSet:
    """The phones of a model with so many outputs for them.

    Raises:
        InputError: no phones have so many.
    """
    for each in PHONE_SETS:
        if len(each.tokens) == outputs:
            return each
    known = ", or ".join(f"{len(each.tokens)}, the phones of {each.name}" for each in PHONE_SETS)
    raise InputError(f"model.phones = {outputs} must be {known}")
