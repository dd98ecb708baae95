"""A training on a GPU: the losses and weights of the CPU, and it goes on from its checkpoint."""

import dataclasses
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.kernels import needs_gpu
from helpers.training import Manifests, model_weights, plain_config

from ds2.data.phone_sets import CMUDICT
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.trainer import Trainer

GPU = "cuda"
DIGITS = (
    "zero Z IH R OW", "one W AH N", "two T UW", "three TH R IY", "four F AO R",
    "five F AY V", "six S IH K S", "seven S EH V AH N", "eight EY T", "nine N AY N",
)  # fmt: skip
DELAY = ConvolutionConfig(16, (1, 3), (1, 1), bottleneck=4, bypass=0.66)
FACTORED = ModelConfig(
    FrontendConfig(8000, mel_bins=20, mean="adaptive", power="adaptive"),
    (ConvolutionConfig(4, (11, 5), (2, 2)), ConvolutionConfig(16, (0, 1), (1, 1), gate=4), DELAY, DELAY),
    recurrent_layers=0,
    phones=len(CMUDICT.tokens),
    biphones=8,
)
RECURRENT = dataclasses.replace(TINY, phones=len(CMUDICT.tokens))


def config(manifest: Path, folder: Path, model: ModelConfig, epochs: int) -> TrainConfig:
    lexicon = folder / "lexicon.txt"
    lexicon.write_text("\n".join(DIGITS) + "\n")
    optimizer = OptimizerConfig("muon", 1e-3, phone_loss="ctc-crf", ema_decay=0.9)
    data = DataConfig((manifest,), manifest, workers=2, lexicon=lexicon)
    return plain_config(manifest, data=data, model=model, optimizer=optimizer, epochs=epochs)


@needs_gpu
@pytest.mark.parametrize("model", [FACTORED, RECURRENT], ids=["factored", "recurrent"])
def test_a_gpu_trains_as_the_cpu_does(model: ModelConfig, spoken_digits: Manifests, tmp_path: Path) -> None:
    """Two epochs in float32; then a third one by a new process."""
    manifest, histories = spoken_digits(12), {}
    for device in ("cpu", GPU):
        trainer = Trainer(config(manifest, tmp_path, model, 2), tmp_path / device, device)
        with torch.backends.cudnn.flags(allow_tf32=False):
            trainer.run()
        histories[device] = [[epoch[name] for name in ("loss", "dev_loss")] for epoch in trainer.state.history]
    torch.testing.assert_close(torch.tensor(histories[GPU]), torch.tensor(histories["cpu"]), rtol=0.02, atol=0.0)
    before = model_weights(trainer).cpu()
    longer = Trainer(config(manifest, tmp_path, model, 3), tmp_path / GPU, GPU)
    torch.testing.assert_close(model_weights(longer).cpu(), before, rtol=0.0, atol=0.0)
    longer.run()
    assert len(longer.state.history) == 3
