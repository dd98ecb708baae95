"""A model of live streams for deployment: many live streams, each in a slot of tensors that are allocated once.

A chunk is a fixed number of front-end frames, so a batch is rectangular however old its streams are, and every
step is the same operations on the same shapes. Every layer lags a fixed number of frames behind its input:

    frames     p ............ p + q          position p of the stream, q frames in the chunk
    layer    p/s - d ...... p/s - d + q/s    s: strides so far, d: its delay; frames before 0 and after the end are 0

which gives the log-probabilities that the model gives offline, `delay` output frames late. After the end of a
stream silence is fed until all of them are out. Batch normalisation is folded into the weights. A step writes the
slots' state after all layers have succeeded, so that a step that failed can be repeated with fewer streams.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from ds2.model.acoustic import AcousticModel, all_scores
from ds2.model.activation import clipped_relu
from ds2.model.bn_lstm_step import BNLSTMStep
from ds2.model.cell_kernels import KERNELS
from ds2.model.cells import CELLS, Cell
from ds2.model.config import LEAST_WEIGHTS, Precision
from ds2.model.half_linear import half_linear
from ds2.model.int8_recurrent import Int8Direction, int8_states
from ds2.model.recurrent import BNLSTMDirection, Direction, RecurrentLayer
from ds2.model.slot_convolutions import SlotConvolution, fold_convolutions
from ds2.model.steps import Steps
from ds2.utils.int8_linear import Int8Weight, int8_linear
from ds2.utils.processor import has_matrix_unit

Weight = Tensor | Int8Weight
AUTO: dict[str, Precision] = {"cuda": "float16", "cpu": "int8"}  # small layers stay in float32 there


@dataclass
class SlotRecurrent:
    """A recurrent layer with its BN folded in, and its state in each slot."""

    cell: Cell
    step: Callable[..., tuple[Tensor, ...]]
    weight: Weight  # (G * H, D)
    bias: Tensor
    recurrent_weight: Weight  # (G * H, H)
    recurrent_bias: Tensor
    state: list[Tensor]  # (slots, H) of h, of an LSTM also of c
    backwards: "SlotRecurrent | None" = None  # the direction from a chunk's last frame to its first


class _Batch:
    """Which slots a step moves on, and what it will write to them."""

    def __init__(self, slots: Tensor, positions: Tensor, lengths: Tensor):
        self.slots, self.positions, self.lengths = slots, positions, lengths
        self.afresh = positions == 0
        self.writes: list[tuple[Tensor, Tensor]] = []

    def numbers(self, frames: int, stride: int, delay: int) -> Tensor:
        """(B, frames): the number in its stream of each frame of a layer's output; below 0 before the stream."""
        first = self.positions // stride - delay
        return first.unsqueeze(1) + torch.arange(frames, device=first.device)

    def valid(self, frames: int, stride: int, delay: int) -> Tensor:
        """(B, frames) boolean: which frames of a layer's output lie within their stream."""
        index = self.numbers(frames, stride, delay)
        return (index >= 0) & (index < ((self.lengths + stride - 1) // stride).unsqueeze(1))

    def kept(self, store: Tensor) -> Tensor:
        """The rows of a store for the slots, 0 where a stream begins: by `where`, since the store may hold NaN."""
        return torch.where(self.afresh.view(-1, *[1] * (store.dim() - 1)), 0.0, store.index_select(0, self.slots))

    def keep(self, store: Tensor, rows: Tensor) -> None:
        self.writes.append((store, rows))

    def commit(self) -> None:
        for store, rows in self.writes:
            store.index_copy_(0, self.slots, rows)


class SlotModel:
    """Steps any batch of slots by one chunk each."""

    def __init__(self, model: AcousticModel, slots: int, precision: Precision = "auto", phones: bool = False):
        """`precision` of the recurrent weights, nearly all there are; their sums are in float32.

        auto: float16 on a GPU; on a CPU int8, in which small layers stay in float32. With `phones`, their
        log-probabilities follow those of the tokens, and then the scores of biphones.

        Raises:
            ValueError: the model cannot stream, see `ModelConfig.check_streaming`.
        """
        model.config.check_streaming()
        self.phones = phones
        self.model, self.config, self.slots = model.eval(), model.config, slots
        self.device = model.output.weight.device
        if precision == "auto":
            precision = AUTO.get(self.device.type, "float32")
        if precision == "int8" and self.device.type != "cpu":
            raise ValueError("precision int8 is for the CPU; use float16 on a GPU")
        self.precision = precision
        self.spare = slots  # pads batches
        self.steps = Steps.of(model.config)
        self.sounding = torch.zeros(slots + 1, dtype=torch.float64, device=self.device)  # frames so far
        self.power_sum = torch.zeros_like(self.sounding)
        self.feature_sum = self.power_sum.new_zeros(slots + 1, model.config.frontend.bins)
        with torch.no_grad():
            self.convolutions = fold_convolutions(model, slots + 1)
            self.dense = self._fold_dense()
            self.recurrent = [self._fold_recurrent(cast(RecurrentLayer, layer)) for layer in model.recurrent]
        self.future = torch.zeros(slots + 1, model.config.lookahead, model.config.width, device=self.device)

    @torch.inference_mode()
    def step(self, slots: Tensor, positions: Tensor, lengths: Tensor, samples: Tensor) -> Tensor:
        """Moves each slot on by q frames, a multiple of the model's stride; by its `chunk` where it has one.

        The last chunk of streams that end in it may be shorter.

        Args:
            slots: (B,) distinct.
            positions: (B,) front-end frames of the stream before this chunk; at 0 the slot starts afresh.
            lengths: (B,) front-end frames of the whole stream, UNENDED while that is not known.
            samples: (B, `steps.samples(q)`); zeros after the end.

        Returns:
            (B, q / stride, V) log_probs, with phones (B, q / stride, V + P + Q), of the output frames from
            `positions / stride - delay` on; those before 0 and after the end mean nothing.

        Raises:
            ValueError: not the number of frames of the model's chunk.
        """
        self.steps.check(samples.shape[1], positions, lengths)
        # Each layer puts the past that its slots keep before the chunk, and what the next chunk needs into the batch.
        batch = _Batch(slots, positions, lengths)
        x = self._features(batch, samples).unsqueeze(1)
        for layer in self.convolutions:
            x = self._convolve(layer, x, batch)
        # Frames before the stream must not move the recurrent state, nor those after its end.
        x = x.flatten(1, 2).transpose(1, 2).contiguous()
        last = self.convolutions[-1]
        valid = batch.valid(x.shape[1], last.total_stride, last.delay).unsqueeze(2).to(x.dtype)
        for recurrent in self.recurrent:
            x = self._recur(recurrent, x, valid, batch)
        if self.model.lookahead is not None:
            x = torch.cat([batch.kept(self.future), x], dim=1)
            batch.keep(self.future, x[:, -self.config.lookahead :])
            x = self.model.lookahead.step(x)
        log_probs = self._log_probs(x, lengths)
        # No layer has failed: the slots move on.
        batch.commit()
        return log_probs

    def _log_probs(self, x: Tensor, lengths: Tensor) -> Tensor:
        if self.dense is None:
            return self.model.log_probs(x, lengths, self.phones)
        dense = clipped_relu(_linear(x.flatten(0, 1), *self.dense)).unflatten(0, x.shape[:2])
        phones = self.model.phone_output if self.phones else None
        biphones = self.model.biphones if self.phones else None
        of_phones = [None if layer is None else layer(x) for layer in (phones, biphones)]
        return all_scores(self.model.output(dense), *of_phones)

    def _features(self, batch: "_Batch", samples: Tensor) -> Tensor:
        """(B, F, q), 0 after the end."""
        frontend = self.model.frontend
        frames = samples.unfold(1, self.config.frontend.window_samples, self.steps.hop)
        # Power, and mean where it adapts, go on from the sums over the sound before.
        level = frontend.level(frames, batch.kept(self.sounding))
        batch.keep(self.sounding, level.number[:, -1])
        power, sums = frontend.adaptive_power(level, batch.kept(self.power_sum))
        batch.keep(self.power_sum, sums[:, -1])
        features = frontend.log_frames(frames, power)
        if self.config.frontend.mean == "adaptive":
            features, feature_sum = frontend.adaptively_centred(features, level, batch.kept(self.feature_sum))
            batch.keep(self.feature_sum, feature_sum)
        features = frontend.standardised(features)
        return features * batch.valid(frames.shape[1], 1, 0).unsqueeze(1)

    def _convolve(self, layer: SlotConvolution, x: Tensor, batch: "_Batch") -> Tensor:
        # The kernel's past stands before the chunk; the chunk's last frames are the past of the next.
        x = torch.cat([batch.kept(layer.kept), x], dim=3)
        batch.keep(layer.kept, x[..., x.shape[3] - layer.kept.shape[3] :])
        place = layer.frames(x.shape[3]), layer.total_stride, layer.delay
        x = layer.run(x, batch.valid(*place))
        if layer.gate is not None:
            x, sums = layer.gate.step(x, batch.kept(layer.sums), batch.numbers(*place))
            batch.keep(layer.sums, sums)
        return x

    def _recur(self, layer: SlotRecurrent, x: Tensor, valid: Tensor, batch: "_Batch") -> Tensor:
        rows, state = _run_direction(layer, x, valid, tuple(map(batch.kept, layer.state)))
        for store, part in zip(layer.state, state, strict=True):
            batch.keep(store, part)
        # The backward direction begins anew at the end of every chunk, and keeps nothing.
        if layer.backwards is None:
            return rows
        start = tuple(part.expand(len(x), -1) for part in layer.backwards.state)
        return rows + _run_direction(layer.backwards, x.flip(1), valid.flip(1), start)[0].flip(1)

    def _fold_recurrent(self, layer: RecurrentLayer) -> SlotRecurrent:
        folded = self._fold_direction(layer.forwards, self.slots + 1)
        if layer.backwards is not None:
            folded.backwards = self._fold_direction(layer.backwards, 1)
        return folded

    def _fold_direction(self, layer: Direction | BNLSTMDirection | Int8Direction, slots: int) -> SlotRecurrent:
        # Statistics of time steps cannot be folded: the step itself has them, and counts frames in its state.
        if isinstance(layer, BNLSTMDirection):
            h, c, frames = layer.start(slots)
            own, recurrent = self._stored(layer.input_weight), self._stored(layer.recurrent_weight)
            zeros, start = torch.zeros_like(layer.bias), [h, c, frames.unsqueeze(1).to(h.dtype)]
            return SlotRecurrent("bn-lstm", BNLSTMStep(layer), own, zeros, recurrent, zeros, start)
        state, step = [part.clone() for part in layer.start(slots)], KERNELS[layer.cell].step
        if isinstance(layer, Int8Direction):
            own, recurrent = layer.weight, layer.recurrent_weight
            return SlotRecurrent(layer.cell, step, own, layer.bias, recurrent, layer.recurrent_bias, state)
        weight, bias = layer.norm(layer.input_weight, None)
        own = self._stored(weight)
        # The frames of a chunk share the reading of the input weight: in bfloat16 the matrix unit makes that cheap.
        if isinstance(own, Int8Weight) and self.config.chunk and has_matrix_unit():
            own = weight.detach().bfloat16()
        weights = own, bias, self._stored(layer.recurrent_weight), layer.recurrent_bias
        return SlotRecurrent(layer.cell, step, *weights, state)

    def _fold_dense(self) -> tuple[Weight, Tensor] | None:
        """The layer before the output, stored for the precision; None where it runs as it is."""
        layer = self.model.fully_connected
        if layer is None or self.precision != "int8":
            return None
        weight, bias = layer.norm(layer.weight, None)
        return self._stored(weight), bias

    def _stored(self, weight: Tensor) -> Weight:
        """A weight in the precision; a small one stays in float32 where the others are in int8."""
        if self.precision == "int8":
            weight = weight.detach()
            return Int8Weight.of(weight.float().numpy()) if weight.numel() >= LEAST_WEIGHTS else weight
        return weight.to(getattr(torch, self.precision))


def _run_direction(
    layer: SlotRecurrent, x: Tensor, valid: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """(B, T, D), (B, T, 1) 0 or 1, state before the first frame -> (B, T, H), the state after the last."""
    # The input terms of all frames are one product; the recurrent ones wait for each other.
    terms = _linear(x.flatten(0, 1), layer.weight, layer.bias).unflatten(0, x.shape[:2])
    if isinstance(layer.recurrent_weight, Int8Weight) and CELLS[layer.cell].branch is not None:
        inside = valid.squeeze(2).T > 0
        weights = layer.recurrent_weight, layer.recurrent_bias
        states = int8_states(layer.cell, terms.transpose(0, 1), inside, state, *weights)
        return states[0][1:].transpose(0, 1), tuple(part[-1] for part in states)
    rows = []
    for term, now in zip(terms.unbind(1), valid.unbind(1), strict=True):
        recurrent = _linear(state[0], layer.recurrent_weight, layer.recurrent_bias)
        state = tuple(part * now for part in layer.step(term, recurrent, *state))  # 0 until the first frame
        rows.append(state[0])
    return torch.stack(rows, 1), state


def _linear(x: Tensor, weight: Weight, bias: Tensor) -> Tensor:
    if isinstance(weight, Int8Weight):
        return torch.from_numpy(int8_linear(x.numpy(), weight, bias.detach().numpy()))
    if weight.dtype == torch.float32:
        return torch.nn.functional.linear(x, weight, bias)
    return half_linear(x.to(weight.dtype), weight, bias)
