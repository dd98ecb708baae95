"""A live stream, in the worker that runs it but without its process: real model, real recordings, any chunking."""

import dataclasses
import itertools
import math
import random
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from helpers.live import arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from serve.conftest import recordings

from ds2.decoder.beam import BeamDecoder
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.torch_engine import TorchSlots
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.serve.dispatch import DispatchConfig
from ds2.serve.messages import (
    Alternatives,
    Close,
    Command,
    End,
    Event,
    Failed,
    Final,
    LeftOut,
    Open,
    Partial,
    Sound,
    StreamConfig,
    StreamEnd,
    WorkerConfig,
)
from ds2.serve.model_worker import Worker, load_setup
from ds2.serve.sample_encodings import decode_samples
from ds2.serve.worker_stream import Setup
from ds2.text import BLANK_TOKEN, Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.model_names import locate


@pytest.fixture(scope="module")
def setup() -> Setup:
    return load_setup(
        WorkerConfig(locate("digits-streaming"), "cpu", DecoderOptions(), "float32", 8, LiveConfig(), DispatchConfig())
    )


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer.load("digits-streaming")


class Clients:
    """What the clients of one worker have received; a step of the clock is 30 ms."""

    def __init__(self, setup: Setup, batch_streams: int = 64):
        self.worker = Worker(setup, DispatchConfig(batch_streams))
        self.finals: dict[int, list[Final]] = {}
        self.partials: dict[int, list[Partial]] = {}
        self.failed: dict[int, str] = {}
        self.ended: list[int] = []
        self.left_out: dict[int, int] = {}
        self.heard: dict[int, float] = {}
        self.now = 0.0

    def tell(self, command: Command) -> None:
        self._take(self.worker.obey(command, self.now))
        self.conclude()

    def work(self) -> bool:
        self.now += 0.03
        batch = self.worker.dispatcher.take(self.now)
        if batch:
            self._take(self.worker.work(batch, self.now).results)
            self.conclude()
        return bool(batch)

    def conclude(self) -> None:
        while self.worker.ended:
            self._take(self.worker.conclude())

    def finish(self) -> None:
        while self.work():
            pass

    def text(self, stream: int) -> str:
        return " ".join(final.transcript.text for final in self.finals.get(stream, []))

    def _take(self, results: list) -> None:
        for result in results:
            self.heard[result.stream] = self.heard.get(result.stream, 0.0) + result.seconds
            for event in result.events:
                if isinstance(event, Final):
                    self.finals.setdefault(result.stream, []).append(event)
                elif isinstance(event, Partial):
                    self.partials.setdefault(result.stream, []).append(event)
                elif isinstance(event, LeftOut):
                    self.left_out[result.stream] = self.left_out.get(result.stream, 0) + event.words
                elif isinstance(event, StreamEnd):
                    self.ended.append(result.stream)
                elif isinstance(event, Failed):
                    self.failed[result.stream] = event.reason


def say(clients: Clients, stream: int, data: bytes, config: StreamConfig, size: int) -> None:
    clients.tell(Open(stream, config))
    for start in range(0, len(data), size):
        clients.tell(Sound(stream, data[start : start + size]))
        clients.work()
    clients.tell(End(stream))
    clients.finish()


def test_words_that_are_hardly_speech_are_counted(setup: Setup) -> None:
    judge = setup.builder.judge
    assert judge is not None
    strict = dataclasses.replace(judge, calibration=dataclasses.replace(judge.calibration, least=1.1))
    builder = dataclasses.replace(setup.builder, judge=strict)
    clients = Clients(dataclasses.replace(setup, builder=builder))
    [(text, samples)] = recordings(1)
    say(clients, 1, samples.tobytes(), StreamConfig(), 1600)
    assert (clients.text(1), clients.left_out, clients.ended) == ("", {1: len(text.split())}, [1])


