"""The engines without torch give what torch's gives: offline, live, and in the slots of a server."""

import functools
import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.live import live_log_probs
from helpers.without_torch import WITHOUT_TORCH

from ds2.bundle import read_record
from ds2.model.config import ModelConfig
from ds2.model.steps import Steps
from ds2.recognition.engine import choose_engine
from ds2.recognition.options import DecoderOptions, EngineName
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError, ParameterError

RECORDINGS = sorted((Path(__file__).parents[2] / "recipes" / "digits" / "audio").glob("so762_0000*.opus"))[:6]
no_onnx = pytest.mark.skipif(
    not (find_spec("onnx") and find_spec("onnxruntime")), reason="onnxruntime is not installed"
)
loaded = functools.cache(Recognizer.load)
every_engine = pytest.mark.parametrize("engine", ["native", pytest.param("onnx", marks=no_onnx)])


@every_engine
@pytest.mark.parametrize("options", [DecoderOptions(), DecoderOptions(beam=0)], ids=["search", "greedy"])
@pytest.mark.parametrize("bundle", ["digits", "english"])
def test_transcripts_are_those_of_torch(engine: EngineName, bundle: str, options: DecoderOptions) -> None:
    """By phones and a language model in english, by a closed vocabulary in digits."""
    ours, torchs = (loaded(bundle, "cpu", options, each) for each in (engine, "torch"))
    for path in RECORDINGS:
        one, other = ours.transcribe(path), torchs.transcribe(path)
        assert one.text == other.text != ""
        assert [word.confidence for word in one.words] == pytest.approx(
            [word.confidence for word in other.words], abs=2e-2
        )


@every_engine
@pytest.mark.parametrize("sizes", [[80000], [1, 79, 80, 161, 4000, 900, 12345], [10], [320, 0, 0]])
@pytest.mark.parametrize("bundle", ["digits-streaming", "english"])
def test_a_stream_gives_what_torchs_gives(engine: EngineName, bundle: str, sizes: list[int]) -> None:
    """However it is cut, also where it is shorter than a window."""
    ours, torchs = (loaded(bundle, "cpu", engine=each) for each in (engine, "torch"))
    samples = (0.1 * np.random.default_rng(0).standard_normal(sum(sizes))).astype(np.float32)
    ends = np.cumsum(sizes)[:-1]
    found = [live_log_probs(recognizer.model, np.split(samples, ends)) for recognizer in (ours, torchs)]
    assert found[0].shape == found[1].shape
    assert np.allclose(found[0], found[1], atol=1e-4)


@every_engine
def test_a_stream_without_sound_is_empty(engine: EngineName) -> None:
    model = Recognizer.load("digits-streaming", "cpu", engine=engine).model
    assert len(live_log_probs(model, [np.zeros(0, np.float32)])) == 0


