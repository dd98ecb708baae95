"""Makes `audio/`, the compact copy of the recordings, from their sources; the copy is in the repository.

    python recipes/digits/collect.py --fsdd FSDD --speechocean SO762_TRAIN --noise NOISE

FSDD and SO762_TRAIN are folders with a manifest.jsonl (audio_filepath, duration, text, speaker; `take` for FSDD), NOISE
is a folder of recordings of background noise. espeak-ng and flite must be on PATH. Test recordings of FSDD stay
lossless; the rest is Opus. Each source becomes one file per speaker, and `utterances.jsonl` gives the place of each
utterance in it.
"""

import argparse
import json
import random
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import torch

from ds2.audio.tensors import resample

RATE = 8000  # Hz, FSDD's own
GAP = np.zeros(RATE // 20, np.float32)  # keeps neighbours out of each other's codec frames
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEST_TAKES = range(5)  # FSDD's official test split
ESPEAK_VOICES = [f"{accent}+{variant}" for accent, variant in zip(
    ["en-us", "en-gb", "en-gb-scotland", "en-029", "en-gb-x-rp", "en-gb-x-gbcwmd"] * 4,
    ["m1", "f1", "m3", "f2", "f3", "m7", "f4", "f5", "m2", "m4", "croak", "klatt2",
     "klatt4", "m8", "f1", "f2", "klatt3", "f3", "f4", "m5", "f5", "m6", "f1", "f2"], strict=True)]  # fmt: skip
FLITE_VOICES = ["kal", "awb", "rms", "slt"]
STRINGS_PER_VOICE = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("fsdd", "speechocean", "noise"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "audio")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = fsdd(arguments.fsdd, arguments.output)
    rows += speechocean(arguments.speechocean, arguments.output)
    rows += synthetic(arguments.output)
    noises(arguments.noise, arguments.output)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (arguments.output / "utterances.jsonl").write_text(text)


def fsdd(folder: Path, output: Path) -> list[dict]:
    recordings: dict[tuple[str, str], list] = {}
    for row in manifest(folder):
        split = "test" if row["take"] in TEST_TAKES else "train"
        samples, _ = soundfile.read(folder / row["audio_filepath"], dtype="float32")
        facts = {"text": row["text"], "speaker": row["speaker"], "take": row["take"]}
        recordings.setdefault((row["speaker"], split), []).append((samples, facts))
    rows = []
    for (speaker, split), items in sorted(recordings.items()):
        name = f"fsdd_{speaker}_{split}." + ("flac" if split == "test" else "opus")
        rows += join(items, output, name, {"source": "fsdd"}, quality=0.96)
    return rows


def speechocean(folder: Path, output: Path) -> list[dict]:
    """The utterances that consist of digits only, copied as they are."""
    rows = []
    for row in manifest(folder):
        if set(row["text"].split()) <= set(DIGITS):
            name = "so762_" + Path(row["audio_filepath"]).name
            (output / name).write_bytes((folder / row["audio_filepath"]).read_bytes())
            rows.append({**row, "audio_filepath": name, "source": "speechocean762"})
    return rows


def synthetic(output: Path) -> list[dict]:
    """Connected digits spoken by synthesisers: accents and coarticulation that joined recordings lack."""
    rng = random.Random(1)
    items: dict[str, list] = {}
    for voice in ESPEAK_VOICES + FLITE_VOICES:
        for _ in range(STRINGS_PER_VOICE):
            text = " ".join(rng.choices(DIGITS, k=rng.randint(3, 6)))
            facts = {"text": text, "speaker": voice}
            engine = "flite" if voice in FLITE_VOICES else "espeak"
            items.setdefault(engine, []).append((speak(voice, text, rng), facts))
    return [
        row
        for engine, recordings in items.items()
        for row in join(recordings, output, f"synthetic_{engine}.opus", {"source": "synthetic"}, quality=0.965)
    ]


def speak(voice: str, text: str, rng: random.Random) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/speech.wav"
        if voice in FLITE_VOICES:
            stretch = f"duration_stretch={rng.uniform(0.8, 1.2):.2f}"
            command = ["flite", "-voice", voice, "--setf", stretch, "-t", text, "-o", path]
        else:
            speed, pitch = str(rng.randint(110, 190)), str(rng.randint(25, 90))
            command = ["espeak-ng", "-v", voice, "-s", speed, "-p", pitch, "-w", path, text]
        subprocess.run(command, check=True)
        samples, rate = soundfile.read(path, dtype="float32")
    return trim(resample(torch.from_numpy(samples), rate, RATE).numpy())


def noises(folder: Path, output: Path) -> None:
    """25 s of each recorded noise; the synthetic ones (pink, white) are left to the augmenter."""
    for path in sorted(folder.glob("*.flac")):
        if "pink" not in path.name and "white" not in path.name:
            samples, rate = soundfile.read(path, dtype="float32", frames=25 * soundfile.info(path).samplerate)
            write(
                output / f"noise_{path.stem}.opus",
                resample(torch.from_numpy(samples), rate, RATE).numpy(),
                quality=0.95,
            )


def join(items: list, output: Path, name: str, facts: dict, quality: float) -> list[dict]:
    """Writes (samples, facts) pairs into one file, returns a manifest row for each."""
    rows, parts, position = [], [], 0
    for samples, own in items:
        row = {"audio_filepath": name, "offset": position / RATE, "duration": round(len(samples) / RATE, 6)}
        rows.append({**row, **own, **facts})
        parts += [samples, GAP]
        position += len(samples) + len(GAP)
    write(output / name, np.concatenate(parts), quality)
    return rows


def write(path: Path, samples: np.ndarray, quality: float) -> None:
    if path.suffix == ".flac":
        soundfile.write(path, samples, RATE, subtype="PCM_16")
    else:
        soundfile.write(path, samples, RATE, format="OGG", subtype="OPUS", compression_level=quality)


def trim(samples: np.ndarray) -> np.ndarray:
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return samples[max(0, loud[0] - RATE // 20) : loud[-1] + RATE // 20]


def manifest(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    main()