@pytest.mark.long
@pytest.mark.parametrize("batch_streams", [1, 3, 64])
def test_every_mixture_of_streams_in_every_chunking_gives_the_offline_transcripts(
    setup: Setup, recognizer: Recognizer, batch_streams: int
) -> None:
    """20 streams over 8 slots, cut at random, odd bytes included."""
    clients, generator = Clients(setup, batch_streams), random.Random(0)
    sounds = dict(enumerate(recordings(20)))
    waiting, live = list(sounds), {}
    while waiting or live:
        if waiting and len(live) < 8:
            stream = waiting.pop(0)
            live[stream] = sounds[stream][1].tobytes()
            clients.tell(Open(stream, StreamConfig()))
        for stream in generator.sample(sorted(live), generator.randint(0, len(live))):
            size = generator.choice([1, 7, 640, 3001, 16000])
            if live[stream]:
                clients.tell(Sound(stream, live[stream][:size]))
                live[stream] = live[stream][size:]
            else:
                clients.tell(End(stream))
                del live[stream]
                while stream not in clients.ended:
                    clients.work()
    clients.finish()
    assert clients.failed == {}
    right = 0
    for stream, (text, samples) in sounds.items():
        assert clients.text(stream) == recognizer.transcribe(samples.astype(np.float32) / 32768, 8000).text
        right += clients.text(stream) == text
    assert right >= 18
    assert sorted(clients.worker.free) == list(range(8))


@pytest.mark.long
@settings(max_examples=20)
@given(ours=st.lists(st.integers(1, 9000), min_size=1), theirs=st.lists(st.integers(1, 9000), min_size=1))
def test_listening_gives_what_the_server_gives(
    setup: Setup, recognizer: Recognizer, ours: list[int], theirs: list[int]
) -> None:
    """Utterances with words, times and confidence, of speech with short, long and no pauses, however each gets it."""
    pauses = [np.zeros(size, np.int16) for size in (0, 3000, 8000, 0)]
    said = [samples for _, samples in recordings(4)]
    samples = np.concatenate([part for both in zip(said, pauses, strict=True) for part in both])
    clients, stream = Clients(setup), recognizer.stream()
    clients.tell(Open(0, StreamConfig()))
    for array in arrays(samples, theirs):
        clients.tell(Sound(0, array.tobytes()))
        clients.work()
    clients.tell(End(0))
    clients.finish()
    for array in arrays(samples, ours):
        stream.accept(array, 8000)
    served, heard = [final.transcript for final in clients.finals[0]], stream.finish()
    assert [(each.text, each.words) for each in heard] == [(each.text, each.words) for each in served]
    assert len(heard) > 1


def test_word_times_are_those_of_the_offline_transcript(setup: Setup, recognizer: Recognizer) -> None:
    """Behind pauses that end segments too: seconds from the start of the stream."""
    samples = np.concatenate([np.concatenate([samples, np.zeros(12000, np.int16)]) for _, samples in recordings(3)])
    clients = Clients(setup)
    say(clients, 0, samples.tobytes(), StreamConfig(), 1600)
    assert len(clients.finals[0]) == 3
    words = [word for final in clients.finals[0] for word in final.transcript.words]
    expected = recognizer.transcribe(samples.astype(np.float32) / 32768, 8000).words
    assert [word.text for word in words] == [word.text for word in expected]
    for word, other in zip(words, expected, strict=True):
        assert word.start == pytest.approx(other.start, abs=0.0901)
        assert word.end == pytest.approx(other.end, abs=0.0901)
        assert 0 < word.confidence <= 1


def test_alternatives_are_of_different_texts_and_leave_the_confidence_as_it_is_offline(
    setup: Setup, recognizer: Recognizer
) -> None:
    """Noise makes this string of digits doubtful."""
    [_, _, (text, samples)] = recordings(3)
    noisy = (samples + np.random.default_rng(0).normal(0, 200, len(samples))).astype(np.int16)
    clients = Clients(setup)
    say(clients, 0, noisy.tobytes(), StreamConfig(alternatives=10), 1600)
    [final] = clients.finals[0]
    texts = [transcript.text for transcript, _ in final.alternatives]
    assert texts[0] == text
    assert len(texts) >= 3
    assert len(set(texts)) == len(texts)
    scores = [score for _, score in final.alternatives]
    assert scores == sorted(scores, reverse=True)
    expected = recognizer.transcribe(noisy.astype(np.float32) / 32768, 8000).words
    assert [word.confidence for word in final.transcript.words] == pytest.approx(
        [word.confidence for word in expected], abs=0.01
    )


