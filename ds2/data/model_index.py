"""Published models: an index with their sizes and sums, and how they come from it into a folder of this machine.

models.json     {"models": {"swedish": {"about": "...", "bundle": {"size": 49763272, "sha256": "..."}, "card": {...}}}}
swedish.safetensors, swedish.md     the model and its card, beside the index or at the `url` of their entry
"""

import http.client
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ds2.bundle import read_record
from ds2.data.https_files import check_url, is_url, open_url
from ds2.data.verified_download import KnownFile, digest_of, fetch_known
from ds2.utils.errors import InputError, printable
from ds2.utils.files import make_folder, write_text
from ds2.utils.model_names import MODELS, pulled_folder

INDEX = "models.json"
MOST_INDEX = 1 << 20  # bytes of an index
MOST_BUNDLE, MOST_CARD = 1 << 36, 1 << 20  # bytes
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"  # without a dot: a name is no path
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class IndexFile(msgspec.Struct, omit_defaults=True):
    """A file: bytes, sum and, where it does not lie beside the index, its URL."""

    size: Annotated[int, Meta(ge=0, le=MOST_BUNDLE)]
    sha256: Sha256
    url: str = ""


class IndexModel(msgspec.Struct, omit_defaults=True):
    """A model: its bundle, its card and one line about it."""

    bundle: IndexFile
    card: IndexFile | None = None
    about: Annotated[str, Meta(max_length=300)] = ""


class IndexFormat(msgspec.Struct):
    """What stands in models.json."""

    models: dict[Annotated[str, Meta(pattern=NAME)], IndexModel]


@dataclass(frozen=True)
class ModelIndex:
    """An index that was read, and its place: a URL, or a path."""

    place: str
    models: dict[str, IndexModel]

    def files(self, name: str) -> dict[str, KnownFile]:
        """The files of a model by their names, the bundle first: a card without it would be of no model.

        Raises:
            InputError: no such model, a card that is too long, or a URL that is not allowed.
        """
        if name not in self.models:
            raise InputError(f"{name}: no model of {self.place} ({', '.join(self.models) or 'which has none'})")
        model = self.models[name]
        if model.card and model.card.size > MOST_CARD:
            raise InputError(f"{self.place}: the card of {name} has {model.card.size:,} bytes; {MOST_CARD:,} at most")
        found = {f"{name}.safetensors": model.bundle, f"{name}.md": model.card}
        return {file: self._known(file, entry) for file, entry in found.items() if entry is not None}

    def _known(self, file: str, entry: IndexFile) -> KnownFile:
        """In a folder all files lie beside the index, so that a copy of what was published needs no network."""
        if not is_url(self.place):
            return KnownFile(str(Path(self.place).parent / file), entry.size, entry.sha256)
        url = urllib.parse.urljoin(self.place, entry.url or file)
        check_url(url, self.place)
        return KnownFile(url, entry.size, entry.sha256)


def read_index(source: str) -> ModelIndex:
    """The index at a URL, in a folder, or in a file; where `source` does not end in .json it is models.json there.

    Raises:
        InputError: it cannot be read, is too long, or is not an index.
    """
    place = source if source.endswith(".json") else f"{source.rstrip('/')}/{INDEX}"
    try:
        with open_url(place) if is_url(place) else open(place, "rb") as file:
            data = file.read(MOST_INDEX + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"{place}: cannot read the index of models ({reason:.200})") from error
    if len(data) > MOST_INDEX:
        raise InputError(f"{place}: longer than {MOST_INDEX:,} bytes; not an index of models")
    try:
        return ModelIndex(place, msgspec.json.decode(data, type=IndexFormat).models)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{place}: not an index of models ({error!s:.200})") from error


def pull(index: ModelIndex, names: Sequence[str], folder: Path | None = None) -> Iterator[tuple[Path, bool]]:
    """Fetches models into `folder`, by default the cache; yields each bundle, and whether it was fetched just now.

    Raises:
        InputError: a file cannot be fetched, is not what the index says, or the package has another model of its name.
    """
    wanted = {name: index.files(name) for name in names}
    folder, is_cache = folder or pulled_folder(), folder is None
    for name, files in wanted.items():
        bundle, known = next(iter(files.items()))
        packaged = MODELS / bundle
        if is_cache and packaged.exists():
            if not known.is_at(packaged):
                raise InputError(f"{name}: the package has another model of this name; pull it into a folder instead")
            yield packaged, False
            continue
        make_folder(folder)
        fetched = [fetch_known(file, folder / each) for each, file in files.items()]
        yield folder / bundle, fetched[0]


def write_index(folder: Path) -> tuple[ModelIndex, list[str]]:
    """Writes models.json for the bundles of a folder, and their cards.

    Returns:
        the index, and a line for each damaged bundle, and each whose name is none, that was left out.

    Raises:
        InputError: no bundles, none that can be indexed, or it cannot be written.
    """
    models, skipped = {}, []
    for path in sorted(folder.glob("*.safetensors")):
        try:
            models[path.stem] = _indexed(path)
        except InputError as error:
            skipped.append(str(error))
    if not models:
        raise InputError(skipped[0] if skipped else f"{folder}: holds no bundles (.safetensors)")
    text = msgspec.json.format(msgspec.json.encode(IndexFormat(models)), indent=2).decode()
    write_text(folder / INDEX, text + "\n")
    return ModelIndex(str(folder / INDEX), models), skipped


def _indexed(path: Path) -> IndexModel:
    """The entry of a bundle."""
    if not re.match(NAME, path.stem):
        raise InputError(f"{path}: the name of a model has letters, digits, - and _ only; rename it")
    card = path.with_suffix(".md")
    about = printable(f"knows {read_record(path).knows}")[:300]
    return IndexModel(_entry(path), _entry(card) if card.is_file() else None, about)


def _entry(path: Path) -> IndexFile:
    return IndexFile(path.stat().st_size, digest_of(path))
