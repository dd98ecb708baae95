"""The model: whole utterances, and live streams in slots."""

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import ModelConfig
from ds2.model.native.biphones import NativeBiphones
from ds2.model.native.byte_convolution import ByteConvolution
from ds2.model.native.byte_time_delay import ByteTimeDelay
from ds2.model.native.frontend import NativeFrontend
from ds2.model.native.gate import NativeGate
from ds2.model.native.int8_time_delay import Int8TimeDelay
from ds2.model.native.layers import (
    NativeConvolution,
    NativeTimeDelay,
    clipped_relu,
    linear,
    log_softmax,
    over_utterance,
    row_convolution,
)
from ds2.model.native.random_walk import NativeRandomWalk
from ds2.model.native.recurrent import NativeRecurrentLayer
from ds2.model.native.slots import SlotBatch, SlotStores
from ds2.model.steps import Steps
from ds2.utils.byte_products import multiplies_bytes

Convolution = NativeConvolution | NativeTimeDelay | ByteConvolution | ByteTimeDelay


class Network:
    """Samples -> log-probabilities, as ds2/model/acoustic.py defines them. Its weights are shared and never change."""

    @np.errstate(all="ignore")  # damaged weights may become no numbers, as in torch
    def __init__(self, config: ModelConfig, outputs: int, weights: LayerWeights, in_bytes: bool = False):
        """
        Args:
            outputs: V, tokens.
            in_bytes: large convolutions and time-delay layers take 8 bits where the processor is faster so, in live
                streams at least.

        Raises:
            InputError: a weight is missing, or has not the shape that the configuration gives it.
        """
        self.config, self.frontend = config, NativeFrontend(config.frontend, weights.under("frontend"))
        # Each layer takes what the one below gives; its weights are checked against the configuration as it is made.
        self.convolutions: list[Convolution] = []
        self.gates: dict[int, NativeGate] = {}
        channels, self.bins = 1, config.frontend.bins
        for number, each in enumerate(config.convolutions):
            layer = weights.under(f"convolutions.{number}")
            own = (
                NativeTimeDelay(channels, each, layer)
                if each.bottleneck
                else NativeConvolution(channels, self.bins, each, layer, config.batch_norm)
            )
            self.convolutions.append(_in_bytes(own) if in_bytes and number else own)
            channels, self.bins = each.channels, each.bins(self.bins)
            if each.gate:
                self.gates[number] = NativeGate(channels, each.gate, weights.under(f"gates.{number}"))
        sizes = [channels * self.bins] + [config.hidden] * config.recurrent_layers
        self.recurrent = [
            NativeRecurrentLayer(number, config, inputs, weights.under(f"recurrent.{number}"))
            for number, inputs in enumerate(sizes[: config.recurrent_layers])
        ]
        width = config.width
        if config.lookahead:
            self.future = weights.shaped("lookahead.weight", width, config.lookahead + 1)
        if config.fully_connected:
            weights.shaped("fully_connected.weight", config.fully_connected, width)
            self.dense = weights.under("fully_connected").folded("weight", config)
        self.random_walk = (
            NativeRandomWalk(config.random_walk, sizes[0], weights.under("random_walk")) if config.random_walk else None
        )
        self.output = _output(weights.under("output"), outputs, config.fully_connected or width)
        self.phone_output = _output(weights.under("phone_output"), config.phones, width) if config.phones else None
        self.biphones = (
            NativeBiphones(width, config.biphones, config.phones, weights.under("biphones"))
            if config.biphones
            else None
        )

    @np.errstate(all="ignore")
    def log_probs(self, samples: np.ndarray) -> np.ndarray:
        """(N,) samples of an utterance -> (T, V + P + Q): log-probabilities of the tokens, then of the phones, then the
        scores of biphones."""
        x = self.frontend(samples)
        for number, layer in enumerate(self.convolutions):
            x = layer.whole(x) if isinstance(layer, NativeTimeDelay | ByteTimeDelay) else over_utterance(layer, x)
            if gate := self.gates.get(number):
                gate(x, np.zeros((1, gate.channels)), np.arange(x.shape[1])[None])
        low = x = self._by_channel(x)
        for recurrent in self.recurrent:
            x = recurrent(x)
        if self.config.lookahead:
            x = row_convolution(np.pad(x, ((0, 0), (0, self.config.lookahead), (0, 0))), self.future)
        logits = self._logits(x)
        if self.random_walk is not None:
            logits = self.random_walk(low, logits)
        return np.concatenate([log_softmax(logits), *self._of_phones(x)], axis=2)[0]

    def step(self, batch: SlotBatch, samples: np.ndarray, phones: bool) -> np.ndarray:
        """(B, N) samples of a chunk of each stream -> (B, T, V), with `phones` (B, T, V + P + Q)."""
        x = self.frontend.step(batch, samples)
        batch.clear_outside(x, 1, 0)
        stride, delay = 1, 0
        for number, (layer, (keeps, delay)) in enumerate(zip(self.convolutions, self.config.waits, strict=True)):
            stride *= layer.config.stride[1]
            x = layer(batch.with_past(f"convolutions.{number}", x, keeps))
            batch.clear_outside(x, stride, delay)
            if gate := self.gates.get(number):
                name, numbers = f"gates.{number}", batch.numbers(x.shape[1], stride, delay)
                batch.keep(name, gate(x, batch.kept(name, (gate.channels,), np.float64), numbers))
        x = self._by_channel(x)
        if self.recurrent:
            valid = batch.valid(x.shape[1], stride, delay)
        for recurrent in self.recurrent:
            x = recurrent.step(batch, x, valid)
        if self.config.lookahead:
            x = row_convolution(batch.with_past("lookahead", x, self.config.lookahead), self.future)
        return np.concatenate([log_softmax(self._logits(x)), *(self._of_phones(x) if phones else ())], axis=2)

    def _by_channel(self, x: np.ndarray) -> np.ndarray:
        """(B, T, F C) -> (B, T, C F), as the layers above the convolutions take it."""
        if self.bins == 1:
            return x
        return x.reshape(*x.shape[:2], self.bins, -1).swapaxes(2, 3).reshape(x.shape)

    def _logits(self, x: np.ndarray) -> np.ndarray:
        """(B, T, H) -> (B, T, V) unnormalised scores of the tokens."""
        return linear(clipped_relu(linear(x, *self.dense)) if self.config.fully_connected else x, *self.output)

    def _of_phones(self, x: np.ndarray) -> list[np.ndarray]:
        """(B, T, H) -> (B, T, P) log-probabilities of the phones, (B, T, Q) scores of biphones, as far as there are."""
        found = [] if self.phone_output is None else [log_softmax(linear(x, *self.phone_output))]
        return found if self.biphones is None else [*found, self.biphones(x)]


