"""One model, one file: safetensors weights with JSON metadata in the header.

    NAME.safetensors = | header: {"__metadata__": {"ds2": JSON}, tensor table} | weights |

Loading executes nothing from the file. The metadata holds the configuration, the tokens and the training record;
the feature statistics are tensors among the weights, a language model's arrays lie beside them.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import atomic_write

FORMAT = 1  # raised when a reader of the old form could not read the new one
DEFAULT_MODEL, LIVE_MODEL = "english", "english-streaming"  # bundles of the package: for recordings, for live sound
MODELS = Path(__file__).parent / "models"
LM_PREFIX, PUNCTUATION_PREFIX = "language_model/", "punctuation/"  # begin the names of their arrays among the tensors
HEADER_LIMIT = 100_000_000  # bytes: safetensors' own bound on the header
HIGHEST_RATE = 768_000  # Hz
WORDS_SHOWN = 12  # of a closed vocabulary
LONGEST_SECONDS = 10.0  # of windows and hops; also above every fraction


@dataclass(frozen=True)
class Bundle:
    """A trained model at rest.

    Attributes:
        weights: the model's state, name -> tensor, or array.
        metadata: `config` (of the model), `tokens`, `training` (corpus, WER, version, ...), and where they were chosen
            `decoder` (its configuration), `language_model` (order, words) and `confidence` (its calibration); JSON
            values only.
        language_model: arrays of the n-gram model, empty without one.
        punctuation: the state of the tagger of recognised words, empty without one.
    """

    weights: dict[str, Any]
    metadata: dict[str, Any]
    language_model: dict[str, Any] = field(default_factory=dict)
    punctuation: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Writes the bundle whole or not at all."""
        from safetensors.torch import save

        header = {"ds2": json.dumps({"format": FORMAT, **self.metadata}, ensure_ascii=False)}
        tensors = dict(self.weights)
        for prefix, part in ((LM_PREFIX, self.language_model), (PUNCTUATION_PREFIX, self.punctuation)):
            tensors |= {prefix + name: tensor for name, tensor in part.items()}
        data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, header)
        with atomic_write(path) as partial:
            partial.write_bytes(data)

    @classmethod
    def load(cls, path: str | Path, arrays: Literal["torch", "numpy"] = "torch") -> "Bundle":
        """Reads a bundle onto the CPU.

        Args:
            arrays: numpy needs no torch; it gives NumPy's arrays in place of tensors.

        Raises:
            InputError: missing, cut off, not a bundle, of a newer format, or with sizes that its weights lack.
        """
        from safetensors import SafetensorError

        load_file = importlib.import_module(f"safetensors.{arrays}").load_file
        path = locate(path)
        metadata = read_metadata(path)
        try:
            tensors: dict[str, Any] = load_file(path)
        except (SafetensorError, OSError, KeyError, TypeError) as error:
            raise InputError(f"{path}: damaged model bundle ({error!s:.200}); copy or train it again") from error
        language_model, punctuation = _taken(tensors, LM_PREFIX), _taken(tensors, PUNCTUATION_PREFIX)
        _check_sizes(metadata["config"], tensors, path)
        return cls(tensors, metadata, language_model, punctuation)


