"""A model's configuration and the constants of its definition. It imports no torch, because every engine reads it."""

import math
from dataclasses import dataclass, field
from typing import Literal

from ds2.model.cells import CELLS, Cell, CellSpec
from ds2.model.presets import PRESETS
from ds2.model_record import Record
from ds2.utils.config import from_dict, require

Precision = Literal["auto", "float32", "bfloat16", "float16", "int8"]  # of the recurrent weights of a deployed model
UNENDED = 1 << 40  # front-end frames: the length of a stream whose end is not known yet

LEAST_WEIGHTS = 1 << 18  # of a matrix that is faster in int8; a smaller one is as fast in float32

LONGEST_CHUNK = 1.0  # seconds of sound that a live stream waits for

CLIP = 20.0  # of the clipped ReLU
EPSILON = 1e-5  # of batch normalisation
POWER_FLOOR = 1e-5  # of the mean power of the utterance (-50 dB): what lies below is codec and converter noise
SILENCE = 1e-5  # RMS below which samples are not normalised: 16-bit rounding alone has 9e-6
GATE_FRAMES = 16  # weight of the expected mean of a gate's channels, in output frames
PRIOR_SECONDS = 1.0  # adaptive normalisation: weight of the training set's power, as seconds of the stream


@dataclass(frozen=True)
class FrontendConfig:
    """The spectrogram."""

    sample_rate: int = 16000  # Hz
    window: float = 0.020  # seconds
    hop: float = 0.010  # seconds
    mel_bins: int = 0  # bands of the mel scale in place of the linear bins; 0: linear bins
    # what is subtracted from each bin: its mean over the training set, over the utterance, or over the utterance so far
    mean: Literal["training", "utterance", "adaptive"] = "training"
    power: Literal["utterance", "adaptive"] = "utterance"  # that normalises; adaptive: of the samples so far

    def __post_init__(self) -> None:
        require(self, "0 or more", lambda bins: bins >= 0, "mel_bins")
        if self.window_samples < 3 or self.hop_samples < 1:  # a Hann window begins and ends with 0
            sizes = f"window = {self.window} must be 3 samples at least and hop = {self.hop} one"
            raise ValueError(f"{sizes}, at sample_rate = {self.sample_rate}")

    @property
    def window_samples(self) -> int:
        """The window in samples."""
        return round(self.window * self.sample_rate)

    @property
    def hop_samples(self) -> int:
        """The hop in samples."""
        return round(self.hop * self.sample_rate)

    @property
    def hop_seconds(self) -> float:
        """The hop, in whole samples."""
        return self.hop_samples / self.sample_rate

    @property
    def fft_samples(self) -> int:
        """Length of the Fourier transform: of the window, or the next power of two for the mel scale."""
        return 1 << (self.window_samples - 1).bit_length() if self.mel_bins else self.window_samples

    @property
    def linear_bins(self) -> int:
        """Linear frequency bins from 0 Hz to half the sample rate (161 at 16 kHz)."""
        return self.fft_samples // 2 + 1

    @property
    def bins(self) -> int:
        """F: bins of the features."""
        return self.mel_bins or self.linear_bins