def _in_bytes(layer: NativeConvolution | NativeTimeDelay) -> Convolution:
    """A layer of what other layers give, which is at least 0; as it is where it would be no faster."""
    if isinstance(layer, NativeConvolution):
        return ByteConvolution(layer) if ByteConvolution.fits(layer) else layer
    if multiplies_bytes():
        return ByteTimeDelay(layer) if ByteTimeDelay.fits(layer) else layer
    return Int8TimeDelay(layer)


def _output(layer: LayerWeights, outputs: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(outputs, width) weight and (outputs,) bias."""
    return layer.shaped("weight", outputs, width), layer.shaped("bias", outputs)


class NativeSlots:
    """Live streams in slots; see `Slots` of ds2/recognition/engine.py."""

    def __init__(self, network: Network, slots: int, phones: bool):
        """Raises ValueError where the model cannot stream."""
        network.config.check_streaming()
        self.network, self.config, self.slots, self.phones = network, network.config, slots, phones
        self.steps, self.stores = Steps.of(network.config), SlotStores(slots)

    @np.errstate(all="ignore")
    def advance(self, slots: np.ndarray, positions: np.ndarray, lengths: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """See `Slots`.

        Raises:
            ValueError: not the number of frames of the model's chunk.
        """
        self.steps.check(samples.shape[1], positions, lengths)
        batch = SlotBatch(self.stores, slots, positions, lengths)
        log_probs = self.network.step(batch, samples, self.phones)
        batch.commit()
        return log_probs