def _taken(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Takes the tensors whose names have a prefix out of the others; the prefix is removed."""
    return {name.removeprefix(prefix): tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}


def check_language(language: str, model: str | Path) -> None:
    """All models of the package know English; what another one knows is known to its owner alone.

    Raises:
        ParameterError: a model of the package does not know the language.
    """
    path = locate(model)
    if path.parent == MODELS and language.lower().split("-")[0] not in ("", "en", "english"):
        hint = "name a model of that language"
        raise ParameterError("language", f"{language}: {path.stem} knows English (en) only; {hint}")


def locate(path: str | Path) -> Path:
    """Finds a bundle: a path as it is or, for a single word that is not a file, the package's bundle of that name.

    Raises:
        InputError: neither a file nor a bundle of the package.
    """
    path = Path(path)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    packaged = {file.stem: file for file in sorted(MODELS.glob("*.safetensors"))}
    if path.name not in packaged:
        names = ", ".join(packaged) or "none: the package was installed without them"
        raise InputError(f"{path}: neither a model bundle nor the name of one in the package ({names})")
    return packaged[path.name]


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The metadata alone, without the weights and without importing torch.

    Raises:
        InputError: missing, not a bundle, of a newer format, or with values of the wrong types.
    """
    path = locate(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= HEADER_LIMIT else {}
        metadata = json.loads(header["__metadata__"]["ds2"])
    except OSError as error:
        raise InputError(f"{path}: cannot read the model bundle ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a ds2 model bundle, or cut off in its header") from error
    if not isinstance(metadata, dict) or metadata.pop("format", None) != FORMAT:
        raise InputError(f"{path}: written in a bundle format that this version does not read; update ds2")
    check_metadata(metadata, path)
    return metadata


def knows(metadata: Mapping[str, Any]) -> str:
    """What a model can recognise, as the end of a sentence: "NAME knows ..."."""
    if vocabulary := metadata.get("vocabulary"):
        more = " ..." if len(vocabulary) > WORDS_SHOWN else ""
        return f"{len(vocabulary)} words and no other: {' '.join(vocabulary[:WORDS_SHOWN])}{more}"
    if about := metadata.get("language_model"):
        count = f"{len(about.get('words', [])):,}"
        if metadata["config"].get("phones"):  # it is searched by the pronunciations of these words
            return f"{count} words"
        return f"words of any kind, {count} of them by its language model"
    return "words of any kind, spelt as they sound"


def check_metadata(metadata: Any, path: Path) -> None:
    """Refuses metadata with values of the wrong types.

    Raises:
        InputError: naming them.
    """
    if (
        not isinstance(metadata, dict)
        or not isinstance(metadata.get("config"), dict)
        or not _are_texts(metadata.get("tokens"))
    ):
        raise InputError(f"{path}: the bundle lacks its configuration or its tokens; train it again")
    for name, facts in FACTS.items():
        part = metadata.get(name, {})
        if not isinstance(part, dict):
            raise InputError(f"{path}: damaged model bundle ({name} is not an object); copy or train it again")
        for fact, fits in facts.items():
            if fact in part and not fits(part[fact]):
                raise InputError(f"{path}: damaged model bundle ({name}.{fact} is wrong); copy or train it again")
    if not _are_texts(metadata.get("vocabulary") or []):
        raise InputError(f"{path}: damaged model bundle (vocabulary is not a list of words); copy or train it again")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max  # which NaN fails, too


def _are_numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(map(_is_number, values.values()))


FACTS: dict[str, dict[str, Callable[[Any], bool]]] = {  # parts of the metadata; what is shown of them, and its kind
    "training": {},
    "decoder": {},
    "language_model": {"order": _is_number, "words": _are_texts},
    "confidence": {"least": _is_number},
    "punctuation": {"f1": _are_numbers, "words": _are_texts},
}


def _check_sizes(config: dict[str, Any], weights: dict[str, Any], path: Path) -> None:
    """Refuses sizes beyond those of the weights: a model of them would take all memory, or never be built.

    Raises:
        InputError: naming the key.
    """
    most = max([len(weights), *(size for tensor in weights.values() for size in tensor.shape)], default=0)
    for key, value in _numbers(config, ""):
        limit = HIGHEST_RATE if key.endswith("sample_rate") else most if isinstance(value, int) else LONGEST_SECONDS
        if not abs(value) <= limit:
            raise InputError(f"{path}: damaged model bundle ({key} does not fit its weights); copy or train it again")


def _numbers(values: Any, key: str) -> Iterator[tuple[str, int | float]]:
    """All numbers in nested dictionaries and lists, and their keys."""
    if isinstance(values, dict | list):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        for name, value in items:
            yield from _numbers(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield key, values
