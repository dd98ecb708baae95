"""The deployment form gives what the model gives offline, whatever else is in its batches."""

import dataclasses

import pytest
import torch
from torch import Tensor

from ds2.model.acoustic import AcousticModel
from ds2.model.config import UNENDED, ConvolutionConfig, FrontendConfig, ModelConfig, Precision
from ds2.model.cuda_graphs import GraphedStep
from ds2.model.normalization import STEPS
from ds2.model.slots import SlotModel

BASE = ModelConfig(
    FrontendConfig(8000, power="adaptive"),
    (ConvolutionConfig(4, (11, 9), (2, 3)), ConvolutionConfig(4, (5, 5), (2, 1))),
    recurrent_layers=2,
    hidden=12,
    bidirectional=False,
    lookahead=3,
)
CONFIGS = {
    "gru": BASE,
    "lstm, fully connected": dataclasses.replace(BASE, cell="lstm", fully_connected=10),
    "rnn, no lookahead": dataclasses.replace(BASE, cell="rnn", lookahead=0),
    "bn-lstm": dataclasses.replace(BASE, cell="bn-lstm"),
    "bn-lstm-e": dataclasses.replace(BASE, cell="bn-lstm-e"),
    "strides 2 and 2, causal": dataclasses.replace(
        BASE,
        convolutions=(ConvolutionConfig(4, (11, 5), (2, 2), 0), ConvolutionConfig(4, (5, 7), (2, 2), 1)),
    ),
    "1-D, stride 4": dataclasses.replace(BASE, convolutions=(ConvolutionConfig(8, (0, 11), (1, 4)),)),
    "chunks": dataclasses.replace(BASE, bidirectional=True, chunk=4),
    "chunks, lstm": dataclasses.replace(BASE, bidirectional=True, chunk=4, cell="lstm", lookahead=0),
    "time delays": dataclasses.replace(
        BASE,
        frontend=FrontendConfig(8000, power="adaptive", mean="adaptive", mel_bins=20),
        convolutions=(
            *BASE.convolutions,
            ConvolutionConfig(8, (0, 1), (1, 1)),
            ConvolutionConfig(8, (1, 3), (1, 1), bottleneck=4, bypass=0.66),
            ConvolutionConfig(8, (1, 5), (1, 1), lookahead=1, bottleneck=3),
        ),
        recurrent_layers=0,
    ),
    "gates": dataclasses.replace(
        BASE,
        convolutions=(
            BASE.convolutions[0],
            ConvolutionConfig(8, (0, 5), (1, 2), gate=3),
            ConvolutionConfig(8, (1, 3), (1, 1), bottleneck=4, bypass=0.66),
            ConvolutionConfig(8, (1, 5), (1, 1), lookahead=1, bottleneck=3, bypass=0.66, gate=2),
        ),
        recurrent_layers=0,
    ),
    "kernel of one frame, no BN": dataclasses.replace(
        BASE, convolutions=(ConvolutionConfig(4, (5, 1), (2, 1)),), batch_norm=False
    ),
}


def made(config: ModelConfig) -> AcousticModel:
    """A deployed model whose statistics are not the initial ones."""
    torch.manual_seed(0)
    model = AcousticModel(config, 6)
    for name, weight in model.named_parameters():
        if name.startswith(("gates.", "biphones.")):  # their last layers begin with zeros
            torch.nn.init.normal_(weight)
    model.frontend.set_prior(0.05)
    model.train()(torch.randn(4, 8000), torch.tensor([8000, 7000, 5000, 300]))
    return model.eval()


def offline(model: AcousticModel, samples: Tensor) -> Tensor:
    with torch.no_grad():
        return model(samples.unsqueeze(0), torch.tensor([len(samples)]))[0][0]


