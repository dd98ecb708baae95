"""What each ingredient of the learner gives, by itself: 4.8 hours of speech, one language model, the same hours heard.

    python recipes/mini_librispeech/bench.py ROW...        # trains rows, and measures them; all of them without a name
    python recipes/mini_librispeech/bench.py --list

A row is base.toml with the changes below, and the language model, pronunciations and unit of search of a bundle
(--search english), whose weights are tuned anew on every eighth utterance of dev. A training that was killed goes on,
a finished one is not repeated; 20 minutes for a row on a CPU core. --data is what README.md prepares.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import data_settings, run_script, train_model
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.recognition.evaluate import evaluate
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tune_decoder import borrow_search

TUNED_ON = 8  # every so many-th utterance
HERE = Path(__file__).parent
FRONT = "{channels=24,kernel=[11,9],stride=[2,3]},{channels=24,kernel=[11,7],stride=[2,1]}"
DELAY = "{channels=768,kernel=[1,3],stride=[1,1],bottleneck=96,bypass=0.66%s}"
FIRST = "{channels=768,kernel=[0,1],stride=[1,1],gate=64}"
DELAYS = [DELAY % (",gate=64" if number in (4, 8) else "") for number in range(1, 13)]
GATES = f"model.convolutions=[{','.join([FRONT, FIRST, *DELAYS])}]"
ROWS = {  # name: settings that differ from base.toml
    "base": [],
    "gates": [GATES],
    "biphones": ["model.biphones=128"],
    "gates-biphones": [GATES, "model.biphones=128"],
    "100-hours": [GATES, "model.biphones=128", "epochs=21"],
    "linear-bins": ["model.frontend.mel_bins=0"],
    "training-mean": ["model.frontend.mean='training'"],
    "ctc": ["optimizer.phone_loss='ctc'"],
    "adamw": ["optimizer.name='adamw'", "optimizer.learning_rate=1e-3"],
    "no-masks": ["augment.frequency_masks=0", "augment.time_masks=0"],
    "one-speed": ["augment.speed=[1.0]"],
    "warp": ["augment.frequency_warp=[0.9,1.1]"],
    "gru": [f"model.convolutions=[{FRONT}]", "model.recurrent_layers=4", "model.hidden=384"],
    "no-sortagrad": ["sortagrad=false"],
    "seed-2": ["seed=2"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--list", action="store_true", help="only names the rows and what they change")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--output", type=Path, default=HERE / "runs")
    parser.add_argument("--search", default="english", help="a bundle: a path, or the name of one in the package")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}; --list names them")
    if arguments.list:
        for name, settings in ROWS.items():
            print(name, *settings)
        return
    search = Bundle.load(arguments.search)
    dev = read_manifest(arguments.data / "dev-librispeech.jsonl")
    print("| row | epochs | minutes | phones wrong | words wrong |\n|---|---|---|---|---|")
    for name in arguments.rows or ROWS:
        settings = [*data_settings(arguments.data), *ROWS[name]]
        folder = train_model(HERE / "base.toml", arguments.output / name, settings).parent
        rate = words_wrong(folder, search, dev)
        epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        minutes = sum(epoch["seconds"] for epoch in epochs) / 60
        phones = epochs[-1].get("per")
        heard = "" if phones is None else f"{phones:.1%}"
        print(f"| {name} | {len(epochs)} | {minutes:.0f} | {heard} | {rate:.1%} |", flush=True)


def words_wrong(folder: Path, search: Bundle, dev: Sequence[Utterance]) -> float:
    """With the search of the bundle."""
    result = folder / "searching.safetensors"
    if not result.exists():
        borrow_search(folder / "best.safetensors", search, dev[::TUNED_ON]).save(result)
    return evaluate(Recognizer.load(result), dev).words.rate


if __name__ == "__main__":
    run_script(main)