@dataclass(frozen=True)
class ConvolutionConfig:
    """One layer; pairs are (frequency, time), in bins and frames.

    The paper's: 2-D (41, 11) / (2, 2) / 32, then (21, 11) / (2, 1) / 32, then the same with 96 channels; 1-D (0, 11) /
    (1, 2) / 1280.
    """

    channels: int = 32  # of its output
    kernel: tuple[int, int] = (41, 11)  # odd, so that "same" padding is symmetric; frequency 0: all bins at once (1-D)
    stride: tuple[int, int] = (2, 2)  # between two places of the kernel; the product in time gives the output frame
    lookahead: int | None = None  # frames after the present one that the kernel sees; None: as many as before it
    bottleneck: int = 0  # channels between the two factors of a time-delay layer over all bins; 0: not factored
    bypass: float = 0.0  # weight of the input that a time-delay layer adds to its output
    gate: int = 0  # units of the gate that scales each channel by its mean over the utterance so far; 0: no gate

    def __post_init__(self) -> None:
        if not all(size % 2 or (size == 0 and axis == 0) for axis, size in enumerate(self.kernel)):
            raise ValueError(f"kernel {self.kernel} must be odd in frequency (or 0: all bins) and time")
        if self.channels < 1 or min(self.stride) < 1:
            raise ValueError(f"channels {self.channels} and stride {self.stride} must be at least 1")
        if self.kernel[1] < self.stride[1]:  # frames between two places of the kernel would be lost
            raise ValueError(f"kernel {self.kernel} must be as long in time as stride {self.stride} at least")
        if self.bottleneck and (self.kernel[0] != 1 or self.stride != (1, 1)):
            raise ValueError(
                "bottleneck is for layers of kernel (1, k) and stride (1, 1), after one that ends with one bin"
            )
        if self.bypass and not self.bottleneck:
            raise ValueError("bypass is for layers with a bottleneck")
        if self.gate < 0:
            raise ValueError(f"gate {self.gate} must be 0 or more")
        if self.lookahead is not None and not 0 <= self.lookahead < self.kernel[1]:
            raise ValueError(f"lookahead {self.lookahead} must be 0..{self.kernel[1] - 1}, within the kernel")

    @property
    def after(self) -> int:
        """Frames of right context."""
        return self.kernel[1] // 2 if self.lookahead is None else self.lookahead

    @property
    def before(self) -> int:
        """Frames of left context."""
        return self.kernel[1] - 1 - self.after

    def bins(self, bins: int) -> int:
        """Frequency bins in -> out."""
        return math.ceil(bins / self.stride[0]) if self.kernel[0] else 1


