"""OpenAI's official Python client against our server."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import soundfile
import torch
from serve.conftest import RunningServer
from starlette.datastructures import FormData, UploadFile

from ds2.audio.tensors import resample
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word
from ds2.serve.admission import Refused
from ds2.serve.messages import Final
from ds2.serve.openai_messages import parse_form, respond


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def wav(samples: np.ndarray, name: str = "said.wav", **options: object) -> tuple[str, bytes]:
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, **{"format": "WAV", **options})
    return name, file.getvalue()


@pytest.fixture
def said(spoken: dict[str, np.ndarray]) -> tuple[str, np.ndarray]:
    return next(iter(spoken.items()))


def test_json(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    answer = client.audio.transcriptions.create(model="whisper-1", file=wav(said[1]))
    assert answer.text == said[0]
    assert answer.usage is not None
    assert answer.usage.type == "duration"
    assert abs(answer.usage.seconds - len(said[1]) / 8000) < 1


def test_verbose_json_with_words(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    answer = client.audio.transcriptions.create(
        model="digits-streaming",
        file=wav(said[1]),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert answer.text == said[0]
    assert answer.words is not None
    assert answer.segments is not None
    assert [word.word for word in answer.words] == said[0].split()
    assert all(0 < word.model_dump()["confidence"] <= 1 for word in answer.words)
    assert " ".join(segment.text for segment in answer.segments) == said[0]
    assert answer.segments[0].start == answer.words[0].start
    assert float(answer.duration) == pytest.approx(len(said[1]) / 8000, abs=0.001)


def test_a_language_that_the_model_does_not_know_is_refused(
    client: openai.OpenAI, said: tuple[str, np.ndarray]
) -> None:
    with pytest.raises(openai.BadRequestError, match=r"de: digits-streaming knows English \(en\) only"):
        client.audio.transcriptions.create(model="whisper-1", file=wav(said[1]), language="de")
    assert client.audio.transcriptions.create(model="whisper-1", file=wav(said[1]), language="en-US").text == said[0]


def test_text_srt_and_vtt(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    def get(form: str) -> str:
        return str(
            client.audio.transcriptions.create(model="digits-streaming", file=wav(said[1]), response_format=form)
        )  # type: ignore

    assert get("text").strip() == said[0]
    assert get("srt").startswith("1\n00:00:00,")
    assert get("vtt").startswith("WEBVTT\n\n00:00:00.")


def test_a_channel_is_heard_alone(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    stereo = np.stack([np.zeros_like(said[1]), said[1]], 1)

    def text(**fields: object) -> str:
        answer = client.audio.transcriptions.create(model="digits-streaming", file=wav(stereo), extra_body=fields)
        return answer.text

    assert (text(channel=1), text(channel=2)) == ("", said[0])
    for channel, reason in ((3, "channel 3 of 2: there is none"), (0, "channel: must be a number from 1 to 99")):
        with pytest.raises(openai.BadRequestError, match=reason):
            text(channel=channel)


def test_hot_words_are_those_of_one_request(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    def words(**fields: object) -> list[str]:
        answer = client.audio.transcriptions.create(model="digits-streaming", file=wav(said[1]), **fields)  # type: ignore
        return answer.text.split()

    digit = said[0].split()[-1]
    assert digit not in words(extra_body={"hot": [f"{digit}=-60", "unheard"]})
    answer = client.audio.transcriptions.create(
        model="digits-streaming", file=wav(said[1]), extra_body={"hot": "nine,unheard"}
    )
    assert answer.model_dump()["warning"].startswith("hot: unheard: unknown to the model, so not found")
    assert words() == words(prompt=f"Say {digit} again, unheard.") == said[0].split()
    with pytest.raises(openai.BadRequestError, match="at most 100 words, got 101"):
        words(extra_body={"hot": ",".join(["nine"] * 101)})
    with pytest.raises(openai.BadRequestError, match="nine=loud: expected WORD"):
        words(extra_body={"hot": "nine=loud"})


def test_a_prompt_lists_words_and_phrases_between_commas() -> None:
    """Of sentences nothing is preferred: their words are too frequent."""
    prompt = "Zürich, New York, spectrogram.\nO'Neill, -, a=9, room 12, He came. She went, and we all were so very glad"
    fields = [("file", UploadFile(io.BytesIO())), ("prompt", prompt), ("hot", "a=2, b")]
    assert parse_form(FormData(fields)).hot == ("a=2", "b", "Zürich", "New York", "spectrogram", "O'Neill")


def test_streaming(client: openai.OpenAI, spoken: dict[str, np.ndarray]) -> None:
    """A delta for each segment, and the whole at the end."""
    whole = np.concatenate([np.concatenate([samples, np.zeros(9000, np.int16)]) for samples in spoken.values()])
    events = list(client.audio.transcriptions.create(model="digits-streaming", file=wav(whole), stream=True))
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert len(deltas) == len(spoken)
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "".join(deltas) == " ".join(spoken)
    assert not hasattr(events[0], "words")


def test_an_upload_has_segments_as_long_as_those_of_a_recording(
    client: openai.OpenAI, spoken: dict[str, np.ndarray]
) -> None:
    """Nobody waits for its first words: at least ten seconds, not those between two pauses."""
    whole = np.concatenate([np.concatenate([samples, np.zeros(9000, np.int16)]) for samples in spoken.values()])
    answer = client.audio.transcriptions.create(
        model="digits-streaming", file=wav(whole), response_format="verbose_json"
    )
    assert answer.text == " ".join(spoken)
    assert answer.segments is not None
    assert len(answer.segments) < len(spoken)


def test_streamed_words_have_times(server: RunningServer, said: tuple[str, np.ndarray]) -> None:
    """Where timestamp_granularities asks for them."""
    fields = {"stream": "true", "timestamp_granularities[]": "word"}
    answer = httpx.post(f"{server.url}/v1/audio/transcriptions", data=fields, files={"file": wav(said[1])}, timeout=100)
    delta = json.loads(answer.text.partition("\n")[0].removeprefix("data: "))
    assert [word["word"] for word in delta["words"]] == said[0].split()
    assert all(0 <= word["start"] < word["end"] <= len(said[1]) / 8000 for word in delta["words"])


@pytest.mark.parametrize(("container", "subtype"), [("FLAC", None), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", None)])
def test_files_that_libsndfile_reads(
    client: openai.OpenAI, said: tuple[str, np.ndarray], container: str, subtype: str | None
) -> None:
    file = wav(said[1], "said.bin", format=container, subtype=subtype)
    assert client.audio.transcriptions.create(model="digits-streaming", file=file).text == said[0]


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("mp4", "aac"), ("adts", "aac")])
def test_what_browsers_and_telephones_record(
    client: openai.OpenAI, said: tuple[str, np.ndarray], container: str, codec: str
) -> None:
    av = pytest.importorskip("av")
    samples = resample(torch.from_numpy(said[1].astype(np.float32) / 32768), 8000, 48000).numpy()
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48000, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = 48000
        resampler = av.AudioResampler(
            format=stream.format, layout="mono", rate=48000, frame_size=stream.frame_size or 1024
        )
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    assert client.audio.transcriptions.create(model="digits-streaming", file=("said", file.getvalue())).text == said[0]


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["digits-streaming"]


def test_a_model_by_its_name(client: openai.OpenAI) -> None:
    assert client.models.retrieve("digits-streaming").id == "digits-streaming"
    with pytest.raises(openai.NotFoundError, match="digits-streaming"):
        client.models.retrieve("whisper-1")


def test_a_model_that_is_not_served_is_refused(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    with pytest.raises(openai.NotFoundError, match="'parrot' is not served here; choose from digits-streaming"):
        client.audio.transcriptions.create(model="parrot", file=wav(said[1]))


def test_paths_and_methods_that_there_are_not(client: openai.OpenAI) -> None:
    for path, status in (("/nothing", 404), ("/audio/transcriptions", 405)):
        with pytest.raises(openai.APIStatusError) as refused:
            client.get(path, cast_to=object)
        assert refused.value.status_code == status
        assert refused.value.type == "invalid_request_error"


def test_samples_far_beyond_full_scale(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="full scale"):
        client.audio.transcriptions.create(
            model="digits-streaming", file=wav(np.full(8000, 1e30, np.float32), subtype="FLOAT")
        )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"no sound at all", "not an audio file"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "not an audio file"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "not an audio file"),
        (b"\x1a\x45\xdf\xa3" + bytes(1000), "damaged"),
        (b"RIFF\xff\xff\xff\x7fWAVEfmt ", "not an audio file"),
    ],
)
def test_what_is_no_sound_is_refused(client: openai.OpenAI, data: bytes, words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        client.audio.transcriptions.create(model="digits-streaming", file=("../../etc/passwd\r\nx-evil: 1", data))
    assert "/etc" not in refused.value.response.text
    assert "x-evil" not in refused.value.response.headers


@pytest.mark.parametrize("rate", [1, 999, 800_000, 2**31 - 1])
def test_a_rate_that_no_sound_has_is_refused(client: openai.OpenAI, said: tuple[str, np.ndarray], rate: int) -> None:
    """A filter for it would take gigabytes."""
    name, data = wav(said[1][:1000])
    data = data[:24] + rate.to_bytes(4, "little") + (2 * rate % 2**32).to_bytes(4, "little") + data[32:]
    with pytest.raises(openai.BadRequestError, match="Hz; sound has 1000 to 768000 Hz"):
        client.audio.transcriptions.create(model="digits-streaming", file=(name, data))


def test_a_cut_off_recording_is_refused(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    name, data = wav(said[1])
    with pytest.raises(openai.BadRequestError, match="cut off"):
        client.audio.transcriptions.create(model="digits-streaming", file=(name, data[: len(data) // 2]))


def test_wrong_fields_are_named(client: openai.OpenAI, said: tuple[str, np.ndarray]) -> None:
    with pytest.raises(openai.BadRequestError, match="response_format") as refused:
        client.audio.transcriptions.create(model="digits-streaming", file=wav(said[1]), response_format="docx")  # type: ignore
    assert refused.value.param == "response_format"
    with pytest.raises(openai.BadRequestError, match="events hold text, no subtitles") as refused:
        client.audio.transcriptions.create(
            model="digits-streaming", file=wav(said[1]), response_format="srt", stream=True
        )  # type: ignore
    assert refused.value.param == "stream"
    with pytest.raises(openai.BadRequestError, match="temperature: must be a number from 0 to 1"):
        client.audio.transcriptions.create(
            model="digits-streaming", file=wav(said[1]), extra_body={"temperature": "warm"}
        )
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.transcriptions.create(model="digits-streaming", file=("said", b"no sound"))
    assert refused.value.param == "file"
    assert refused.value.type == "invalid_request_error"


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "undefined", "utf-16", "x" * 3000])
def test_fields_of_another_encoding_than_utf_8_are_refused(server: RunningServer, charset: str) -> None:
    """Punycode took a square of the time of its length, in which the server answered nobody."""
    body = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\na-' + b"b" * 500_000 + b"\r\n--b--\r\n"
    kind = {"Content-Type": f"multipart/form-data; boundary=b; charset={charset}"}
    answer = httpx.post(f"{server.url}/v1/audio/transcriptions", content=body, headers=kind, timeout=60)
    assert answer.status_code == 400
    assert "send the fields in UTF-8" in answer.text


def test_a_recording_without_a_form_is_refused_with_the_way(server: RunningServer) -> None:
    """curl --data-binary @a.mp3: its bytes were read as fields, of which there were too many."""
    for kind in ("application/x-www-form-urlencoded", "audio/mpeg"):
        address = f"{server.url}/v1/audio/transcriptions"
        answer = httpx.post(address, content=b"&" * 1000, headers={"Content-Type": kind}, timeout=60)
        assert answer.status_code == 400
        assert "curl -F file=@a.mp3" in answer.text


def test_fields_may_name_their_encoding(server: RunningServer) -> None:
    body = '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nüben\r\n--b--\r\n'.encode()
    kind = {"Content-Type": "multipart/form-data; boundary=b; charset=UTF-8"}
    answer = httpx.post(f"{server.url}/v1/audio/transcriptions", content=body, headers=kind, timeout=60)
    assert "file" in answer.text


def test_decompression_bombs_are_refused_before_they_are_decoded(
    server: RunningServer, client: openai.OpenAI, tmp_path: Path
) -> None:
    """An hour of silence in a FLAC of some kilobytes; the server's memory shows that nobody unpacked it."""
    before = memory(server.process.pid)
    path = tmp_path / "bomb.flac"
    with soundfile.SoundFile(path, "w", 8000, 2) as sound:
        for _ in range(61):
            sound.write(np.zeros((8000 * 60, 2), np.int16))
    assert path.stat().st_size < 4 << 20
    with pytest.raises(openai.APIStatusError, match="longer") as refused:
        client.audio.transcriptions.create(model="digits-streaming", file=path)
    assert refused.value.status_code == 413
    assert memory(server.process.pid) < before + 100_000_000