def test_alternatives_are_made_for_clients_that_ask_for_them(setup: Setup) -> None:
    """Each costs as much as the best text; a client may ask while it speaks."""
    [_, _, (_, samples)] = recordings(3)
    noisy = (samples + np.random.default_rng(0).normal(0, 200, len(samples))).astype(np.int16).tobytes()
    clients = Clients(setup)
    say(clients, 0, noisy, StreamConfig(), 1600)
    assert [len(final.alternatives) for final in clients.finals[0]] == [1]
    clients.tell(Open(1, StreamConfig()))
    clients.tell(Sound(1, noisy[:1600]))
    clients.tell(Alternatives(1, 2))
    clients.tell(Sound(1, noisy[1600:]))
    clients.tell(End(1))
    clients.finish()
    assert [len(final.alternatives) for final in clients.finals[1]] == [2]


def test_final_results_do_not_pile_up(setup: Setup) -> None:
    worker = Worker(setup, DispatchConfig())
    for waiting, due in ((0, 0), (1, 1), (7, 1), (8, 2), (80, 11)):
        worker.ended = deque(range(waiting))
        assert worker.due() == due


def test_no_chunk_waits_for_the_final_results_of_other_streams(setup: Setup) -> None:
    """A batch gives what its chunks give; the final results follow one by one, each before what came after it."""
    worker = Worker(setup, DispatchConfig())
    sound = [(text, samples.tobytes() + bytes(2 * 8000)) for text, samples in recordings(3)]
    for number, (_, data) in enumerate(sound):
        worker.obey(Open(number, StreamConfig()), 0.0)
        worker.obey(Sound(number, data + data), 0.0)
        worker.obey(End(number), 0.0)
    events: dict[int, list[Event]] = {0: [], 1: [], 2: []}
    for now in itertools.count(0.0, 0.3):
        if not (batch := worker.dispatcher.take(now)):
            break
        results = worker.work(batch, now).results
        assert not any(isinstance(event, Final) for result in results for event in result.events)
        for result in results:
            events[result.stream] += result.events
    assert all(isinstance(event, Partial) for found in events.values() for event in found)
    assert sorted(worker.ended) == [0, 1, 2]
    assert worker.due() == 1  # chunks do not wait for all of them
    worker.obey(Close(2), 0.0)  # this client has left
    concluded = []
    while worker.ended:
        for result in worker.conclude():
            concluded.append(result.stream)
            events[result.stream] += result.events
    assert sorted(concluded[:2]) == [0, 1]  # in turn
    for number, (text, _) in enumerate(sound[:2]):
        finals = [event.transcript.text for event in events[number] if isinstance(event, Final)]
        assert " ".join(finals) == f"{text} {text}"
        assert len(finals) > 1
        assert events[number][-1] == StreamEnd(True)
        first = next(place for place, event in enumerate(events[number]) if isinstance(event, Final))
        assert any(isinstance(event, Partial) for event in events[number][first:])  # of the second segment
    assert sorted(worker.free) == list(range(setup.model.slots))


def test_without_endpoints_there_is_one_final_result(setup: Setup) -> None:
    samples = np.concatenate([np.concatenate([samples, np.zeros(12000, np.int16)]) for _, samples in recordings(2)])
    clients = Clients(setup)
    say(clients, 0, samples.tobytes(), StreamConfig(endpoints=False), 1600)
    assert len(clients.finals[0]) == 1


def test_silence_before_a_segment_does_not_make_it_long(setup: Setup) -> None:
    """In a long one the short pauses between these words would be ends."""
    text, samples = next(recordings(1))
    clients = Clients(setup)
    say(clients, 0, bytes(2 * 8000 * 20) + samples.tobytes(), StreamConfig(), 1600)
    assert [final.transcript.text for final in clients.finals[0]] == [text]


def test_a_short_pause_ends_a_long_segment(setup: Setup) -> None:
    spoken = dict(recordings(12))  # 26 s
    clients = Clients(setup)
    say(clients, 0, np.concatenate(list(spoken.values())).tobytes(), StreamConfig(), 1600)
    assert len(clients.finals[0]) > 1


def test_silence_says_nothing(setup: Setup) -> None:
    clients = Clients(setup)
    say(clients, 0, bytes(2 * 8000 * 5), StreamConfig(), 1000)
    assert clients.finals == {}
    assert clients.ended == [0]


