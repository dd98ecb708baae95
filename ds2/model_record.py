"""What the metadata of a bundle say of its model: typed, checked once, changed by `dataclasses.replace`.

The file holds them as one JSON object; the room above, `ds2.bundle`, reads and writes it with the arrays.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ds2.text import count_words
from ds2.utils.errors import InputError

KNOWS_ANY = "words of any kind, spelt as they sound"
WORDS_SHOWN = 12  # of a closed vocabulary
LARGEST_SHARE = 1000.0  # weight of a second pass


@dataclass(frozen=True)
class LanguageModelPart:
    """An n-gram model of words, or of tokens, with the pronunciations of its words if it has any.

    Attributes:
        arrays: see `ds2.recognition.decoding`; empty where only the record was read.
    """

    order: int
    words: Sequence[str]
    arrays: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PunctuationPart:
    """A tagger of recognised words.

    Attributes:
        words: its list, in the order of their numbers.
        f1: of each mark, on texts that were held out.
        trained_words: words of text that it has learnt from.
        arrays: its state; empty where only the record was read.
    """

    words: Sequence[str]
    f1: dict[str, float] = field(default_factory=dict)
    trained_words: int | None = None
    arrays: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class NeuralModelPart:
    """A language model for the second pass, see `ds2.lm.neural`.

    Attributes:
        pieces: of words, in the order of their numbers.
        weight, bonus: of its log-probability, and nats for each word.
        kept: share that stays of what the search has added for words.
        arrays: its weights; empty where only the record was read.
    """

    pieces: Sequence[str]
    weight: float = 0.0
    bonus: float = 0.0
    kept: float = 1.0
    arrays: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class Record:
    """What a bundle says of its model.

    The configurations are JSON values, because the rooms whose configurations they are stand above this one:
    `ModelConfig.of(record)` is the model's.

    Attributes:
        config: of the model.
        tokens: its outputs, the blank first.
        training: corpus, hours, error rates, version and so on.
        decoder: configuration of the search that was chosen for this model.
        confidence: calibration of the words' confidence.
        vocabulary: the only words that it can recognise.
        more: what a later version has added.
        keys: of the file, in their order: a bundle that is read and saved is the same file.
        name: path of the file, for errors.
    """

    config: dict[str, Any]
    tokens: list[str]
    training: dict[str, Any] = field(default_factory=dict)
    decoder: dict[str, Any] | None = None
    confidence: dict[str, Any] | None = None
    vocabulary: list[str] | None = None
    language_model: LanguageModelPart | None = None
    punctuation: PunctuationPart | None = None
    neural_model: NeuralModelPart | None = None
    more: dict[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    name: str = field(default="the bundle", compare=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, knows {self.knows})"

    @classmethod
    def parse(cls, metadata: Any, path: Path, **own: Any) -> Self:
        """The record of the metadata of a file; `own` are fields of a subclass.

        Raises:
            InputError: a value of the wrong type.
        """
        if (
            not isinstance(metadata, dict)
            or not isinstance(metadata.get("config"), dict)
            or not _are_texts(metadata.get("tokens"))
        ):
            raise InputError(f"{path}: the bundle lacks its configuration or its tokens; train it again")
        values = dict(metadata)
        for key, kind in PARTS.items():
            if key in values:
                values[key] = kind(values[key], f"{path}: damaged model bundle ({key}")
        more = {key: values.pop(key) for key in metadata if key not in KEYS}
        return cls(**values, more=more, keys=tuple(metadata), name=str(path), **own)

    def metadata(self) -> dict[str, Any]:
        """The record as JSON values; parts that are not there have no key."""
        values: dict[str, Any] = {"config": self.config, "tokens": self.tokens}
        values["training"] = self.training or ({} if "training" in self.keys else None)
        values |= {key: getattr(self, key) for key in ("vocabulary", "decoder", "confidence")}
        if (lm := self.language_model) is not None:
            values["language_model"] = {"order": lm.order, "words": lm.words}
        if (tagger := self.punctuation) is not None:
            about = {"f1": tagger.f1 or None, "trained_words": tagger.trained_words, "words": tagger.words}
            values["punctuation"] = {key: value for key, value in about.items() if value is not None}
        if (neural := self.neural_model) is not None:
            shares = {"weight": neural.weight, "bonus": neural.bonus, "kept": neural.kept}
            values["neural_model"] = {**shares, "pieces": neural.pieces}
        values = {key: value for key, value in (values | self.more).items() if value is not None}
        return {key: values[key] for key in self.keys if key in values} | values

    @property
    def phones(self) -> int:
        """Outputs for phones; 0 without any."""
        phones = self.config.get("phones")
        return phones if isinstance(phones, int) else 0

    @property
    def least_confidence(self) -> float:
        """Segments whose words have a lower mean confidence are no speech; 0 without a calibration."""
        return float((self.confidence or {}).get("least") or 0.0)

    @property
    def knows(self) -> str:
        """What the model can recognise, as the end of a sentence: "NAME knows ..."."""
        if self.vocabulary:
            more = " ..." if len(self.vocabulary) > WORDS_SHOWN else ""
            return f"{len(self.vocabulary)} words and no other: {' '.join(self.vocabulary[:WORDS_SHOWN])}{more}"
        if self.language_model:
            count = f"{count_words(self.language_model.words):,}"
            if self.phones and " " not in self.tokens:  # its words are characters
                return f"{len(set(self.language_model.words) & set(self.tokens)):,} characters"
            if self.phones:  # it is searched by the pronunciations of these words
                return f"{count} words"
            return f"words of any kind, {count} of them by its language model"
        return KNOWS_ANY


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{what} is not an object); copy or train it again")
    return value


def _fitting(part: dict[str, Any], what: str, **facts: Callable[[Any], bool]) -> dict[str, Any]:
    """The facts of a part; raises InputError where one is missing or does not fit."""
    for fact, fits in facts.items():
        if not fits(part.get(fact)):
            raise InputError(f"{what}.{fact} is wrong); copy or train it again")
    return {fact: part[fact] for fact in facts if fact in part}


def _confidence(value: Any, what: str) -> dict[str, Any]:
    _fitting(_object(value, what), what, least=_or_none(_is_number))
    return value


def _language_model(value: Any, what: str) -> LanguageModelPart:
    return LanguageModelPart(**_fitting(_object(value, what), what, order=_is_number, words=_are_texts))


def _punctuation(value: Any, what: str) -> PunctuationPart:
    facts = {"words": _are_texts, "f1": _or_none(_are_numbers), "trained_words": _or_none(_is_number)}
    return PunctuationPart(**_fitting(_object(value, what), what, **facts))


def _neural_model(value: Any, what: str) -> NeuralModelPart:
    facts = {"pieces": _are_texts, "weight": _is_share, "bonus": _is_share, "kept": _is_share}
    return NeuralModelPart(**_fitting(_object(value, what), what, **facts))


def _vocabulary(value: Any, what: str) -> list[str] | None:
    if value is not None and not (_are_texts(value) and all(value)):
        raise InputError(f"{what} is not a list of words); copy or train it again")
    return value


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {str}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max  # which NaN fails, too


def _is_share(value: Any) -> bool:
    return _is_number(value) and abs(value) <= LARGEST_SHARE


def _are_numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(map(_is_number, values.values()))


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


PARTS: dict[str, Callable[[Any, str], Any]] = {  # that a bundle may hold: the values of each, checked
    "training": _object,
    "decoder": _object,
    "confidence": _confidence,
    "vocabulary": _vocabulary,
    "language_model": _language_model,
    "punctuation": _punctuation,
    "neural_model": _neural_model,
}
KEYS = {"config", "tokens", *PARTS}
