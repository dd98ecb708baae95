"""How WER falls with hours of training data, regular and noisy, as in table 10 of the Deep Speech 2 paper.

    python recipes/synthetic/scaling.py --output runs/scaling [--epochs 4]

Trains scaling.toml on 1, 10, 20, 50 and 100 % of the training set; the smaller parts for more epochs, so that all see
about the same number of utterances, up to --longest epochs. Each model is that of the best dev epoch, decoded greedily.
Writes scaling.png and prints the table; finished trainings are not repeated.
"""

import argparse
from pathlib import Path

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import run_script, train_model
from ds2.data.manifest import read_manifest
from ds2.recognition.evaluate import evaluate
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.train.plots import draw_power_laws
from ds2.train.power_law import fit_power_laws
from ds2.utils.extras import need

FRACTIONS = (0.01, 0.1, 0.2, 0.5, 1.0)
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data" / "digits", help="from prepare.py")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=4, help="of the whole training set")
    parser.add_argument("--longest", type=int, default=30, help="epochs of a small part")
    arguments = parser.parse_args()
    need("matplotlib")
    data = arguments.data.absolute()
    sets = {"regular": read_manifest(data / "test.jsonl"), "noisy": read_manifest(data / "test_noisy.jsonl")}
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in sets}
    print("| fraction | hours | epochs | WER regular | WER noisy |\n|---|---|---|---|---|")
    for fraction in FRACTIONS:
        epochs = min(arguments.longest, round(arguments.epochs / fraction))
        settings = [f"epochs={epochs}", f"data.train=['{data}/train.jsonl']", f"data.dev='{data}/dev.jsonl'"]
        bundle = train_model(HERE / "scaling.toml", arguments.output / f"{fraction:g}", settings, fraction)
        recognizer = Recognizer.load(bundle, options=DecoderOptions(beam=0))
        hours = Bundle.load(bundle).training["hours"]
        rates = {name: evaluate(recognizer, utterances).words.rate for name, utterances in sets.items()}
        for name, rate in rates.items():
            points[name].append((hours, rate))
        print(
            f"| {fraction:.0%} | {hours:.2f} | {epochs} | {rates['regular']:.2%} | {rates['noisy']:.2%} |", flush=True
        )
    laws = fit_power_laws(points)
    draw_power_laws(arguments.output / "scaling.png", points, laws)
    for name, law in laws.items():
        print(
            f"{name}: WER = {law.factor:.2%} * hours ** -{law.exponent:.2f}, {law.tenfold:.0%} fewer errors for ten "
            f"times the data; off by {law.residual:.2f} in the logarithm"
        )


if __name__ == "__main__":
    run_script(main)
