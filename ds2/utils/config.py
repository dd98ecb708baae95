"""Configuration: frozen dataclasses read from TOML, with overrides from the command line.

Every component keeps its own dataclass beside its code; this module only moves values in and out of them. Keys that
were renamed (former_keys.py) are still accepted.
"""

import dataclasses
import difflib
import functools
import json
import logging
import math
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import read_text
from ds2.utils.former_keys import FORMER_KEYS, REPLACED_KEYS

Config = TypeVar("Config")
logger = logging.getLogger(__name__)
MOST_INTEGER = 2**53  # that a float holds to the unit
MOST_CHARACTERS = 20_000  # of a line of TOML
SHOWN = 100  # characters of a wrong value


def load_config(cls: type[Config], path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Reads a TOML file into the dataclass `cls`; each override is `section.key=value`, the value in TOML.

    Relative paths, in the file and in the overrides, are relative to the file's folder; URLs stay as they are.

    Raises:
        InputError: the file is missing or not TOML, a key is unknown, a value has the wrong type or is refused by
            the dataclass itself; the message names the file and the key.
    """
    path, text = Path(path), read_text(path)
    if max(map(len, text.split("\n"))) > MOST_CHARACTERS:  # tomllib takes minutes for a key of many thousand parts
        raise InputError(f"{path}: a line may have {MOST_CHARACTERS:,} characters; break it into several")
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also thousands of digits or brackets
        raise InputError(f"{path}: not valid TOML ({error!s:.100})") from error
    for setting in overrides:
        override(values, setting)
    return typing.cast(Config, _Reader(str(path), path.parent, warns=True).section(cls, values, ""))


def from_dict(cls: type[Config], values: Mapping[str, Any], source: str, *, warns: bool = False) -> Config:
    """Builds the dataclass `cls` from nested dictionaries, those of a bundle for example.

    `source` names their origin in errors. Keys that were renamed are accepted, by default without a warning: a bundle
    cannot be edited.
    """
    return typing.cast(Config, _Reader(source, Path(), warns).section(cls, values, ""))


def to_dict(config: Any) -> dict[str, Any]:
    """The nested dictionaries of a dataclass, ready for JSON; `from_dict` turns them back."""
    return typing.cast(dict[str, Any], json.loads(json.dumps(dataclasses.asdict(config), default=str)))


def dotted_keys(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= dotted_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def require(config: Any, rule: str, fits: Callable[[Any], bool], *names: str) -> None:
    """Checks the values of these names, and each item of a tuple; for a dataclass's `__post_init__`.

    Raises:
        ValueError: naming the first value that does not fit; `rule` is `fits` in words.
    """
    for name in names:
        value = getattr(config, name)
        if not all(map(fits, value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"{name} = {value} must be {rule}")


def override(values: dict[str, Any], setting: str) -> None:
    """Puts `section.key=value`, the value in TOML, into nested dictionaries."""
    key, equals, text = setting.partition("=")
    *sections, last = key.strip().split(".")
    if not equals or not last:
        raise ParameterError("set", f"{setting}: expected section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text  # a bare word is a string: --set optimizer.name=adamw
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ParameterError("set", f"{setting}: {section} is a value, not a section")
    values[last] = value


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Checks values against the annotations of dataclasses; every error names the source and the key."""

    source: str
    folder: Path
    warns: bool  # of keys that were renamed

    def section(self, cls: type, values: Any, section: str) -> Any:
        if not isinstance(values, Mapping):
            raise self.wrong(section, values, "be a section of keys")
        if "preset" in values and hasattr(cls, "preset"):
            values = {**self.preset(cls, values["preset"], section), **values}
            del values["preset"]
        kinds = _kinds(cls)
        prefix = f"{section}." if section else ""
        values = self.renamed(cls, values, prefix)
        converted = {}
        for name, value in values.items():
            key = prefix + name
            if name not in kinds:
                within = [f"{part}.{name}" for part, kind in kinds.items() if name in _keys_of(kind)]
                meant = f"did you mean {prefix}{within[0]}?" if len(within) == 1 else _meant(name, kinds)
                raise InputError(f"{self.source}: unknown key {_quoted_key(key)}; {meant}")
            converted[name] = self.value(kinds[name], value, key)
        for field in dataclasses.fields(cls):
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if required and field.name not in converted:
                raise InputError(f"{self.source}: {prefix}{field.name} is missing")
        try:
            return cls(**converted)
        except InputError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{self.source}: {section or 'configuration'}: {error!s:.200}") from error

    def renamed(self, cls: Any, values: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
        """The values under today's names, without those that have none any more."""
        names, replaced = FORMER_KEYS.get(cls.__name__, {}), REPLACED_KEYS.get(cls.__name__, {})
        for old in names.keys() & values.keys():
            new = names[old]
            if new in values:
                raise InputError(f"{self.source}: {prefix}{old} is the former name of {prefix}{new}; remove it")
            if self.warns:
                logger.warning("%s: %s is now called %s; rename it", self.source, prefix + old, prefix + new)
        for old in replaced.keys() & values.keys():
            if self.warns:
                new = prefix + replaced[old]
                logger.warning("%s: %s is ignored; %s took its place", self.source, prefix + old, new)
        return {names.get(name, name): value for name, value in values.items() if name not in replaced}

    def preset(self, cls: Any, name: Any, section: str) -> dict[str, Any]:
        """The values of a named configuration; keys beside `preset` replace its own."""
        try:
            return to_dict(cls.preset(name))
        except KeyError as error:
            raise self.wrong(f"{section}.preset", name, f"be one of {', '.join(error.args[1])}") from error

    def value(self, kind: Any, value: Any, key: str) -> Any:
        """`value` in the type that the annotation `kind` asks for."""
        if dataclasses.is_dataclass(kind):
            return self.section(typing.cast(type, kind), value, key)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is types.UnionType:
            return None if value is None else self.value(arguments[0], value, key)
        if origin is typing.Literal:
            if value not in arguments:
                raise self.wrong(key, value, f"be one of {', '.join(map(repr, arguments))}")
            return value
        if origin is tuple:
            return self.items(arguments, value, key)
        if origin is dict:  # of any keys: the dataclass itself looks into it
            if not isinstance(value, Mapping):
                raise self.wrong(key, value, "be a section of keys")
            return dict(value)
        if kind is Path and isinstance(value, str):
            return Path(value) if "://" in value else self.folder / value
        if kind is float and type(value) is int and abs(value) <= MOST_INTEGER:
            return float(value)
        if type(value) is not kind:
            raise self.wrong(key, value, f"be of type {kind.__name__}")
        if kind is float and not math.isfinite(value):
            raise self.wrong(key, value, "be a finite number")
        return value

    def items(self, kinds: tuple[Any, ...], values: Any, key: str) -> tuple[Any, ...]:
        if not isinstance(values, list | tuple):
            raise self.wrong(key, values, "be a list")
        if kinds[-1] is Ellipsis:
            kinds = kinds[:1] * len(values)
        if len(kinds) != len(values):
            raise self.wrong(key, values, f"hold {len(kinds)} values")
        pairs = enumerate(zip(kinds, values, strict=True))
        return tuple(self.value(kind, value, f"{key}[{index}]") for index, (kind, value) in pairs)

    def wrong(self, key: str, value: Any, rule: str) -> InputError:
        return InputError(f"{self.source}: {key} = {_shown(value)} must {rule}")


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    """The annotations of a dataclass: a bundle's configuration has dozens of sections of the same few."""
    return typing.get_type_hints(cls)


def _keys_of(kind: Any) -> set[str]:
    """The keys of a section; none of another value."""
    return {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()


def _meant(name: str, known: Iterable[str]) -> str:
    """What a wrong name stands for: a similar one, or one with these initials, as lr for learning_rate."""
    initials = [key for key in known if "".join(word[0] for word in key.split("_")) == name]
    near = initials or difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(sorted(known))}"


def _quoted_key(key: str) -> str:
    """A key on one short line, in quotation marks where it would not be."""
    return key if key.isprintable() and len(key) <= SHOWN else _shown(key)


def _shown(value: Any) -> str:
    """A value on one short line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, thousands of brackets
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
