"""Compiles the kernels of tests that `ds2 warmup` leaves out: double precision, and cells that no bundle has.

make runs it once, when it sets up. Otherwise each process of pytest compiles them, for half a minute.
"""

import numpy as np
import torch

from ds2.ctc import ctc_loss
from ds2.decoder.beam import BeamDecoder
from ds2.model.recurrent import RecurrentLayer

logits = torch.zeros(1, 2, 2, dtype=torch.float64, requires_grad=True)
ctc_loss(logits, *map(torch.tensor, ([[1]], [2], [1]))).backward()
BeamDecoder()(np.log(np.full((1, 2, 2), 0.5)), np.array([2]))
for dtype in (torch.float32, torch.float64):
    for cell in ("gru", "bn-lstm"):
        layer = RecurrentLayer(cell, 3, 2, batch_norm=True, bidirectional=True).to(dtype)
        layer(torch.randn(2, 3, 3, dtype=dtype), torch.tensor([3, 2])).sum().backward()
