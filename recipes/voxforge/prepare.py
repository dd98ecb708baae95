"""Manifests of VoxForge, English sentences that volunteers read into their own microphones.

    python recipes/voxforge/prepare.py --source FOLDER --output FOLDER

FOLDER holds the submissions, SPEAKER-DATE-NAME/ with etc/ and wav/ (or flac/), or their archives, which are unpacked;
how to fetch them is in the README. Speakers of test and dev are in no other part; test also comes by accent, as Deep
Speech 2 reports it.
"""

from collections.abc import Iterator
from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_archives import unpack_once
from ds2.data.corpus_rows import Row, measured
from ds2.data.split import split
from ds2.utils.errors import InputError
from ds2.utils.progress import Progress

SHARES = {"dev": 0.03, "test": 0.1}
ACCENTS = {  # words of "Pronunciation dialect" in etc/README
    "american": ("american", "canadian"),
    "commonwealth": ("british", "irish", "scottish", "australian", "new zealand", "south african"),
    "indian": ("indian",),
    "european": ("european",),
}


def main() -> None:
    arguments = parse_arguments(__doc__, {})
    folder: Path = arguments.source
    archives = sorted(folder.glob("*.tgz"))
    with Progress("unpacking", len(archives), "submissions") as progress:
        for archive in archives:
            unpack_once(archive, folder)
            progress.step()
    utterances, skipped = measured(rows(folder), "en")
    splits = split(utterances, SHARES)
    for accent in ACCENTS:
        splits[f"test_{accent}"] = [u for u in splits["test"] if u.extra.get("accent") == accent]
    write_splits(arguments.output, splits, skipped)


def rows(folder: Path) -> Iterator[Row]:
    """Lines `*/mfc/a0001 TEXT` of etc/PROMPTS; each anonymous submission counts as one speaker."""
    submissions = sorted(folder.glob("*/etc/PROMPTS"))
    if not submissions:
        raise InputError(f"{folder}: holds no submission, SPEAKER-DATE-NAME/etc/PROMPTS")
    for prompts in submissions:
        submission = prompts.parents[1]
        name = submission.name.partition("-")[0]
        speaker = submission.name if name == "anonymous" else name
        extra = {"accent": accent} if (accent := accent_of(prompts.with_name("README"))) else {}
        for number, line in enumerate(prompts.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            key, _, text = line.strip().partition(" ")
            base = key.rpartition("/")[2]
            audio = next(submission.glob(f"*/{base}.[wf]*"), submission / "wav" / f"{base}.wav")
            yield Row(audio, text, speaker, "en", extra=extra, place=f"{prompts}:{number}")


def accent_of(readme: Path) -> str:
    """Empty where the README names no accent, or another one."""
    if not readme.exists():
        return ""
    lines = readme.read_text(encoding="utf-8", errors="replace").lower().splitlines()
    dialect = next((line for line in lines if line.startswith("pronunciation dialect")), "")
    return next((accent for accent, words in ACCENTS.items() if any(word in dialect for word in words)), "")


if __name__ == "__main__":
    run_script(main)
