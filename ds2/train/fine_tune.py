"""Fine-tuning: a trained model learns a few minutes or hours of another speaker, domain or alphabet.

OUTPUT/
  train.jsonl, dev.jsonl     the manifest, normalised and split: dev chooses the epoch
  lexicon.txt                pronunciations from the bundle, where the model has an output for phones
  fine-tuned.safetensors     the best epoch with the search, language model and vocabulary of the bundle
  with_search.json           the WER of both with their whole search and the texts of the new one, for the report
"""

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ds2.bundle import Bundle
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.phone_sets import phone_set
from ds2.data.split import split
from ds2.data.utterance import Utterance
from ds2.decoder.config import BeamConfig
from ds2.decoder.pronunciations import NAMES, Pronunciations
from ds2.model.config import ModelConfig
from ds2.text import normalize, split_words
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.fine_tune_letters import NewLetters
from ds2.train.fingerprint import check_fingerprint, fixed_values
from ds2.train.finite_weights import load_finite
from ds2.train.run_folder import check_name
from ds2.utils.config import from_dict, override
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder, write_lines, write_text
from ds2.utils.model_names import FINE_TUNED, locate

FEW_TIMES = 2  # a text occurs so often on average, at most, where sentences are kept apart
WITH_SEARCH = "with_search.json"
DEV, MOST_DEV = 0.1, 0.25  # share of the manifest that chooses the epoch and ends the training; of few utterances
ENOUGH_DEV = 10  # utterances; fewer would choose by chance
BATCH_SIZE = 8  # utterances: a little data still gives many updates
UPDATES = 400  # about so many, unless the dev set ends the training sooner
FEWEST_EPOCHS, MOST_EPOCHS, PATIENCE = 5, 30, 4
RATE, NEW_ALPHABET_RATE = 1e-4, 3e-4  # a new output layer has more to learn
PHONES_RATE = 2e-5  # the scores of biphones stay as they are, and must go on to fit the layers below them
NEW_ALPHABET_FROZEN_EPOCHS = 2  # in which that layer alone is trained

logger = logging.getLogger(__name__)


def fine_tuning(model: str, manifest: Path, output: Path, settings: Sequence[str] = ()) -> TrainConfig:
    """The configuration of a fine-tuning; writes its manifests, and its lexicon where the model knows phones.

    The convolutions below time-delay layers stay as they are: they hear sounds, which little data cannot teach better.
    Letters that the model lacks are added to its alphabet. Those of another language make the output layer learn alone
    at first.

    Args:
        settings: "section.key=value" that override what is chosen here.

    Raises:
        InputError: a bad manifest, bundle, setting or name of the folder; fewer than two utterances.
    """
    check_name(output)
    path = locate(model).absolute()
    bundle = load_finite(path)
    from_dict(BeamConfig, bundle.decoder or {}, f"{path}: its decoder")  # the search that the trained model will have
    utterances = _normalized(manifest, " " in bundle.tokens)
    if len(utterances) < 2:
        raise InputError(f"{manifest}: fine-tuning needs at least 2 utterances, some to train on and one to choose by")
    letters = NewLetters.of(bundle.tokens, utterances)
    _check_numbers(utterances, set(letters.places))
    if letters.places:
        logger.warning("%s", letters.warning(bundle))
    values = chosen(bundle, len(utterances), letters)
    values["start_from"] = str(path)
    values["data"] = {"train": [str(output / "train.jsonl")], "dev": str(output / "dev.jsonl")}
    if bundle.phones:
        values["data"]["lexicon"] = str(output / "lexicon.txt")
    for setting in settings:
        override(values, setting)
    # All is checked before the folder changes.
    config = from_dict(TrainConfig, values, "fine-tuning")
    held_out = _held_out(utterances)
    if (few := len(held_out["dev"])) < ENOUGH_DEV:
        logger.warning(
            "chance has a say in which epoch is kept: %d utterances choose it; more speech chooses better", few
        )
    parts = {output / f"{name}.jsonl": part for name, part in held_out.items()}
    lexicon = lexicon_lines(bundle, utterances) if bundle.phones else None
    _check_run(output / "checkpoint.pt", config, parts)
    make_folder(output)
    for path, part in parts.items():
        write_manifest(path, part)
    if lexicon is not None:
        write_lines(output / "lexicon.txt", lexicon)
    search = "without language model and vocabulary" if letters.another_language else "with the whole search"
    use = f"the model to use will be {output / FINE_TUNED}, {search}"
    logger.info("the error rates of the epochs are without a language model; %s", use)
    return config


def check_settings(settings: Sequence[str]) -> None:
    """Checks what `fine_tuning` will be given, before long work.

    Raises:
        InputError: a key that is not there, or an impossible value.
    """
    values: dict[str, Any] = {"data": {"train": ["train.jsonl"], "dev": "dev.jsonl"}}
    for setting in settings:
        override(values, setting)
    from_dict(TrainConfig, values, "fine-tuning")


def _normalized(manifest: Path, spaced: bool) -> list[Utterance]:
    """The utterances of a manifest, with their texts in the normal form; `spaced`: with spaces between words."""
    texts = [(each, normalize(each.text, each.lang or "")) for each in read_manifest(manifest)]
    return [replace(each, text=text if spaced else text.replace(" ", "")) for each, text in texts]


