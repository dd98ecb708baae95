"""The data of the digits recipe, for the benchmarks that need recordings: composed at the first use, in a minute or
two."""

import subprocess
import sys
from pathlib import Path

RECIPE = Path(__file__).parents[1] / "recipes" / "digits"
DATA = RECIPE / "data"


def manifest(name: str) -> Path:
    """The manifest train, dev, test, strangers or small of the recipe."""
    if not (DATA / "strangers.jsonl").exists():  # the last one that the recipe writes
        print(f"composing the data of the digits recipe in {DATA}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, str(RECIPE / "prepare.py"), "--output", str(DATA)], check=True)
    return DATA / f"{name}.jsonl"
