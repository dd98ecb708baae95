"""A model of live streams, chunk by chunk: the same weights and the same log-probabilities as offline.

    samples ..|chunk|            each layer keeps the part of the past that it needs again:
       frontend   : the samples of unfinished windows, the sum of powers
       convolution: the frames under its kernel
       recurrent  : its state; where it has a backward direction, the frames of an unfinished chunk
       lookahead  : the frames whose future is not known yet

A batch holds streams of any age; each may bring any number of samples, and gets the frames that became certain.
"""

import functools
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from ds2.model.acoustic import AcousticModel
from ds2.model.convolution import Convolution
from ds2.model.recurrent import RecurrentLayer, State
from ds2.model.time_delay import TimeDelay


@dataclass
class Stream:
    """The state of one stream. `StreamingModel.begin` creates it, `step` advances it."""

    samples: Tensor  # (N,) not yet used up by a frame
    power_sum: Tensor  # () float64, of the mean squares of all frames
    feature_sum: Tensor  # (F,) float64, of the log power of all frames
    frames: int  # of the front end so far
    outputs: int  # frames of log-probabilities so far
    waiting: list[Tensor]  # of each convolution (C, F, T): frames of its input that it needs again
    recurrent: list[State]  # of each recurrent layer, first frame to last
    uncut: Tensor  # (T, D) frames of a chunk that is not complete
    cut: int  # frames that lie in chunks before those
    future: Tensor  # (T, H) frames that wait for the row convolution's future
    ended: bool = False


