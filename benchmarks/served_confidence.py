"""How good the confidence of words is that comes back from a server, beside that of the same model offline.

    python benchmarks/served_confidence.py [MANIFEST...] [--model digits-streaming] [--every 1]

Starts `ds2 serve` with the model, and sends every nth utterance of the manifests by both protocols: as an upload to
OpenAI's endpoint, and as live sound to Vosk's socket. Prints the words, the share of right ones, the expected
calibration error and the area under ROC. The model must stream; the default manifest is the test set of the
digits recipe.
"""

import argparse
import asyncio
import contextlib
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import soundfile
import websockets
from digits import manifest

from ds2.audio.tensors import read_audio
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.recognition.calibration import area_under_roc, calibration_error
from ds2.recognition.evaluate import right_words
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word

RATE = 16_000  # Hz
PIECE_BYTES = 2 * RATE // 5  # 0.2 s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="*", type=Path)
    parser.add_argument("--model", default="digits-streaming")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    manifests = arguments.manifests or [manifest("test")]
    utterances = [each for path in manifests for each in read_manifest(path)[:: arguments.every]]
    sounds = [pcm16(utterance) for utterance in utterances]
    recognizer = Recognizer.load(arguments.model, "cpu")
    report("offline", utterances, [recognizer.transcribe(wav(data)) for data in sounds])
    with serving(arguments.model) as address:
        report("OpenAI's upload", utterances, [uploaded(address, data) for data in sounds])
        report("Vosk's socket", utterances, asyncio.run(streamed(address, sounds)))


def report(way: str, utterances: list[Utterance], transcripts: list[Transcript]) -> None:
    confidences = [word.confidence for transcript in transcripts for word in transcript.words]
    pairs = zip(utterances, transcripts, strict=True)
    right = [each for utterance, transcript in pairs for each in right_words(utterance.text, transcript)]
    error, area = calibration_error(confidences, right), area_under_roc(confidences, right)
    print(f"{way:16} {len(right)} words, {np.mean(right):.1%} right, calibration error {error:.2%}, area {area:.3f}")


@contextlib.contextmanager
def serving(model: str) -> Iterator[str]:
    """The address, HOST:PORT, of a server that runs meanwhile."""
    command = [sys.executable, "-m", "ds2", "serve", "--model", model, "--port", "0"]
    limits = ["--set", "limits.streams_per_minute=100000"]
    with subprocess.Popen([*command, *limits], stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            ready = next(line for line in server.stderr if '"event": "ready"' in line)
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield json.loads(ready)["url"].removeprefix("http://")
        finally:
            server.terminate()


def pcm16(utterance: Utterance) -> bytes:
    samples, _ = read_audio(utterance.audio_path, RATE, utterance.offset or 0.0, utterance.duration)
    return (samples.clamp(-1, 1) * 32767).numpy().astype("<i2").tobytes()


def wav(data: bytes) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.frombuffer(data, "<i2"), RATE, format="WAV")
    return file.getvalue()


def uploaded(address: str, data: bytes) -> Transcript:
    form = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    answer = httpx.post(
        f"http://{address}/v1/audio/transcriptions", data=form, files={"file": ("a.wav", wav(data))}, timeout=60
    )
    answer.raise_for_status()
    words = [Word(each["word"], each["start"], each["end"], each["confidence"]) for each in answer.json()["words"]]
    return Transcript("", tuple(words), 0.0)


async def streamed(address: str, sounds: list[bytes]) -> list[Transcript]:
    return [await live(address, data) for data in sounds]


async def live(address: str, data: bytes) -> Transcript:
    """The words of all final results of a live stream."""
    replies = []
    async with websockets.connect(f"ws://{address}") as socket:
        await socket.send(json.dumps({"config": {"sample_rate": RATE, "words": True}}))
        for start in range(0, len(data), PIECE_BYTES):
            await socket.send(data[start : start + PIECE_BYTES])
            replies.append(json.loads(await socket.recv()))
        await socket.send('{"eof" : 1}')
        replies.append(json.loads(await socket.recv()))
    found = [each for reply in replies for each in reply.get("result", [])]
    return Transcript("", tuple(Word(each["word"], each["start"], each["end"], each["conf"]) for each in found), 0.0)


if __name__ == "__main__":
    main()
