"""ds2 adapt: a model learns a voice from recordings without texts."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ds2.cli.options import Device, Files, Model, Output, Settings
from ds2.cli.training import run_training
from ds2.utils.errors import InputError
from ds2.utils.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from ds2.data.utterance import Utterance

EPOCHS = 2  # more of them teach the model its own errors


def adapt_command(
    files: Files,
    output: Output,
    model: Model = DEFAULT_MODEL,
    set_: Settings = (),
    device: Device = "auto",
) -> int:
    """Adapt a model to a voice by recordings without texts.

    It transcribes them, and fine-tunes the model on what it understood: ten minutes of one speaker are enough to begin
    with. Nine of ten words should be right already, or it would learn its errors. Run it again to resume.

    Example: ds2 adapt lectures/ --output runs/lecturer

    Args:
        files: Audio files, folders, patterns such as 'calls/*.wav', or manifests, whose texts are not used.
        output: Folder for transcripts/, heard.jsonl, what is learnt from, and fine-tuned.safetensors, the model to use.
    """
    from ds2.data.manifest import write_manifest
    from ds2.train.fine_tune import check_settings, fine_tuning, save_fine_tuned

    if not files:
        raise InputError("adapt: name at least one audio file or a folder")
    check_settings(set_)
    manifest = output / "heard.jsonl"
    write_manifest(manifest, _understood(files, model, output / "transcripts", device))
    return run_training(
        lambda: fine_tuning(model, manifest, output, (f"epochs={EPOCHS}", *set_)),
        output,
        device,
        lambda _: save_fine_tuned(model, manifest, output),
    )


def _understood(files: Files, model: str, folder: Path, device: str) -> "list[Utterance]":
    """What to learn from; says what was left out."""
    from ds2.curation.own_transcripts import LEAST_RIGHT, mean_confidence, own_transcripts, understood
    from ds2.recognition.options import DecoderOptions
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.recordings import find_recordings, total_seconds
    from ds2.utils.progress import Progress

    recordings = find_recordings(files)
    recognizer = Recognizer.load(model, device, DecoderOptions(punctuate=False))
    with Progress("transcribing", round(total_seconds(recordings)), "s of audio") as progress:
        segments, failed = own_transcripts(recognizer, recordings, folder, progress.step)
    for line in failed:
        print(f"ds2: {line}", file=sys.stderr)
    found = understood(segments)
    if len(found) < 2:
        raise InputError("adapt: too little was understood to learn from; give more recordings")
    if (right := mean_confidence(segments)) < LEAST_RIGHT:
        raise InputError(
            f"adapt: the model hears {right:.0%} of the words right, and would learn its errors; write down what is "
            "said in some minutes, and train on that: ds2 train --fine-tune"
        )
    minutes = sum(each.duration for each in found) / 60
    print(f"ds2: learning from {len(found)} utterances, {minutes:.1f} minutes", file=sys.stderr)
    return found
