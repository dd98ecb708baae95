"""What the scripts of all recipes share: arguments, errors in one line, and the manifests that they write."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ds2.cli.exits import BAD_INPUT
from ds2.data.columnar import durations, values
from ds2.data.corpus_archives import Archive, fetch_all
from ds2.data.corpus_rows import corpus_folder
from ds2.data.manifest import write_manifest
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, counted
from ds2.utils.extras import hint
from ds2.utils.files import make_folder, write_lines


def run_script(main: Callable[[], None]) -> None:
    """Runs a recipe's script: bad input or a package that is missing ends it in one line on standard error."""
    try:
        main()
    except (InputError, ModuleNotFoundError) as error:
        message = hint(error) if isinstance(error, ModuleNotFoundError) else error
        print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def parse_arguments(
    description: str | None, archives: Mapping[str, Archive], others: Mapping[str, int | str] | None = None
) -> argparse.Namespace:
    """The arguments of a prepare.py: `source`, a folder or a tar that holds the corpus, `output`, and any others.

    `--download FOLDER` fetches and unpacks the archives first; what is there already is not fetched again.

    Raises:
        InputError: there is neither a folder nor a tar of that name.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--source", type=Path, help="a folder or a tar that holds the corpus")
    if archives:
        where.add_argument("--download", type=Path, help="a folder to download the corpus to")
        parser.add_argument("--parts", nargs="+", choices=[*archives], default=[*archives], help="of the download")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the manifests")
    for name, default in (others or {}).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    arguments = parser.parse_args()
    if archives and arguments.download is not None:
        fetch_all([archives[part] for part in arguments.parts], arguments.download)
        arguments.source = arguments.download
    arguments.source = corpus_folder(arguments.source, arguments.output / "unpacked")
    return arguments


def train_model(config: Path, folder: Path, settings: Iterable[str], fraction: float = 1.0) -> Path:
    """Trains by a recipe's configuration, or continues to, and returns the best bundle in `folder`.

    Args:
        settings: each "key=value", in place of the configuration's own. fraction: of the training data.

    Raises:
        subprocess.CalledProcessError: the training failed; it has said why.
    """
    command = [sys.executable, "-m", "ds2", "train", str(config), "--output", str(folder), "--fraction", str(fraction)]
    command += [part for setting in settings for part in ("--set", setting)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "best.safetensors"


def data_settings(folder: Path) -> list[str]:
    """The settings of `train_model` for train.jsonl, dev.jsonl and lexicon.txt of a folder."""
    there = folder.absolute()
    return [
        f"data.train=['{there}/train.jsonl']",
        f"data.dev='{there}/dev.jsonl'",
        f"data.lexicon='{there}/lexicon.txt'",
    ]


def write_splits(folder: Path, splits: Mapping[str, Sequence[Utterance]], skipped: Sequence[str] = ()) -> None:
    """Writes `folder`/SPLIT.jsonl for each split that is not empty, skipped.txt, and says how much is in each.

    What an earlier run left for a split that is empty now, or of files that it skipped, is removed.
    train.jsonl comes last of the splits: where it is, a corpus counts as prepared.

    Raises:
        InputError: all splits are empty.
    """
    if not any(splits.values()):
        reason = skipped[0] if skipped else "the folder named does not hold the corpus"
        raise InputError(f"{folder}: no utterances to write; {reason}")
    make_folder(folder)
    for split in sorted(splits, key=lambda name: name == "train"):
        utterances = splits[split]
        if utterances:
            write_manifest(folder / f"{split}.jsonl", utterances)
        else:
            (folder / f"{split}.jsonl").unlink(missing_ok=True)
        speakers, hours = len(set(values(utterances, "speaker")) - {None}), durations(utterances).sum() / 3600
        print(f"{split}: {counted(len(utterances), 'utterance')}, {counted(speakers, 'speaker')}, {hours:.2f} h")
    write_lines(folder / "skipped.txt", skipped)
    if skipped:
        print(f"{len(skipped)} left out, see {folder / 'skipped.txt'}")
