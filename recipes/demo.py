"""Transcribes real recordings with the bundled models and compares the texts with their references.

First five English sentences by the default model; they are picked, so their error rate is lower than that of the dev
sets. Then strings of English digits, read by children and adults who are not native speakers, by the model `digits`,
which knows no other words. The models were not trained on these speakers.
"""

import sys
from pathlib import Path

import ds2
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, word_errors

RECIPES = Path(__file__).parent
sys.path.insert(0, str(RECIPES / "digits"))
SHOWN = 12  # strings of digits


def main() -> None:
    from prepare import AUDIO, read_rows, stranger_speakers

    show("english", read_manifest(RECIPES / "english" / "audio" / "manifest.jsonl"), 1, "picked sentences")
    rows = read_rows()
    strangers = stranger_speakers(rows)
    strings = [row for row in rows if row["source"] == "speechocean762" and row["speaker"] in strangers]
    utterances = [Utterance(AUDIO / row["audio_filepath"], row["duration"], row["text"]) for row in strings]
    show("digits", utterances, len(utterances) // SHOWN, "recordings")
    print(f"\nyour own recordings: {Path(sys.executable).with_name('ds2')} transcribe FILE; all commands: ds2 --help")


def show(model: str, utterances: list[Utterance], step: int, kind: str) -> None:
    """Prints every `step`-th recording, its reference above the recognised text, and the error rate of all."""
    print(f"\nmodel {model}", flush=True)
    results = ds2.load(model).transcribe_files(utterance.span for utterance in utterances)
    total = ErrorCounts()
    for number, (utterance, (_, transcript)) in enumerate(zip(utterances, results, strict=True)):
        total += word_errors(utterance.text, transcript.text)
        if number % step == 0:
            print(f"{utterance.audio_path.name:22} {utterance.text}\n{'':22} {transcript.display}")
    print(f"WER {total.rate:.1%} on {len(utterances)} {kind}, {total.reference_length} words, of speakers new to it")


if __name__ == "__main__":
    main()
