"""How words wrong fall with hours of read English, and what that promises for 100 and 1,000 hours.

    python recipes/english/hours.py english.safetensors --output runs/hours

Trains hours.toml on a quarter, a half and all of the data of prepare.py, the smaller parts for more epochs, and gives
each model the language model and the pronunciations of the bundle, with weights tuned on every 15th dev utterance:
three hours on a CPU core. Finished trainings are not repeated. Writes hours.png and prints the table.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import data_settings, run_script, train_model
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts
from ds2.recognition.evaluate import evaluate
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tune_decoder import borrow_search
from ds2.train.plots import draw_power_laws
from ds2.train.power_law import fit_power_laws
from ds2.utils.extras import need

PARTS = {0.25: 24, 0.5: 16, 1.0: 10}  # fraction of the data: epochs
TUNED_ON = 15  # every so many-th utterance
PROMISED = (100, 1000)  # hours
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", help="a path, or the name of one in the package")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="from prepare.py")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    need("matplotlib")
    search = Bundle.load(arguments.bundle)
    names = ("librispeech", "common-voice", "speechocean762")
    sets = {name: read_manifest(arguments.data / f"dev-{name}.jsonl") for name in names}
    points: dict[str, list[tuple[float, float]]] = {"all": [], **{name: [] for name in sets}}
    print("| hours | epochs | phones wrong, greedily | " + " | ".join(points) + " |\n|" + "---|" * (3 + len(points)))
    for fraction, epochs in PARTS.items():
        settings = [f"epochs={epochs}", *data_settings(arguments.data)]
        model = train_model(HERE / "hours.toml", arguments.output / f"{fraction:g}", settings, fraction)
        training = Bundle.load(model).training
        counts = {name: words_wrong(searching(model, search, sets), part) for name, part in sets.items()}
        counts["all"] = sum(counts.values(), ErrorCounts())
        for name, series in points.items():
            series.append((training["hours"], counts[name].rate))
        row = " | ".join(f"{counts[name].rate:.1%}" for name in points)
        print(f"| {training['hours']:.1f} | {epochs} | {training['per']:.1%} | {row} |", flush=True)
    laws = fit_power_laws(points)
    draw_power_laws(arguments.output / "hours.png", points, laws)
    for name, law in laws.items():
        promised = ", ".join(f"{law(hours):.1%} at {hours:,} h" for hours in PROMISED)
        print(f"{name}: {law.tenfold:.0%} fewer errors for ten times the data; {promised}")


def searching(model: Path, search: Bundle, sets: Mapping[str, Sequence[Utterance]]) -> Path:
    """The model with the bundle's language model and pronunciations, its weights tuned."""
    result = model.with_name("searching.safetensors")
    if not result.exists():
        some = [utterance for part in sets.values() for utterance in part][::TUNED_ON]
        borrow_search(model, search, some).save(result)
    return result


def words_wrong(model: Path, utterances: Sequence[Utterance]) -> ErrorCounts:
    return evaluate(Recognizer.load(model), utterances).words


if __name__ == "__main__":
    run_script(main)
