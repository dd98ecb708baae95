"""ds2 models: which models have a name here, and bringing others."""

import os
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.cli.data import report_skipped
from ds2.cli.options import LIST, OptionalOutput

INDEX_VARIABLE = "DS2_MODELS_INDEX"
Sources = Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME|URL|FOLDER", help_behavior_hint=LIST)]]
Index = Annotated[str | None, tyro.conf.arg(metavar="URL|FOLDER", help_behavior_hint="")]


def list_command(index: Index = None) -> int:
    """List the models that have a name here: their words and error rates.

    Example: ds2 models list

    Args:
        index: List what can be pulled from this index instead.
    """
    from ds2.cli.describe import list_models
    from ds2.data.model_index import read_index
    from ds2.utils.errors import printable

    if index is not None:
        for name, model in read_index(index).models.items():
            print(printable(f"{name:17} {model.bundle.size / 1e6:>8,.1f} MB  {model.about}".rstrip()))
        return 0
    print(*map(printable, list_models()), sep="\n")
    print("ds2 info NAME shows all of one; every --model also takes the path of a bundle (.safetensors)")
    return 0


def pull_command(sources: Sources, /, index: Index = None, output: OptionalOutput = None) -> int:
    """Fetch models by name, or all of an index; resumes and checks.

    Example: ds2 models pull swedish --index https://example.org/models.json

    Args:
        sources: Names of models in the index; or a URL or folder of an index, whose models are all fetched.
        index: models.json, or the folder that holds it; by default what DS2_MODELS_INDEX names.
        output: Folder for the models, such as a mirror for DS2_MODELS; by default a cache, where --model finds them.
    """
    from ds2.data.model_index import pull, read_index
    from ds2.utils.errors import InputError, printable
    from ds2.utils.model_names import named_models

    if not sources:
        raise InputError("models pull: name at least one model, or the URL or folder of an index")
    named = [source for source in sources if not _is_index(source)]
    place = index or os.environ.get(INDEX_VARIABLE)
    if named and not place:
        here = f"{named[0]} is here already; to fetch it anew " if named[0] in named_models() else "in which index? "
        raise InputError(f"{named[0]}: {here}name an index with --index or {INDEX_VARIABLE}")
    # Every index is read, and every name found, before anything is fetched.
    indexes = {source: read_index(source) for source in sources if _is_index(source)}
    wanted = [(found, list(found.models)) for found in indexes.values()]
    wanted += [(read_index(place), named)] if named and place else []
    for found, names in wanted:
        for path, fetched in pull(found, names, output):
            print(f"{path.stem}: {'fetched to' if fetched else 'already in'} {path.parent}", flush=True)
            if (other := named_models().get(path.stem, path)).resolve() != path.resolve():
                hint = f"--model {path.stem} takes {other}; name the file of this one"
                print(printable(f"ds2: {path.stem}: another model has this name: {hint}"), file=sys.stderr)
    return 0


def _is_index(source: str) -> bool:
    """Whether a source is an index rather than a name."""
    return "/" in source or source.endswith(".json") or Path(source).is_dir()


def index_command(folder: Positional[Path], /) -> int:
    """Write the index of a folder of bundles, for ds2 models pull.

    Example: ds2 models index published

    Args:
        folder: Folder with bundles, which gets models.json, and a card, NAME.md, beside those that have one.
    """
    from ds2.data.model_index import write_index

    index, skipped = write_index(folder)
    print(f"{index.place}: {', '.join(index.models)}")
    return report_skipped(skipped)