@dataclass(frozen=True)
class ModelConfig:
    """The shape of the model, without the number of outputs, which the tokens give."""

    frontend: FrontendConfig = field(default_factory=FrontendConfig)
    # from the features upwards, at least one
    convolutions: tuple[ConvolutionConfig, ...] = (
        ConvolutionConfig(32, (41, 11), (2, 2)),
        ConvolutionConfig(32, (21, 11), (2, 1)),
    )
    cell: Cell = "gru"  # of the recurrent layers: bn-lstm normalises its recurrent term, too
    recurrent_layers: int = 5  # above the convolutions; 0: none
    hidden: int = 800  # H: units of a recurrent layer
    bidirectional: bool = True  # each recurrent layer also reads backwards; its directions are summed
    chunk: int = 0  # output frames after which the backward direction begins anew, for live streams; 0: it never does
    lookahead: int = 0  # tau: output frames that a row convolution above the recurrent layers looks ahead; 0: no layer
    fully_connected: int = 0  # units of a layer before the output; 0: no layer
    random_walk: int = 0  # radius in output frames within which posteriors diffuse; of no use to CTC: recipes/ablations
    phones: int = 0  # outputs of a second output layer for phones, next to that of the tokens; 0: no layer
    biphones: int = 0  # units below the scores of each phone after each other one; 0: only the phone itself is scored
    batch_norm: bool = True  # normalise the input of each layer over the minibatch
    dropout: float = 0.0  # probability that a recurrent output is dropped in training

    def __post_init__(self) -> None:
        if not self.convolutions:
            raise ValueError("convolutions must hold at least one layer")
        bins = self.frontend.bins
        for layer in self.convolutions:
            if layer.bottleneck and bins != 1:
                raise ValueError(
                    f"a layer with a bottleneck takes one bin, not {bins}: put one of kernel (0, k) before it"
                )
            if layer.bottleneck and not self.batch_norm:
                raise ValueError("layers with a bottleneck are always normalised: batch_norm must be true")
            bins = layer.bins(bins)
            if layer.gate and bins != 1:
                raise ValueError(f"a layer with a gate gives one bin, not {bins}: its kernel must be (0, k) or (1, k)")
        if self.biphones and not self.phones:
            raise ValueError("biphones are of phones: set phones as well")
        require(self, "at least 1", lambda count: count >= 1, "hidden")
        require(
            self, "0 or more", lambda count: count >= 0,
            "recurrent_layers", "chunk", "lookahead", "fully_connected", "random_walk", "phones", "biphones",
        )  # fmt: skip
        if self.chunk and not self.bidirectional:
            raise ValueError("chunk is for bidirectional models: a forward-only one streams as it is")
        if self.chunk and self.spec.step_statistics:
            raise ValueError(
                f"chunk is not for a {self.cell}, which has statistics of its own for every frame of an utterance"
            )
        if self.chunk and self.chunk <= self.waits[-1][1]:
            raise ValueError(
                f"chunk {self.chunk} must be more than the convolutions' delay of {self.waits[-1][1]} frames"
            )
        require(self, "at least 0 and below 1", lambda probability: 0 <= probability < 1, "dropout")

    @classmethod
    def of(cls, record: Record) -> "ModelConfig":
        """That of a bundle.

        Raises:
            InputError: a value is wrong.
        """
        return from_dict(cls, record.config, record.name)

    @classmethod
    def preset(cls, name: str) -> "ModelConfig":
        """Returns a configuration by its name, see presets.py.

        Raises:
            KeyError: no preset has this name; its second argument lists the names.
        """
        if name not in PRESETS:
            raise KeyError(name, sorted(PRESETS))
        return from_dict(cls, PRESETS[name], f"preset {name}")

    def check_streaming(self) -> None:
        """Checks that the beginning of an utterance's output does not depend on its end.

        Raises:
            ValueError: it does; what to train with instead.
        """
        if self.needs_end:
            raise ValueError(
                "a bidirectional model cannot stream: use one for live sound, such as english, or train one "
                "with chunk = 32 or bidirectional = false"
            )
        if self.chunk * self.frame_seconds > LONGEST_CHUNK:
            raise ValueError(f"a chunk of {self.chunk * self.frame_seconds:.2f} s is too long to stream: at most 1 s")
        if self.frontend.power != "adaptive":
            raise ValueError("the power of a whole utterance cannot be streamed: train with frontend.power = adaptive")
        if self.frontend.mean == "utterance":
            raise ValueError("the mean of a whole utterance cannot be streamed: train with frontend.mean = adaptive")
        if self.random_walk:
            raise ValueError("a model with a random walk over frames cannot stream: train with random_walk = 0")

    @property
    def spec(self) -> CellSpec:
        """What the cell is made of."""
        return CELLS[self.cell]

    @property
    def pairs(self) -> int:
        """Q: scores of biphones, one for each pair of labels of phones."""
        return (self.phones - 1) ** 2 if self.biphones else 0

    @property
    def needs_end(self) -> bool:
        """Whether the recurrent layers need the last frame of an utterance for the first."""
        return self.bidirectional and self.recurrent_layers > 0 and not self.chunk

    @property
    def width(self) -> int:
        """Units of a frame below the row convolution and the output layers."""
        if self.recurrent_layers:
            return self.hidden
        bins = self.frontend.bins
        for layer in self.convolutions:
            bins = layer.bins(bins)
        return self.convolutions[-1].channels * bins

    @property
    def recurrent_weights(self) -> int:
        """Weights of the recurrent matrix of a layer; 0 without such layers."""
        return len(self.spec.gates) * self.hidden**2 if self.recurrent_layers else 0

    @property
    def streams(self) -> bool:
        """Whether the model can transcribe live sound."""
        try:
            self.check_streaming()
        except ValueError:
            return False
        return True

    @property
    def stride(self) -> int:
        """Frames of the front end per output frame."""
        return math.prod(convolution.stride[1] for convolution in self.convolutions)

    def step_frames(self, frames: int) -> int:
        """Front-end frames of a live step: the model's own chunk, or `frames` rounded up to a whole stride."""
        return (self.chunk or -(-frames // self.stride)) * self.stride

    @property
    def waits(self) -> list[tuple[int, int]]:
        """Of each convolution in a live stream: frames of its input kept for the next chunk, and its delay in frames.

        A layer's delay is in frames of its output; it lets every chunk give a whole number of frames.
        """
        found, delay = [], 0
        for layer in self.convolutions:
            later = (layer.after + delay) // layer.stride[1]
            found.append((later * layer.stride[1] + layer.before - delay, later))
            delay = later
        return found

    @property
    def delay(self) -> int:
        """Output frames that a live stream lags behind its sound."""
        return self.waits[-1][1] + self.lookahead

    @property
    def frame_seconds(self) -> float:
        """Seconds of audio per output frame: the hop times the time strides."""
        return self.frontend.hop_seconds * self.stride