class Feeder:
    """One stream in a slot: cuts its samples into chunks and gathers its log_probs."""

    def __init__(self, model: SlotModel, slot: int, samples: Tensor):
        self.model, self.slot, self.samples = model, slot, samples
        self.length = max(1, (len(samples) - 160) // 80 + 1)
        self.position, self.rows = 0, torch.zeros(0, 6 + 7 + 36 * bool(model.config.biphones) if model.phones else 6)

    def next(self, frames: int) -> tuple[int, int, int, Tensor]:
        """Slot, position, length and samples of the next chunk; the length is told when the last sound is in it."""
        size = self.model.steps.samples(frames)
        sound = self.samples[self.position * 80 : self.position * 80 + size]
        ended = self.position + frames >= self.length
        self.position += frames
        padded = torch.nn.functional.pad(sound, (0, size - len(sound)))
        return self.slot, self.position - frames, self.length if ended else UNENDED, padded

    @property
    def done(self) -> bool:
        steps = self.model.steps
        return self.position >= (steps.outputs(self.length) + steps.delay) * steps.stride

    @property
    def log_probs(self) -> Tensor:
        steps = self.model.steps
        return self.rows[steps.delay : steps.delay + steps.outputs(self.length)]


def step(model: SlotModel, feeders: list[Feeder], frames: int) -> None:
    slots, positions, lengths, samples = zip(*(feeder.next(frames) for feeder in feeders), strict=True)
    numbers = (torch.tensor(values) for values in (slots, positions, lengths))
    for feeder, rows in zip(feeders, model.step(*numbers, torch.stack(samples)), strict=True):
        feeder.rows = torch.cat([feeder.rows, rows])


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("samples", [1, 159, 160, 161, 1000, 1040, 4321])
def test_alone_it_is_the_offline_model(config: ModelConfig, samples: int) -> None:
    model = made(config)
    sound = torch.randn(samples, generator=torch.Generator().manual_seed(samples))
    feeder = Feeder(SlotModel(model, 3), 1, sound)
    while not feeder.done:
        step(feeder.model, [feeder], 12)
    expected = offline(model, sound)
    assert feeder.log_probs.shape == expected.shape
    assert torch.allclose(feeder.log_probs, expected, atol=1e-5)


@pytest.mark.parametrize("frames", [3, 6, 24])
def test_a_model_in_chunks_takes_nothing_else(frames: int) -> None:
    model = SlotModel(made(CONFIGS["chunks"]), 2)
    with pytest.raises(ValueError, match="chunks of 12 frames"):
        step(model, [Feeder(model, 1, torch.randn(4000))], frames)


@pytest.mark.parametrize("samples", [1, 700, 1000, 1900, 4321])
def test_the_last_chunk_may_be_shorter(samples: int) -> None:
    model, sound = made(CONFIGS["chunks, lstm"]), torch.randn(samples)
    feeder = Feeder(SlotModel(model, 2), 1, sound)
    while not feeder.done:
        left = (feeder.model.steps.outputs(feeder.length) + feeder.model.steps.delay) * 3 - feeder.position
        step(feeder.model, [feeder], min(12, left))
    torch.testing.assert_close(feeder.log_probs, offline(model, sound), atol=1e-5, rtol=0)


def test_a_bn_lstm_beyond_the_last_step_with_statistics_of_its_own() -> None:
    sound = torch.randn(3 * 80 * (STEPS + 20))
    model = made(CONFIGS["bn-lstm"])
    feeder = Feeder(SlotModel(model, 2), 1, sound)
    while not feeder.done:
        step(feeder.model, [feeder], 48)
    assert torch.allclose(feeder.log_probs, offline(model, sound), atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("biphones", [0, 2])
@pytest.mark.parametrize("fully_connected", [0, 10])
def test_phones_and_biphones_follow_the_tokens(fully_connected: int, biphones: int, precision: Precision) -> None:
    """In int8 the fully connected layer has code of its own; layers as small as these stay in float32."""
    config = dataclasses.replace(BASE, phones=7, biphones=biphones, fully_connected=fully_connected)
    model, sound = made(config), torch.randn(4321)
    feeder = Feeder(SlotModel(model, 3, precision, phones=True), 1, sound)
    while not feeder.done:
        step(feeder.model, [feeder], 12)
    with torch.no_grad():
        expected, _ = model.all_log_probs(sound.unsqueeze(0), torch.tensor([len(sound)]))
    assert torch.allclose(feeder.log_probs, expected[0], atol=1e-5)


@pytest.mark.parametrize("config", [BASE, CONFIGS["gates"]], ids=["recurrent", "gates"])
def test_streams_of_any_age_in_any_mixture_of_chunks(config: ModelConfig) -> None:
    """Slots are taken over, in random batches, with chunks of one stride or more."""
    model, generator = made(config), torch.Generator().manual_seed(0)
    slots = SlotModel(model, 5)
    waiting = [torch.randn(500 * number + 200, generator=generator) for number in range(1, 16)]
    feeders: list[Feeder] = []
    while waiting or feeders:
        while waiting and len(feeders) < 5:
            free = (set(range(5)) - {feeder.slot for feeder in feeders}).pop()
            feeders.append(Feeder(slots, free, waiting.pop(0)))
        frames = [config.stride, 12, 48][int(torch.randint(3, (), generator=generator))]
        order = torch.randperm(len(feeders), generator=generator)[: int(torch.randint(1, 6, (), generator=generator))]
        step(slots, [feeders[index] for index in order], frames)
        for feeder in [feeder for feeder in feeders if feeder.done]:
            assert torch.allclose(feeder.log_probs, offline(model, feeder.samples), atol=1e-5)
            feeders.remove(feeder)


def test_nan_stays_in_its_stream_and_leaves_its_slot_clean() -> None:
    model = made(BASE)
    slots = SlotModel(model, 2)
    good, bad = Feeder(slots, 0, torch.randn(3000)), Feeder(slots, 1, torch.full((3000,), torch.nan))
    for _ in range(2):
        step(slots, [good, bad], 12)
    assert bad.rows.isnan().any()
    bad = Feeder(slots, 1, torch.randn(2000))
    while not (good.done and bad.done):
        step(slots, [feeder for feeder in (good, bad) if not feeder.done], 12)
    for feeder in (good, bad):
        assert torch.allclose(feeder.log_probs, offline(model, feeder.samples), atol=1e-5)


def test_a_step_that_fails_moves_nothing() -> None:
    """It fails in the last layer; taken again it gives what it would have given."""
    model = made(BASE)
    slots = SlotModel(model, 1)
    feeder = Feeder(slots, 0, torch.randn(4000))
    step(slots, [feeder], 12)
    slot, position, length, samples = feeder.next(12)
    arguments = (torch.tensor([slot]), torch.tensor([position]), torch.tensor([length]), samples.unsqueeze(0))
    bias = model.output.bias
    model.output.bias = torch.nn.Parameter(torch.zeros(5))
    with pytest.raises(RuntimeError):
        slots.step(*arguments)
    model.output.bias = bias
    feeder.rows = torch.cat([feeder.rows, slots.step(*arguments)[0]])
    while not feeder.done:
        step(slots, [feeder], 12)
    assert torch.allclose(feeder.log_probs, offline(model, feeder.samples), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bidirectional": True}, "bidirectional"),
        ({"bidirectional": True, "chunk": 80}, "chunk of 2.40 s is too long"),
        ({"frontend": FrontendConfig(8000)}, "adaptive"),
        ({"random_walk": 2}, "random walk"),
    ],
)
def test_models_that_cannot_stream_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SlotModel(AcousticModel(dataclasses.replace(BASE, **change), 6), 1)


def test_half_precision_weights_change_little() -> None:
    model = made(BASE)
    sound = torch.randn(4000)
    feeder = Feeder(SlotModel(model, 1, "bfloat16"), 0, sound)
    while not feeder.done:
        step(feeder.model, [feeder], 12)
    error = (feeder.log_probs - offline(model, sound)).abs().max()
    assert 0 < error < 0.05


def test_the_short_last_chunk_of_a_fixed_chunk_needs_no_graph() -> None:
    """Nor a GPU, therefore."""
    plain, graphed = (SlotModel(made(CONFIGS["chunks"]), 2) for _ in range(2))
    numbers, frames = torch.arange(1), plain.steps.whole_frames - plain.steps.stride
    chunk = torch.randn(1, plain.steps.samples(frames))
    arguments = numbers, torch.full_like(numbers, 5 * plain.steps.whole_frames), torch.ones_like(numbers), chunk
    assert torch.equal(GraphedStep(graphed)(*arguments), plain.step(*arguments))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_graphs_give_what_the_step_gives() -> None:
    model = made(BASE).cuda()
    plain, slots = SlotModel(model, 5), SlotModel(model, 5)
    graphed = GraphedStep(slots)
    samples = torch.randn(5, 60 * 80, device="cuda")
    for number in range(4):
        numbers = torch.arange(5, device="cuda")[: 5 - number]
        positions = torch.full_like(numbers, 12 * number)
        chunk = samples[: len(numbers), 960 * number : 960 * number + plain.steps.samples(12)]
        arguments = (numbers, positions, torch.full_like(numbers, UNENDED), chunk)
        assert torch.allclose(graphed(*arguments), plain.step(*arguments), atol=1e-5)