def memory(process: int) -> int:
    """Bytes of a process that lie in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize("format", ["json", "verbose_json"])
def test_a_recording_that_does_not_sound_like_english_has_a_warning(format: str) -> None:
    """Two segments, each too short to tell."""
    form = FormData([("file", UploadFile(io.BytesIO(), filename="a.wav")), ("response_format", format)])
    for confidence, expected in (
        (0.3, "does not sound like English: 30% of the words are likely to be right"),
        (0.9, None),
    ):
        words = tuple(Word("no", float(second), second + 0.5, confidence) for second in range(3))
        transcript = Transcript("no no no", words, 3.0, "english", calibrated=True)
        assert transcript.warning == ""
        answer = json.loads(bytes(respond(parse_form(form), [Final(transcript, (), 0.0)] * 2, 6.0).body))
        assert answer.get("warning") == expected
    answer = json.loads(bytes(respond(parse_form(form), [], 6.0, left_out=39).body))
    assert answer["text"] == ""
    assert answer["warning"].endswith("39 doubtful words were left out")


def test_long_prompts_and_hot_words_take_no_time_of_others() -> None:
    """Of a prompt the beginning is read; a million hot words are refused before they are parted."""
    file = ("file", UploadFile(io.BytesIO()))
    assert parse_form(FormData([file, ("prompt", "New York," + "a" * 990 + ",b," + "c, " * 400_000)])).hot[:2] == (
        "New York",
        "b",
    )
    with pytest.raises(Refused, match="too many for 100 words"):
        parse_form(FormData([file, *[("hot[]", "a," * 500_000)] * 3]))


def test_no_language_is_the_models() -> None:
    """A server of mandarin takes uploads that name none: English was asked for in their place."""
    assert parse_form(FormData([("file", UploadFile(io.BytesIO()))])).language == ""
