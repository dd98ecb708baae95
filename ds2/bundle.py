"""One model, one file: safetensors weights with JSON metadata in the header.

    NAME.safetensors = | header: {"__metadata__": {"ds2": JSON}, tensor table} | weights |

Loading executes nothing from the file. The feature statistics are tensors among the weights, the arrays of a language
model and of punctuation lie beside them. A bundle is changed by `dataclasses.replace`: who writes one part keeps all
others.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ds2.model_record import Record
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, read_text
from ds2.utils.mapped_tensors import map_tensors, parsed
from ds2.utils.model_names import locate

FORMAT = 1  # raised when a reader of the old form could not read the new one
WITH_ARRAYS = ("language_model", "punctuation", "neural_model")  # parts; these begin the names of their tensors
HEADER_LIMIT = 100_000_000  # bytes: safetensors' own bound on the header
HIGHEST_RATE = 768_000  # Hz
LONGEST_SECONDS = 10.0  # of windows and hops; also above every fraction


@dataclass(frozen=True, kw_only=True, repr=False)
class Bundle(Record):
    """A trained model at rest: its record and its arrays.

    Attributes:
        weights: the model's state, name -> tensor, or array.
    """

    weights: dict[str, Any] = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Writes the bundle whole or not at all.

        Raises:
            InputError: it cannot be written, or a header cannot hold the words of its language model.
        """
        from safetensors import SafetensorError
        from safetensors.torch import save

        header = {"ds2": json.dumps({"format": FORMAT, **self.metadata()}, ensure_ascii=False)}
        tensors = dict(self.weights)
        for key in WITH_ARRAYS:
            part = getattr(self, key)
            tensors |= {f"{key}/{name}": tensor for name, tensor in (part.arrays if part else {}).items()}
        try:
            data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, header)
        except SafetensorError as error:
            raise InputError(f"{path}: a bundle cannot hold this ({error}); use fewer words or tokens") from error
        with atomic_write(path) as partial:
            partial.write_bytes(data)

    @classmethod
    def load(cls, path: str | Path, arrays: Literal["torch", "numpy"] = "torch") -> "Bundle":
        """Reads a bundle onto the CPU.

        Args:
            arrays: numpy needs no torch; it gives NumPy's arrays, mapped, so that processes share them.

        Raises:
            InputError: missing, cut off, not a bundle, of a newer format, or with sizes that its weights lack.
        """
        path = locate(path)
        metadata = _read_metadata(path)
        tensors = _numpy_tensors(path) if arrays == "numpy" else _torch_tensors(path)
        parsed.cache_clear()  # some megabytes
        arrays_of = {key: _taken(tensors, f"{key}/") for key in WITH_ARRAYS}
        bundle = cls.parse(metadata, path, weights=tensors)
        _check_sizes(bundle.config, tensors, path)
        return bundle.with_arrays(arrays_of)

    def with_arrays(self, arrays_of: Mapping[str, dict[str, Any]]) -> "Bundle":
        """The bundle with these arrays in the parts of its record; a part without any is left out.

        Args:
            arrays_of: those of each of WITH_ARRAYS.

        Raises:
            InputError: there are arrays, but the record lacks their part.
        """
        found: dict[str, Any] = {}
        for key, arrays in arrays_of.items():
            part = getattr(self, key)
            if arrays and part is None:
                raise InputError(f"{self.name}: damaged model bundle ({key} is missing); copy or train it again")
            found[key] = replace(part, arrays=arrays) if arrays else None
        return replace(self, **found)


def model_card(bundle: str | Path) -> str:
    """The text beside a bundle, NAME.md: its data, licences, figures and limits; empty if there is none.

    Raises:
        InputError: it cannot be read.
    """
    path = locate(bundle).with_suffix(".md")
    return read_text(path) if path.is_file() else ""


def read_record(path: str | Path) -> Record:
    """Reads the record alone, without the weights and without importing torch.

    Raises:
        InputError: missing, not a bundle, of a newer format, or with values of the wrong types.
    """
    path = locate(path)
    return Record.parse(_read_metadata(path), path)


def _read_metadata(path: Path) -> Any:
    """The metadata of a file, as they stand there.

    Raises:
        InputError: missing, not a bundle, or of a newer format.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = parsed(file.read(length)) if length <= HEADER_LIMIT else {}
        metadata = parsed(header["__metadata__"]["ds2"])
    except OSError as error:
        raise InputError(f"{path}: cannot read the model bundle ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a ds2 model bundle, or cut off in its header") from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise InputError(f"{path}: written in a bundle format that this version does not read; update ds2")
    return {key: value for key, value in metadata.items() if key != "format"}


def _numpy_tensors(path: Path) -> dict[str, Any]:
    try:
        return dict(map_tensors(path)[1])
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise _damaged(path, error) from error


def _torch_tensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, KeyError, TypeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: damaged model bundle ({error!s:.200}); copy or train it again")


def _taken(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Takes the tensors whose names have a prefix out of the others; the prefix is removed."""
    return {name.removeprefix(prefix): tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}


def _check_sizes(config: dict[str, Any], weights: dict[str, Any], path: Path) -> None:
    """Refuses sizes beyond those of the weights: a model of them would take all memory, or never be built.

    Raises:
        InputError: naming the key.
    """
    most = max([len(weights), *(size for tensor in weights.values() for size in tensor.shape)], default=0)
    # Without recurrent layers nothing has the hidden size.
    sizes = {key: value for key, value in config.items() if key != "hidden" or config.get("recurrent_layers") != 0}
    for key, value in _numbers(sizes, ""):
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