def test_partial_results_grow_are_rare_and_tell_what_is_certain(setup: Setup) -> None:
    clients = Clients(setup)
    changes = shown = 0
    for stream, (_, samples) in enumerate(recordings(10)):
        say(clients, stream, samples.tobytes(), StreamConfig(stable=True), 480)
        seen = clients.partials[stream]
        final = clients.finals[stream][0].transcript.text
        for earlier, later in itertools.pairwise(seen):
            shown += 1
            changes += not later.text.startswith(earlier.text)
            assert earlier.text[: earlier.stable] == later.text[: earlier.stable]
        assert all(final.startswith(partial.text[: partial.stable]) for partial in seen)
        assert len(seen) <= len(samples) / 8000 / 0.1 + 1
    assert changes <= 0.1 * shown


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
def test_any_sample_rate(setup: Setup, rate: int) -> None:
    text, samples = next(recordings(1))
    from ds2.audio.tensors import resample

    sound = resample(torch.from_numpy(samples.astype(np.float32) / 32768), 8000, rate)
    clients = Clients(setup)
    say(clients, 0, sound.numpy().tobytes(), StreamConfig(rate, "float32"), 5001)
    assert clients.text(0) == text


def test_mulaw_is_what_libsndfile_makes_of_it(setup: Setup, tmp_path: Path) -> None:
    text, samples = next(recordings(1))
    soundfile.write(tmp_path / "call.wav", samples, 8000, subtype="ULAW")
    expected, _ = soundfile.read(tmp_path / "call.wav", dtype="float32")
    coded = (tmp_path / "call.wav").read_bytes()[-len(samples) - len(samples) % 2 :][: len(samples)]
    assert np.array_equal(decode_samples(coded, "mulaw"), expected)
    clients = Clients(setup)
    say(clients, 0, coded, StreamConfig(8000, "mulaw"), 160)
    assert clients.text(0) == text


def test_a_reset_gives_the_final_result_and_the_stream_goes_on(setup: Setup) -> None:
    (first, sound), (second, more) = recordings(2)
    clients = Clients(setup)
    clients.tell(Open(0, StreamConfig()))
    clients.tell(Sound(0, sound.tobytes()))
    clients.tell(End(0, last=False))
    clients.tell(Sound(0, more.tobytes()))
    clients.tell(End(0, last=False))
    clients.tell(End(0, last=False))  # of nothing
    clients.tell(End(0))
    clients.finish()
    assert clients.ended == [0, 0, 0, 0]
    assert [final.transcript.text for final in clients.finals[0]] == [first, second]
    assert clients.finals[0][1].transcript.words[0].start > len(sound) / 8000


def test_nothing_at_all(setup: Setup) -> None:
    clients = Clients(setup)
    for stream, data in enumerate([b"", b"\0", b"\0\0"]):
        say(clients, stream, data, StreamConfig(), 1)
    assert clients.ended == [0, 1, 2]
    assert clients.finals == {}


def test_streams_that_end_with_nothing_to_hear_leave_their_slots(setup: Setup) -> None:
    """Behind a reset, or without a whole sample, no step of the model follows the end."""
    clients = Clients(setup)
    for stream in range(9):  # one more than there are slots
        clients.tell(Open(stream, StreamConfig()))
        clients.tell(Sound(stream, bytes(1 + 4000 * (stream % 2))))
        clients.tell(End(stream, last=False))
        clients.finish()
        clients.tell(End(stream))
    assert clients.failed == {}
    assert clients.worker.streams == {}


@pytest.mark.parametrize("early", [False, True])
def test_a_model_that_sees_nothing_ahead_ends_with_every_length(early: bool) -> None:
    """With the last frame of a chunk too, which has been heard, or (`early`) waits, when the end comes."""
    layer = ConvolutionConfig(2, (5, 5), (2, 3), lookahead=0)
    config = ModelConfig(
        FrontendConfig(8000, power="adaptive"), (layer,), recurrent_layers=1, hidden=4, bidirectional=False
    )
    model = TorchSlots(AcousticModel(config, 3), 1)
    assert model.steps.delay == 0
    builder = TranscriptBuilder(Tokenizer([BLANK_TOKEN, "a", " "]), config.frame_seconds)
    clients = Clients(Setup(model, BeamDecoder(), builder, LiveConfig()))
    lengths = range(20, 38)
    for frames in lengths:
        clients.tell(Open(frames, StreamConfig()))
        clients.tell(Sound(frames, bytes(2 * model.steps.samples(frames))))
        if not early:
            clients.finish()
        clients.tell(End(frames))
        clients.finish()
    assert clients.ended == list(lengths)


def test_what_was_heard_is_told(setup: Setup) -> None:
    clients = Clients(setup)
    say(clients, 0, bytes(2 * 8000 * 3), StreamConfig(), 1000)
    assert 3.0 <= clients.heard[0] < 4.0