class StreamingModel:
    """Steps a batch of streams through an acoustic model."""

    def __init__(self, model: AcousticModel, phones: bool = False):
        """Uses the weights of `model`, in eval mode. With `phones`, their log-probabilities follow those of the tokens.

        Raises:
            ValueError: the output for the beginning of an utterance depends on its end.
        """
        config = model.config
        config.check_streaming()
        self.model = model.eval()
        self.config = config
        self.phones = phones and model.phone_output is not None
        self.convolutions = cast("list[Convolution | TimeDelay]", list(model.convolutions))
        self.recurrent = cast("list[RecurrentLayer]", list(model.recurrent))

    def begin(self) -> Stream:
        """A stream without samples yet."""
        weight = self.model.output.weight
        bins, channels, waiting = self.config.frontend.bins, 1, []
        for convolution in self.config.convolutions:
            waiting.append(weight.new_zeros(channels, bins, convolution.before))
            channels, bins = convolution.channels, convolution.bins(bins)
        states = [tuple(part[0] for part in layer.forwards.start(1)) for layer in self.recurrent]
        power_sum = torch.zeros((), dtype=torch.float64, device=weight.device)
        feature_sum = power_sum.new_zeros(self.config.frontend.bins)
        uncut, future = weight.new_zeros(0, channels * bins), weight.new_zeros(0, self.config.width)
        return Stream(weight.new_zeros(0), power_sum, feature_sum, 0, 0, waiting, states, uncut, 0, future)

    @torch.no_grad()
    def step(self, streams: list[Stream], chunks: list[Tensor], last: list[bool]) -> list[Tensor]:
        """Moves each stream on by its chunk.

        Args:
            streams: changed in place.
            chunks: (N,) samples for each stream, of any number, 0 included.
            last: whether the stream ends after its chunk.

        Returns:
            (T', V) log_probs for each stream, with phones (T', V + P), of the frames that are now certain; after the
            last chunk all that remain.
        """
        for stream, ends in zip(streams, last, strict=True):
            if stream.ended:
                raise ValueError("the stream has ended; begin another")
            stream.ended = ends
        rows = [self._features(stream, chunk) for stream, chunk in zip(streams, chunks, strict=True)]
        for number, layer in enumerate(self.convolutions):
            rows = self._convolve(number, layer, streams, rows)
        rows = [row.flatten(0, 1).T for row in rows]
        if self.recurrent:
            rows = self._recur_in_chunks(streams, rows) if self.config.chunk else self._recur(streams, rows)
        return self._finish(streams, rows)

    def _features(self, stream: Stream, chunk: Tensor) -> Tensor:
        """(1, F, T) of the frames whose last sample has come."""
        frontend, window, hop = self.model.frontend, *self._window
        samples = torch.cat([stream.samples, chunk.to(stream.samples)])
        if stream.ended and stream.frames == 0 and len(samples) < window:
            samples = torch.nn.functional.pad(samples, (0, window - len(samples)))  # as offline: at least one frame
        count = max(0, (len(samples) - window) // hop + 1)
        stream.samples = samples[count * hop :]
        if count == 0:
            return samples.new_zeros(1, self.config.frontend.bins, 0)
        frames = samples.unfold(0, window, hop).unsqueeze(0)
        number = torch.tensor([float(stream.frames)], dtype=torch.float64, device=samples.device)
        power, sums = frontend.adaptive_power(frames, stream.power_sum.unsqueeze(0), number)
        features = frontend.log_frames(frames, power)
        if self.config.frontend.mean == "adaptive":
            features, total = frontend.adaptively_centred(features, stream.feature_sum.unsqueeze(0), number)
            stream.feature_sum = total[0]
        stream.power_sum, stream.frames = sums[0, -1], stream.frames + count
        return frontend.standardised(features)

    @functools.cached_property
    def _window(self) -> tuple[int, int]:
        return self.config.frontend.window_samples, self.config.frontend.hop_samples

    @property
    def _outputs(self) -> int:
        return self.model.output.out_features + (self.config.phones if self.phones else 0)

    def _convolve(
        self, number: int, layer: Convolution | TimeDelay, streams: list[Stream], rows: list[Tensor]
    ) -> list[Tensor]:
        config = layer.config
        inputs, counts = [], []
        for stream, row in zip(streams, rows, strict=True):
            row = torch.cat([stream.waiting[number], row], dim=2)
            if stream.ended:
                row = torch.nn.functional.pad(row, (0, config.after))
            count = max(0, (row.shape[2] - config.kernel[1]) // config.stride[1] + 1)
            stream.waiting[number] = row[:, :, count * config.stride[1] :]
            inputs.append(row)
            counts.append(count)
        if max(counts) == 0:
            channels, bins = config.channels, config.bins(inputs[0].shape[1])
            return [row.new_zeros(channels, bins, 0) for row in inputs]
        width = max(config.kernel[1] + config.stride[1] * (max(counts) - 1), 1)
        batch = torch.stack([_padded(row[:, :, :width], 2, width) for row in inputs])
        outputs, _ = layer.step(batch, torch.tensor(counts, device=batch.device))
        return [output[:, :, :count] for output, count in zip(outputs, counts, strict=True)]

    def _recur_in_chunks(self, streams: list[Stream], rows: list[Tensor]) -> list[Tensor]:
        """Like `_recur`, of the chunks that are complete."""
        results = [[row.new_zeros(0, self.config.hidden)] for row in rows]
        for stream, row in zip(streams, rows, strict=True):
            stream.uncut = torch.cat([stream.uncut, row])
        while True:
            chunks = [self._next_chunk(stream) for stream in streams]
            if not any(map(len, chunks)):
                return [torch.cat(parts) for parts in results]
            for parts, chunk in zip(results, self._recur(streams, chunks), strict=True):
                parts.append(chunk)

    def _next_chunk(self, stream: Stream) -> Tensor:
        """(T, D): the next chunk, or no frame while it is not complete."""
        size, missing = self.recurrent[0].chunks
        count = size if stream.cut else size - missing
        if len(stream.uncut) < count and not stream.ended:
            count = 0
        chunk, stream.uncut = stream.uncut[:count], stream.uncut[count:]
        stream.cut += len(chunk)
        return chunk

    def _recur(self, streams: list[Stream], rows: list[Tensor]) -> list[Tensor]:
        moving = [index for index, row in enumerate(rows) if len(row)]
        results = [row.new_zeros(0, self.config.hidden) for row in rows]
        if not moving:
            return results
        lengths = torch.tensor([len(rows[index]) for index in moving], device=rows[0].device)
        x = torch.stack([_padded(rows[index], 0, int(lengths.max())) for index in moving])
        for number, layer in enumerate(self.recurrent):
            states = zip(*(streams[index].recurrent[number] for index in moving), strict=True)
            forwards, state = layer.forwards.step(x, lengths, tuple(torch.stack(parts) for parts in states))
            x = forwards if layer.backwards is None else forwards + layer.from_the_end(x, lengths, None)
            for place, index in enumerate(moving):
                streams[index].recurrent[number] = tuple(part[place] for part in state)
        for place, index in enumerate(moving):
            results[index] = x[place, : len(rows[index])]
        return results

    def _finish(self, streams: list[Stream], rows: list[Tensor]) -> list[Tensor]:
        """Row convolution and output of the frames whose future is known."""
        tau = self.config.lookahead
        ready = []
        for stream, row in zip(streams, rows, strict=True):
            row = torch.cat([stream.future, row])
            row = torch.nn.functional.pad(row, (0, 0, 0, tau)) if stream.ended else row
            count = max(0, len(row) - tau)
            stream.future = row[count:]
            stream.outputs += count
            ready.append(row if count else row[:0])
        counts = [max(0, len(row) - tau) for row in ready]
        if max(counts) == 0:
            return [row.new_zeros(0, self._outputs) for row in ready]
        x = torch.stack([_padded(row, 0, max(counts) + tau) for row in ready])
        if self.model.lookahead is not None:
            x = self.model.lookahead.step(x)
        log_probs = self.model.log_probs(x, torch.tensor(counts, device=x.device), self.phones)
        return [row[:count] for row, count in zip(log_probs, counts, strict=True)]


def _padded(x: Tensor, dimension: int, size: int) -> Tensor:
    """`x` with zeros after it along a dimension, up to a size."""
    missing = size - x.shape[dimension]
    shape = list(x.shape)
    shape[dimension] = missing
    return torch.cat([x, x.new_zeros(shape)], dim=dimension) if missing > 0 else x