def _held_out(utterances: Sequence[Utterance]) -> Mapping[str, Sequence[Utterance]]:
    """The utterances to train on, and the dev set that chooses the epoch: of other sentences, unless most repeat."""
    texts = len({each.text for each in utterances})
    shares = {"dev": max(DEV, min(MOST_DEV, ENOUGH_DEV / len(utterances)))}
    if texts > 1 and texts * FEW_TIMES >= len(utterances):
        return split(utterances, shares, "text" if texts < len(utterances) else "utterance")
    parts = split(utterances, shares, "utterance")
    known = {each.text for each in parts["train"]}
    repeated = sum(each.text in known for each in parts["dev"])
    logger.warning(
        "%d of the %d utterances of the dev set have texts that are trained on, as only %d of %d differ: their error "
        "rates say little about other texts", repeated, len(parts["dev"]), texts, len(utterances),
    )  # fmt: skip
    return parts


def _check_run(checkpoint: Path, config: TrainConfig, parts: Mapping[Path, Sequence[Utterance]]) -> None:
    """Raises InputError where the output folder holds a training of other recordings, texts or another configuration:
    its manifests must stay."""
    if not checkpoint.exists():
        return
    for path, part in parts.items():
        if path.exists() and _compared(read_manifest(path)) != _compared(part):
            raise InputError(
                f"{path}: the training here began with other recordings or texts; choose another output folder"
            )
    check_fingerprint(checkpoint, load_checkpoint(checkpoint, "fingerprint")["fingerprint"], fixed_values(config))


def _compared(utterances: Iterable[Utterance]) -> list[tuple[str, float]]:
    return [(each.text, each.duration) for each in utterances]


def _check_numbers(utterances: Iterable[Utterance], unknown: set[str]) -> None:
    """Raises InputError where the model lacks figures: they are to be read as words, not learnt as new characters."""
    figures = {character for character in unknown if character.isdigit()}
    for each in utterances:
        if figures.intersection(each.text):
            raise InputError(
                f'{each.place}: {each.text!r:.60}: the model knows no figures; add "lang": "en" (or "zh") to the line '
                "to read numbers as words, or spell them out"
            )


def chosen(bundle: Bundle, utterances: int, letters: NewLetters) -> dict[str, Any]:
    """The values of the configuration that follow from the amount of data and the letters that the model lacks."""
    epochs, another = math.ceil(UPDATES * BATCH_SIZE / utterances), letters.another_language
    rate = NEW_ALPHABET_RATE if another else PHONES_RATE if bundle.phones else RATE
    return {
        "model": bundle.config,
        "epochs": min(MOST_EPOCHS, max(FEWEST_EPOCHS, epochs)),
        "patience": PATIENCE,
        "batch_size": BATCH_SIZE,
        "sortagrad": False,
        "optimizer": {"name": "adamw", "learning_rate": rate},
        "start": {
            "add_letters": bool(letters.places),
            "freeze": ["convolutions", "recurrent"] if another else hearing(ModelConfig.of(bundle)),
            "freeze_epochs": NEW_ALPHABET_FROZEN_EPOCHS if another else 0,
        },
    }


def hearing(config: ModelConfig) -> list[str]:
    """The parts of a model that hear sounds: its convolutions up to the first time-delay layer."""
    delays = [number for number, layer in enumerate(config.convolutions) if layer.bottleneck]
    return [f"convolutions.{number}" for number in range(delays[0])] if delays else ["convolutions"]


def lexicon_lines(bundle: Bundle, utterances: Iterable[Utterance]) -> list[str]:
    """The bundle's pronunciations of the words in the utterances; other words are learnt by letters alone.

    Raises:
        InputError: the bundle has no pronunciations.
    """
    lm = bundle.language_model
    if lm is None or not set(NAMES) <= lm.arrays.keys():
        raise InputError("the model knows phones, but its bundle holds no pronunciations; name data.lexicon")
    found = Pronunciations(lm.words, *(lm.arrays[name].numpy() for name in NAMES)).to_dict()
    words, phones = {word for each in utterances for word in split_words(each.text)}, phone_set(bundle.phones)
    return [f"{word} {phones.text(found[word][0])}" for word in sorted(words & found.keys())]


def save_fine_tuned(model: str, manifest: Path, output: Path) -> Path:
    """Writes fine-tuned.safetensors from best.safetensors in the output folder, and returns its path."""
    path = output / FINE_TUNED
    with_search_of(Bundle.load(model), Bundle.load(output / "best.safetensors"), manifest).save(path)
    return path


def write_with_search(run: Path, model: str, before: float, after: float, texts: Mapping[str, str]) -> None:
    """Keeps for the report the WER on the dev set of the model that training began from, and of the fine-tuned one, and
    the text that this one hears in each recording."""
    found = {"model": model, "before": before, "after": after, "texts": dict(texts)}
    write_text(run / WITH_SEARCH, json.dumps(found) + "\n")


def with_search_of(start: Bundle, tuned: Bundle, manifest: Path) -> Bundle:
    """The fine-tuned model with what the bundle that it started from knows besides the network.

    A model of another language's letters takes nothing over. A closed vocabulary grows by the words of the manifest.
    """
    utterances = _normalized(manifest, " " in start.tokens)
    if tuned.tokens != start.tokens:
        longer = tuned.tokens[: len(start.tokens)] == start.tokens
        if not longer or NewLetters.of(start.tokens, utterances).another_language:
            return tuned
    vocabulary = tuned.vocabulary
    if start.vocabulary:
        new = {word for each in utterances for word in each.text.split()}
        vocabulary = sorted(new.union(start.vocabulary))
    # What is not named here stays: the search, the language model, the calibration, the punctuation.
    return replace(
        start,
        weights=tuned.weights,
        config=tuned.config,
        tokens=tuned.tokens,
        training=tuned.training,
        vocabulary=vocabulary,
    )
