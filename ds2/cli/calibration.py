"""ds2 calibrate: fits a model's confidence, and what counts as speech."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ds2.cli.exits import SOME_FAILED
from ds2.cli.noise import absolute_recordings
from ds2.cli.options import NO_DEFAULT, Device, Normalize, OptionalOutput, Paths
from ds2.cli.overwriting import check_bundle_output
from ds2.cli.references import learnable_references, shown_area, warn_of_few
from ds2.utils.errors import InputError

if TYPE_CHECKING:
    from ds2.data.utterance import Utterance
    from ds2.recognition.tune_confidence import Outcome


def calibrate_command(
    manifests: Paths,
    model: Path,
    output: OptionalOutput = None,
    noise: Annotated[tuple[str, ...], NO_DEFAULT] = (),
    normalize: Normalize = None,
    device: Device = "auto",
) -> int:
    """Fit the confidence of words, and suppress words in noise.

    Run it again whenever the model or its decoder changes. ds2 eval measures the confidence.

    Example: ds2 calibrate data/dev.jsonl --model best.safetensors --output calibrated.safetensors

    Args:
        manifests: Utterances that the model was not trained on; at most 0.2 % of the words of each are lost, or one.
        model: Bundle, with the decoder settings that it will be used with.
        output: Bundle to write; by default the file of the model is overwritten.
        noise: Recordings without speech, or folders of them, in addition to synthesised sounds.
    """
    from ds2.bundle import Bundle
    from ds2.data.manifest import read_manifest
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.tune_confidence import NEUTRAL, calibrated, tune_confidence
    from ds2.utils.errors import printable
    from ds2.utils.files import check_writable
    from ds2.utils.progress import Progress

    if not manifests:
        raise InputError("calibrate: name at least one manifest")
    check_bundle_output(output, model)
    check_writable(output or model)
    data_sets, bundle = list(map(read_manifest, manifests)), Bundle.load(model)
    recognizer = Recognizer.from_bundle(calibrated(bundle, NEUTRAL), str(model), device)
    data_sets = [learnable_references(recognizer.tokenizer, each, normalize) for each in data_sets]
    warn_of_few([utterance for each in data_sets for utterance in each])
    with Progress("calibrating", sum(map(len, data_sets)), "utterances") as progress:
        recordings = list(map(Path, absolute_recordings(noise)))
        found = tune_confidence(recognizer, data_sets, recordings, bundle.least_confidence, progress.step)
    calibrated(bundle, found.calibration).save(output or model)
    _print_outcome(manifests, data_sets, found)
    print(f"written into {output or model}")
    for line in found.skipped:
        print(printable(f"ds2: {line}"), file=sys.stderr)
    return SOME_FAILED if found.skipped else 0


def _print_outcome(manifests: Paths, data_sets: "Sequence[Sequence[Utterance]]", found: "Outcome") -> None:
    for manifest, (before, after) in zip(manifests, found.error_rates, strict=True):
        print(f"{manifest}: WER {before:.2%}, with segments below {found.calibration.least:g} dropped {after:.2%}")
    for manifest, utterances, figures in zip(manifests, data_sets, found.unheard, strict=True):
        if figures is not None:
            halved = "speakers" if any(each.speaker for each in utterances) else "utterances"
            print(f"{manifest}: fitted to the other half of the {halved}: ", end="")
            print(f"expected calibration error {figures[0]:.2%}, area under ROC {shown_area(figures[1])}")
    for kind, (before, after) in zip(("synthesised noise", "the recorded noise"), found.noise, strict=False):
        print(f"words a minute of {kind}: {before:.2f}, then {after:.2f}")
