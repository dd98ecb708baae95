"""Names of models: where a word in place of a path is looked up, and which of two with the same name wins."""

import difflib
import os
from pathlib import Path

from ds2.utils.errors import InputError, ParameterError

DEFAULT_MODEL = "english"  # a bundle of the package
FINE_TUNED = "fine-tuned.safetensors"  # in the folder of a fine-tuning: the model to use
FOLDERS = {  # a file in one: whose it is
    "model.onnx": "an exported model",
    FINE_TUNED: "a training",
    "best.safetensors": "a training",
}
LANGUAGES = {"mandarin": ("zh", "Mandarin")}  # of the models of the package that know another one than English
NOT_INSTALLED = (  # why a model of the package that no wheel holds is not there
    "not in the installed package; it lies in ds2/models of a checkout and among the files of a release: name its "
    "path, name its folder in DS2_MODELS, or bring it by ds2 models pull"
)
MODELS = Path(__file__).parents[1] / "models"


def locate(path: str | Path) -> Path:
    """Finds a bundle: a path as it is or, for a single name that is not a file, the bundle of that name.

    Raises:
        InputError: neither a file nor the name of a bundle; the folder of an exported model, or of a training.
    """
    path = Path(path)
    if path.is_dir() and str(path) not in named_models():
        for name, kind in FOLDERS.items():
            if (path / name).is_file():
                raise InputError(f"{path}: is the folder of {kind}; name {path / name}")
    if path.is_file() or len(path.parts) != 1:
        return path
    named = named_models()
    if path.name not in named:
        if path.suffix:
            return path
        if path.name in LANGUAGES:
            raise InputError(f"{path}: {NOT_INSTALLED}")
        near = difflib.get_close_matches(path.name, named, 1)
        names = f"({', '.join(named) or 'none: the package was installed without them'})"
        meant = f"; did you mean {near[0]}?" if near else f" {names}"
        raise InputError(f"{path}: neither a model bundle nor the name of one{meant}")
    return named[path.name]


def named_models() -> dict[str, Path]:
    """The bundles that go by a name: those of the package, of the folder `DS2_MODELS`, and those that were pulled.

    Of two with the same name the first one counts.
    """
    mirror = os.environ.get("DS2_MODELS")
    folders = [MODELS, *([Path(mirror)] if mirror else []), pulled_folder()]
    found: dict[str, Path] = {}
    for file in (file for folder in folders for file in sorted(folder.glob("*.safetensors"))):
        found.setdefault(file.stem, file)
    return found


def pulled_folder() -> Path:
    """The folder of this user's cache that `ds2 models pull` fills."""
    from platformdirs import user_cache_path

    return user_cache_path("ds2") / "models"


def is_packaged(model: str | Path) -> bool:
    """Whether a name or path is that of a model of the package."""
    path = Path(model)
    named = not path.suffix and len(path.parts) == 1 and not path.is_file()
    return path.parent == MODELS or (named and (MODELS / f"{path}.safetensors").exists())


def packaged_language(model: str | Path) -> tuple[str, str]:
    """Code and name of the language of a model of the package; what another one knows is known to its owner alone."""
    return LANGUAGES.get(Path(model).stem, ("en", "English")) if is_packaged(model) else ("", "")


def check_language(language: str, model: str | Path) -> None:
    """Refuses a language that a model of the package does not know.

    Raises:
        ParameterError: a model of the package does not know the language.
    """
    code, name = packaged_language(model)
    if code and language.lower().split("-")[0] not in ("", code, name.lower()):
        hint = f"{Path(model).stem} knows {name} ({code}) only; name a model of that language"
        raise ParameterError("language", f"{language}: {hint}")
