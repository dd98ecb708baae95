"""Letters in the texts of a fine-tuning that the model lacks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ds2.data.utterance import Utterance
from ds2.model_record import Record
from ds2.text import Tokenizer
from ds2.utils.errors import some_of

OTHER_LANGUAGE = 0.01  # share of new ones among the letters: names and loan words in English have less, German has more
OTHER_CHARACTERS = 0.2  # the same for a model of Chinese characters: texts have rare ones, and Latin letters
SHOWN = 5  # letters in a message


@dataclass(frozen=True)
class NewLetters:
    """The letters that a model lacks.

    Attributes:
        places: of each one the first utterance that holds it.
        share: of all letters of the texts.
        another_language: whether they are so many that the model's words are not those of the texts.
    """

    places: dict[str, str]
    share: float
    another_language: bool

    @classmethod
    def of(cls, tokens: Sequence[str], utterances: Iterable[Utterance]) -> "NewLetters":
        """Those of the utterances' texts that are not among the tokens."""
        tokenizer, places = Tokenizer(tokens), dict[str, str]()
        new = count = 0
        for each in utterances:
            unknown = tokenizer.unknown(each.text)
            for letter in sorted(unknown):
                places.setdefault(letter, each.place)
            new += sum(letter in unknown for letter in each.text)
            count += len(each.text) - each.text.count(" ")
        share = new / max(1, count)
        return cls(places, share, share > (OTHER_CHARACTERS if tokenizer.ideographs else OTHER_LANGUAGE))

    def warning(self, model: Record) -> str:
        """A line on what becomes of the letters and of the model's search, and what to write instead."""
        listed = some_of([f"{letter!r} ({place})" for letter, place in self.places.items()], SHOWN)
        if self.another_language:
            return (
                f"a new alphabet: the model lacks {listed}. With {self.share:.1%} of all letters new these texts are "
                "taken for another language: the new model will have no language model and no vocabulary. In the same "
                "language write these words with the letters that the model has"
            )
        advice = "where another spelling will do, write it with the letters that the model has"
        if model.phones:
            advice = "it finds no words with new letters, whose sound it does not know: write them with its own letters"
        return f"added to the model's alphabet: {listed}; {advice}"