@every_engine
def test_slots_give_what_torchs_give_in_any_batch(engine: EngineName) -> None:
    generator = np.random.default_rng(0)
    ours, torchs = (
        Recognizer.load("digits-streaming", "cpu", engine=each).model.slots(3) for each in (engine, "torch")
    )
    steps, ages = Steps.of(ours.config), np.zeros(3, np.int64)
    for _ in range(12):
        batch = np.sort(generator.permutation(3)[: generator.integers(1, 4)])
        ages[batch] = np.where(generator.random(len(batch)) < 0.2, 0, ages[batch])  # a new stream in the old slot
        samples = (0.1 * generator.standard_normal((len(batch), steps.samples(steps.frames)))).astype(np.float32)
        lengths = np.full(len(batch), 1 << 40)
        one, other = (each.advance(batch, ages[batch], lengths, samples) for each in (ours, torchs))
        first = np.maximum(0, steps.delay - ages[batch] // steps.stride)
        for row, second, start in zip(one, other, first, strict=True):
            assert np.allclose(row[start:], second[start:], atol=1e-4)
        ages[batch] += steps.frames


@every_engine
def test_a_model_that_cannot_stream_is_refused(engine: EngineName) -> None:
    with pytest.raises(ParameterError, match="bidirectional"):
        Recognizer.load("digits", engine=engine).stream()


def test_auto_is_native_on_a_cpu_but_not_for_what_torch_does_better() -> None:
    english, digits = (ModelConfig.of(read_record(name)) for name in ("english", "digits"))
    assert [choose_engine("auto", config, "cpu") for config in (english, digits)] == ["native", "native"]
    assert choose_engine("auto", english, "cuda") == "torch"
    assert choose_engine("auto", digits, "cpu", "int8") == "torch"
    assert choose_engine("auto", replace(digits, hidden=600), "cpu", "auto") == "torch"


def test_a_precision_of_servers_is_no_one_of_recordings() -> None:
    with pytest.raises(ParameterError, match="precision: 'float16': must be one of float32, int8"):
        Recognizer.load("digits", precision="float16")


@every_engine
def test_precision_is_float32(engine: EngineName) -> None:
    with pytest.raises(InputError, match=f"precision float16: the engine {engine} computes in float32"):
        Recognizer.load("digits-streaming", engine=engine).model.slots(1, "float16")
    for changed in ({"precision": "int8"}, {"device": "cuda"}):
        with pytest.raises(ParameterError, match=f"the engine {engine}"):
            Recognizer.load("digits", engine=engine, **changed)


def test_torch_is_not_imported_where_it_is_installed() -> None:
    """Its import would take longer than all the rest."""
    command = ["transcribe", str(RECORDINGS[0]), "--engine", "native"]
    code = f"from ds2.cli.main import main; main({command!r}); import sys; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[1:] == ["False"]


def test_torchs_compiler_is_not_imported_to_draw_weights() -> None:
    """Its import takes three seconds."""
    load = "import sys; from ds2.recognition.recognizer import Recognizer; Recognizer.load('english', engine='torch')"
    code = f"{load}; print('torch._dynamo' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["False"]


def test_align_eval_and_the_tables_of_data_do_without_torch(tmp_path: Path) -> None:
    """What stands in an image without it."""
    spoken = RECORDINGS[0].with_name("so762_000260033.opus")
    (tmp_path / "text.txt").write_text("three one seven nine\n")
    manifest = tmp_path / "a.jsonl"
    manifest.write_text(
        json.dumps({"audio_filepath": str(spoken), "duration": 2.0, "text": "three one seven nine"}) + "\n"
    )
    for words in (
        ["align", spoken, tmp_path / "text.txt", "--model", "digits", "-o", tmp_path],
        ["eval", manifest, "--model", "digits"],
        ["info", "digits"],
        ["data", "convert", manifest, "-o", tmp_path / "b.jsonl"],
        ["data", "validate", tmp_path / "b.jsonl"],
    ):
        code = f"{WITHOUT_TORCH}\nfrom ds2.cli.main import main; raise SystemExit(main({list(map(str, words))}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr  # 1: something doubtful
        assert "torch" not in done.stderr
        assert done.stdout


@every_engine
def test_torch_is_not_needed(engine: EngineName) -> None:
    """To transcribe by phones with a language model, and live."""
    live = f"Recognizer.load('digits-streaming', engine={engine!r}).stream()"
    code = (
        f"{WITHOUT_TORCH}\nfrom ds2.cli.main import main; "
        f"main(['transcribe', {str(RECORDINGS[0])!r}, '--model', 'english', '--engine', {engine!r}]); "
        f"main(['listen', '--model', 'digits-streaming', '--file', {str(RECORDINGS[1])!r}]); "
        f"from ds2.recognition.recognizer import Recognizer; stream = {live}; "
        "from ds2.audio.files import read_audio_array; "
        f"stream.accept(read_audio_array({str(RECORDINGS[1])!r})[0], 16000); "
        "print(stream.finish()[0].text); import ds2.serve.model_worker"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 3), result.stderr
    assert "torch" not in result.stderr
