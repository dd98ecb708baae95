"""The deployed model's step as CUDA graphs: about a hundred launches become one.

A graph has fixed shapes, so there is one for each batch size in SIZES and each chunk length; a smaller batch is filled
up with the spare slot. Where a model has a fixed chunk, the shorter ones at the ends of streams run without a graph:
the step checks on the host that each of its streams ends, and the spare slot's never does.
"""

import torch
from torch import Tensor

from ds2.model.config import UNENDED
from ds2.model.slots import SlotModel

SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64)  # larger batches run without a graph
WARM_UPS = 3  # steps before a capture: libraries allocate at their first calls

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]  # of SlotModel.step


class GraphedStep:
    """Replaces `SlotModel.step` on a GPU."""

    def __init__(self, model: SlotModel):
        self.model = model
        self.graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Inputs, Tensor]] = {}

    @torch.inference_mode()
    def __call__(self, slots: Tensor, positions: Tensor, lengths: Tensor, samples: Tensor) -> Tensor:
        """Like SlotModel.step -> (B, T, V); the next call with the same batch size overwrites the result."""
        count, steps = len(slots), self.model.steps
        size = next((size for size in SIZES if size >= count), None)
        is_short = steps.whole_frames and samples.shape[1] != steps.samples(steps.whole_frames)
        if size is None or is_short:
            return self.model.step(slots, positions, lengths, samples)
        key = size, samples.shape[1]
        if key not in self.graphs:
            self.graphs[key] = self._capture(*key)
        graph, inputs, log_probs = self.graphs[key]
        inputs[0][count:] = self.model.spare
        for held, given in zip(inputs, (slots, positions, lengths, samples), strict=True):
            held[:count].copy_(given)
        graph.replay()
        return log_probs[:count]

    def _capture(self, size: int, samples: int) -> tuple[torch.cuda.CUDAGraph, Inputs, Tensor]:
        device = self.model.device
        numbers = torch.zeros(3, size, dtype=torch.long, device=device)
        numbers[0], numbers[2] = self.model.spare, UNENDED
        inputs = numbers[0], numbers[1], numbers[2], torch.zeros(size, samples, device=device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self.model.step(*inputs)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):  # a stream of the model's device, which may not be the current one
            log_probs = self.model.step(*inputs)
        return graph, inputs, log_probs
