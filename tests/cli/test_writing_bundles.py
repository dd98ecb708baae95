"""Every command that writes a bundle: what is not its business survives, byte for byte."""

import ast
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.data.phone_sets import CMUDICT
from ds2.decoder.config import BeamConfig
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.model_record import PunctuationPart
from ds2.recognition.bundled_search import bundled_pronunciations, with_decoder
from ds2.recognition.punctuation import shapes
from ds2.recognition.tune_decoder import candidate_bundle

ROOT = Path(__file__).parents[2]
QUICK = ("--set", "epochs=1", "--set", "data.workers=0", "--set", "observe=0", "--device", "cpu")
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A bundle with all that a bundle can hold: it knows phones and has a closed vocabulary, a language model,
    pronunciations, a decoder, a calibration and punctuation."""
    bundle = Bundle.load("digits-streaming")
    generator = torch.Generator().manual_seed(1)
    layer = {"phone_output.weight": torch.randn(len(CMUDICT.tokens), bundle.config["hidden"], generator=generator)}
    layer["phone_output.bias"] = torch.zeros(len(CMUDICT.tokens))
    config = {**bundle.config, "phones": len(CMUDICT.tokens)}
    tagger = {name: torch.randn(shape, generator=generator).half() for name, shape in shapes(2, 4, 3, 2).items()}
    bundle = dataclasses.replace(
        bundle,
        weights=bundle.weights | layer,
        config=config,
        punctuation=PunctuationPart(["zero", "one"], {"comma": 0.5}, 7, tagger),
        more={"of a later version": [1, {"a": 2.5}]},
    )
    lm = NGram.from_orders(*estimate([[word] for word in WORDS], EstimateConfig(1)))
    spoken = Pronunciations.of({word: [(2 + number, 20), (30 + number,)] for number, word in enumerate(WORDS)})
    with_decoder(bundle, BeamConfig(24, lm_weight=0.3, closed=True), lm, spoken).save(tmp_path / "whole.safetensors")
    return tmp_path / "whole.safetensors"


def parts(path: Path) -> dict[str, bytes]:
    """All values of the metadata and all tensors of a bundle, by their names in the file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = json.loads(header.pop("__metadata__")["ds2"])
    found = {f"metadata {name}": json.dumps(value).encode() for name, value in metadata.items()}
    for name, tensor in header.items():
        begin, end = tensor.pop("data_offsets")
        found[name] = json.dumps(tensor).encode() + data[8 + size + begin : 8 + size + end]
    return found


def is_network(name: str) -> bool:
    return not name.startswith(("metadata ", "language_model/", "punctuation/"))


def tune_decoder(bundle: Path, manifest: Path, output: Path) -> None:
    assert main(["tune-decoder", str(manifest), "--model", str(bundle), "--output", str(output)]) == 0


def calibrate(bundle: Path, manifest: Path, output: Path) -> None:
    assert main(["calibrate", str(manifest), "--model", str(bundle), "--output", str(output)]) == 0


def average(bundle: Path, manifest: Path, output: Path) -> None:
    """With a bundle of other weights, which holds nothing else."""
    loaded, other = Bundle.load(bundle), output.with_name("other.safetensors")
    weights = {name: tensor + 1 for name, tensor in loaded.weights.items()}
    Bundle(weights=weights, config=loaded.config, tokens=loaded.tokens, training=loaded.training).save(other)
    assert main(["average", str(bundle), str(other), "--output", str(output)]) == 0


def fine_tune(bundle: Path, manifest: Path, output: Path) -> None:
    folder = output.with_name("run")
    assert main(["train", "--fine-tune", str(bundle), str(manifest), "--output", str(folder), *QUICK]) == 0
    (folder / "fine-tuned.safetensors").rename(output)


def halve(bundle: Path, manifest: Path, output: Path) -> None:
    subprocess.run([sys.executable, ROOT / "recipes/speechocean762/halve.py", bundle, output], check=True)


def add_punctuation(bundle: Path, manifest: Path, output: Path) -> None:
    source = Bundle.load(bundle)
    assert source.punctuation is not None
    arrays = {name: tensor + 1 for name, tensor in source.punctuation.arrays.items()}
    tagger = dataclasses.replace(source, punctuation=dataclasses.replace(source.punctuation, arrays=arrays))
    tagger.save(output.with_name("tagger.safetensors"))
    output.write_bytes(bundle.read_bytes())
    command = [sys.executable, ROOT / "recipes/english/punctuation.py", "add", output.with_name("tagger.safetensors")]
    subprocess.run([*command, output], check=True)


def save_again(bundle: Path, manifest: Path, output: Path) -> None:
    Bundle.load(bundle).save(output)
    assert output.read_bytes() == bundle.read_bytes()


TRAINED = ("metadata config", "metadata training")


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (tune_decoder, lambda name: name in ("metadata decoder", "phone_output.bias")),
        (calibrate, lambda name: name == "metadata confidence"),
        (average, lambda name: is_network(name) or name == "metadata training"),
        (fine_tune, lambda name: is_network(name) or name in (*TRAINED, "metadata vocabulary")),
        (halve, is_network),
        (add_punctuation, lambda name: name.startswith("punctuation/")),
        (save_again, lambda name: False),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_command_changes_its_own_part_alone(
    command: Callable[[Path, Path, Path], None],
    own: Callable[[str], bool],
    whole: Path,
    spoken_digits: Callable[[int], Path],
    tmp_path: Path,
) -> None:
    before, output = parts(whole), tmp_path / "output.safetensors"
    command(whole, spoken_digits(12), output)
    after = parts(output)
    assert after.keys() == before.keys()
    changed = {name for name, value in before.items() if after[name] != value}
    assert {name for name in changed if not own(name)} == set()
    assert changed or command is save_again


def test_pronunciations_survive_another_language_model(whole: Path) -> None:
    """Those of its words are the bundle's."""
    bundle, lm = Bundle.load(whole), NGram.from_orders(*estimate([["seven"], ["one"]], EstimateConfig(1)))
    found = bundled_pronunciations(candidate_bundle(bundle, lm, None))
    before = bundled_pronunciations(bundle)
    assert found is not None
    assert before is not None
    assert found.to_dict() == {word: before.to_dict()[word] for word in ("one", "seven")}


def test_only_a_new_model_is_a_new_bundle() -> None:
    """All others change one by `replace`, which loses nothing."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("ds2", "recipes", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Bundle"
    }
    assert found == {"ds2/train/run_folder.py", "recipes/english/neural_lm.py", "recipes/english/punctuation.py"}