def test_nan_ends_its_stream_alone(setup: Setup) -> None:
    text, samples = next(recordings(1))
    clients = Clients(setup)
    clients.tell(Open(0, StreamConfig()))
    clients.tell(Open(1, StreamConfig(8000, "float32")))
    clients.tell(Sound(1, np.full(4000, math.nan, "<f4").tobytes()))
    say_rest(clients, 0, samples)
    assert clients.text(0) == text
    assert "NaN" in clients.failed[1]


@pytest.mark.parametrize("fault", ["exception", "NaN"])
def test_a_fault_inside_the_step_ends_its_stream_alone(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The model cannot take one of three streams in a batch, or makes NaN of it."""
    sounds = list(recordings(3))
    clients = Clients(setup)
    for stream, (_, samples) in enumerate(sounds):
        clients.tell(Open(stream, StreamConfig()))
        clients.tell(Sound(stream, samples.tobytes()))
    advance = setup.model.advance

    def faulty(slots: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        ill = slots == clients.worker.slots.get(1, -1)
        if fault == "exception" and ill.any():
            raise RuntimeError("out of something")
        return np.where(ill[:, None, None], np.nan, advance(slots, *rest))

    monkeypatch.setattr(setup.model, "advance", faulty)
    for stream in range(3):
        clients.tell(End(stream))
    clients.finish()
    assert [clients.text(stream) for stream in (0, 2)] == [sounds[0][0], sounds[2][0]]
    assert "model" in clients.failed[1]
    clients.tell(Sound(1, bytes(100)))  # the client does not know yet
    assert 1 not in clients.worker.streams


def test_samples_beyond_all_measure_harm_nobody(setup: Setup) -> None:
    text, samples = next(recordings(1))
    clients = Clients(setup)
    clients.tell(Open(0, StreamConfig()))
    clients.tell(Open(1, StreamConfig(8000, "float32")))
    clients.tell(Sound(1, np.full(4000, 3e38, "<f4").tobytes()))
    say_rest(clients, 0, samples)
    assert clients.text(0) == text


def test_a_stream_too_many_and_one_that_nobody_waits_for(setup: Setup) -> None:
    clients = Clients(setup)
    for stream in range(9):
        clients.tell(Open(stream, StreamConfig()))
    assert list(clients.failed) == [8]
    clients.tell(Sound(3, bytes(4000)))
    clients.tell(Close(3))
    assert not clients.work()
    clients.tell(Open(9, StreamConfig()))
    assert 9 in clients.worker.streams


def test_a_stream_that_floods_is_refused(setup: Setup) -> None:
    worker = Worker(setup, DispatchConfig(queue_chunks=3))
    worker.obey(Open(0, StreamConfig()), 0.0)
    [result] = worker.obey(Sound(0, bytes(2 * 8000 * 10)), 0.0)
    assert "faster" in result.events[0].reason  # type: ignore[union-attr]


def test_wrong_settings_of_a_stream_are_named() -> None:
    for config, word in (
        ({"sample_rate": 4000.0}, "4000"),
        ({"sample_rate": math.nan}, "nan"),
        ({"encoding": "x"}, "x"),
    ):
        with pytest.raises(ValueError, match=word):
            StreamConfig(**config)  # type: ignore[arg-type]


def test_infinite_samples_are_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        decode_samples(np.array([0.0, math.inf], "<f4").tobytes(), "float32")


def say_rest(clients: Clients, stream: int, samples: np.ndarray) -> None:
    for start in range(0, len(samples), 800):
        clients.tell(Sound(stream, samples[start : start + 800].tobytes()))
        clients.work()
    clients.tell(End(stream))
    clients.finish()


def test_a_pause_within_a_chunk_ends_a_segment(setup: Setup) -> None:
    """All sound comes at once, and in chunks of 4.8 s, longer than a digit with its pause."""
    clients = Clients(dataclasses.replace(setup, config=LiveConfig(long_chunk_frames=480)))
    [(text, samples)] = recordings(1)
    pause = np.random.default_rng(0).normal(0, 30, 8000).astype(np.int16)
    say(clients, 1, np.concatenate([samples, pause, samples, pause, samples]).tobytes(), StreamConfig(), 1 << 20)
    assert [final.transcript.text for final in clients.finals[1]] == [text] * 3
