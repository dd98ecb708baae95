"""Several models in one server, chosen by name."""

import asyncio
import json
import shutil
import urllib.request
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import websockets
from serve.conftest import RunningServer
from serve.test_openai_routes import wav
from serve.test_websocket_session import close_code, lock_step, text_of

from ds2.bundle import read_record
from ds2.cli.main import main
from ds2.model_record import LanguageModelPart, Record
from ds2.serve.application import Application
from ds2.serve.config import ServeConfig
from ds2.serve.models import Models
from ds2.serve.openai_messages import FORMATS
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.model_names import locate


def test_names_are_found_and_unknown_ones_refused() -> None:
    models = Models([Path("a.safetensors"), Path("b.safetensors")])
    assert [models.find(name) for name in ("", "whisper-1", "a", "b")] == ["a", "a", "a", "b"]
    with pytest.raises(ParameterError, match="'c' is not served here; choose from a, b"):
        models.find("c")
    with pytest.raises(InputError, match="names must differ"):
        Models([Path("a.safetensors"), Path("x/a.safetensors")])


def test_the_specification_names_what_is_served() -> None:
    served = {route.path for route in Application(ServeConfig(), Path("a.safetensors")).routes()}  # type: ignore[attr-defined]
    written = json.loads((resources.files("ds2.serve") / "page" / "openapi.json").read_text())
    assert {path for path in served if path.startswith("/v1")} <= set(written["paths"]) <= served
    fields = written["paths"]["/v1/audio/transcriptions"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert fields["schema"]["properties"]["response_format"]["enum"] == list(FORMATS)


def test_what_a_model_knows() -> None:
    assert read_record("digits").knows.startswith("10 words and no other: eight five")
    assert read_record("english").knows == "100,000 words"
    lettered = Record(config={}, tokens=[], language_model=LanguageModelPart(1, ["a", "b"]))
    assert lettered.knows == "words of any kind, 2 of them by its language model"
    assert Record(config={}, tokens=[]).knows == "words of any kind, spelt as they sound"


def test_an_exported_model_answers(
    start: Callable[..., RunningServer], spoken: dict[str, np.ndarray], tmp_path: Path
) -> None:
    assert main(["export", "digits-streaming", "--output", str(tmp_path), "--format", "onnx"]) == 0
    server = start("--model", str(tmp_path / "model.onnx"))
    text, samples = next(iter(spoken.items()))
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        assert client.audio.transcriptions.create(model="model", file=wav(samples)).text == text


def test_both_models_answer(start: Callable[..., RunningServer], spoken: dict[str, np.ndarray], tmp_path: Path) -> None:
    shutil.copy(locate("digits-streaming"), tmp_path / "other.safetensors")
    server = start("--set", f'models=["{tmp_path}/other.safetensors"]')
    (tmp_path / "other.safetensors").unlink()  # what a model knows was read when it was loaded
    text, samples = next(iter(spoken.items()))
    listing = json.loads(urllib.request.urlopen(f"{server.url}/v1/models").read())["data"]
    assert [model["id"] for model in listing] == ["digits-streaming", "other"]
    assert listing[1]["knows"].startswith("10 words and no other: ")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        assert client.audio.transcriptions.create(model="other", file=wav(samples)).text == text

    async def talk(config: dict[str, Any]) -> Any:
        async with websockets.connect(server.live) as socket:
            await socket.send(json.dumps({"config": config}))
            if config["model"] == "parrot":
                return await close_code(socket)
            return text_of(await lock_step(socket, samples))

    assert asyncio.run(talk({"model": "other"})) == text
    code, reason = asyncio.run(talk({"model": "parrot"}))
    assert code == 1007
    assert "choose from digits-streaming, other" in reason
