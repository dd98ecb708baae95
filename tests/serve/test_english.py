"""The default model of the server hears English sentences live, and writes what it writes in Python."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import websockets
from serve.conftest import RunningServer
from serve.test_websocket_session import lock_step, text_of

import ds2
from ds2.audio.tensors import read_audio
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.utils.model_names import DEFAULT_MODEL

ENGLISH = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "manifest.jsonl"


def samples_of(utterance: Utterance) -> np.ndarray:
    return read_audio(utterance.audio_path, 16000)[0].numpy()


def test_sentences_come_live(start: Callable[..., RunningServer]) -> None:
    server = start(environment={"DS2_SERVE_MODEL": DEFAULT_MODEL})
    recognizer = ds2.load(DEFAULT_MODEL, "cpu")

    async def said(samples: np.ndarray, hot: Sequence[str] = ()) -> str:
        async with websockets.connect(server.live) as socket:
            await socket.send(json.dumps({"config": {"sample_rate": 16000, "hot": hot}}))
            replies = await lock_step(socket, (samples * 32767).astype(np.int16), 3200)
        assert any(reply.get("partial") for reply in replies)
        assert replies[-1]["result"][-1]["display"][-1] in ".?"
        shown = " ".join(word["display"] for reply in replies for word in reply.get("result", ()))
        assert all(word in shown for word in hot)
        return text_of(replies)

    def uploaded(utterance: Utterance, *hot: str) -> dict[str, Any]:
        fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word", "hot": ",".join(hot)}
        files = {"file": (utterance.audio_path.name, utterance.audio_path.read_bytes())}
        answer = httpx.post(f"{server.url}/v1/audio/transcriptions", data=fields, files=files, timeout=100)
        return dict(answer.json())

    for utterance in read_manifest(ENGLISH)[:2]:
        samples = samples_of(utterance)
        words = asyncio.run(said(samples)).split()
        assert len(set(words) & set(utterance.text.split())) >= 5
        stream = recognizer.stream()
        for array in np.split(samples, range(1600, len(samples), 1600)):
            stream.accept(array, 16000)
        spoken = [word for transcript in stream.finish() for word in transcript.text.split()]
        assert len(set(spoken) & set(words)) >= 0.8 * len(set(words))
        answer = uploaded(utterance)
        assert answer["text"] == " ".join(word["display"] for word in answer["words"])
        assert answer["text"][0].isupper()
        assert answer["text"][-1] in ".?"
        assert all(word["word"].islower() for word in answer["words"])
        # Hot words are written as each request writes them.
        typed = max(set(words) & set(spoken), key=len).upper()
        assert typed in uploaded(utterance, typed)["text"]
        asyncio.run(said(samples, [typed]))
