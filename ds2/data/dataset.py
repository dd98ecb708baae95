"""Utterances as padded batches of tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from ds2.audio.augment import Augmenter
from ds2.audio.tensors import read_audio
from ds2.data.sampler import Key
from ds2.data.utterance import Utterance
from ds2.text import Tokenizer
from ds2.utils.errors import InputError, WorkerError
from ds2.utils.object_storage import StorageError


@dataclass(frozen=True)
class Example:
    """One utterance: samples (N,) float32 at the model's rate, targets (L,) token indices."""

    utterance: Utterance
    samples: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Batch:
    """Padded examples, and a line for each utterance that was left out.

    Attributes:
        samples: (B, N) float32, zeros after each utterance.
        sample_lengths: (B,) samples.
        targets: (B, L) token indices, zeros after each utterance.
        target_lengths: (B,) labels.
        utterances: the B utterances.
        skipped: a line for each utterance that could not be read.
    """

    samples: Tensor
    sample_lengths: Tensor
    targets: Tensor
    target_lengths: Tensor
    utterances: list[Utterance]
    skipped: list[str]

    def pin_memory(self) -> "Batch":
        """The same in memory that a GPU copies from while the host goes on; a DataLoader calls it."""
        tensors = self.samples, self.sample_lengths, self.targets, self.target_lengths
        samples, sample_lengths, targets, target_lengths = (each.pin_memory() for each in tensors)
        return Batch(samples, sample_lengths, targets, target_lengths, self.utterances, self.skipped)


class SpeechDataset(Dataset[Example | InputError]):
    """Reads, augments and encodes utterances; an unreadable one comes back as its error, not as an exception.

    A StorageError is raised: all other utterances would fail, too.

    An item's key is (epoch, index), and the augmentation is seeded by it: the same key gives the same samples in
    every process and on every run.
    """

    def __init__(
        self,
        utterances: Sequence[Utterance],
        tokenizer: Tokenizer,
        sample_rate: int,
        augmenter: Augmenter | None = None,
    ):
        self.utterances = utterances
        self.tokenizer = tokenizer
        self.sample_rate = sample_rate
        self.augmenter = augmenter

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, key: Key) -> Example | InputError:
        epoch, index = key
        utterance = self.utterances[index]
        try:
            samples = read_utterance(utterance, self.sample_rate)
            if self.augmenter is not None:
                samples = self.augmenter(samples, epoch, index)
            targets = torch.tensor(self.tokenizer.encode(utterance.text), dtype=torch.long)
        except StorageError:
            raise
        except InputError as error:
            return error
        return Example(utterance, samples, targets)


def read_utterance(utterance: Utterance, sample_rate: int) -> Tensor:
    """(N,) samples of the whole file, or of the span of it that the manifest names.

    Raises:
        InputError: the audio cannot be read.
    """
    path, offset, duration, channel = utterance.span
    return read_audio(path, sample_rate, offset, duration, channel)[0]


def collate(items: Sequence[Example | InputError]) -> Batch:
    """Pads examples to a batch; the unreadable ones become lines in `skipped`.

    Raises:
        WorkerError: in a worker of a DataLoader, whose shared memory is full.
    """
    examples = [item for item in items if isinstance(item, Example)]
    samples, sample_lengths = pad([example.samples for example in examples])
    targets, target_lengths = pad([example.targets for example in examples])
    utterances = [example.utterance for example in examples]
    skipped = [str(item) for item in items if isinstance(item, InputError)]
    if get_worker_info() is not None:
        _share((samples, sample_lengths, targets, target_lengths))
    return Batch(samples, sample_lengths, targets, target_lengths, utterances, skipped)


def _share(tensors: Sequence[Tensor]) -> None:
    """Moves a worker's tensors into shared memory; by default a thread does it, whose errors nobody hears."""
    try:
        for tensor in tensors:
            tensor.share_memory_()
    except RuntimeError as error:
        remedy = "give it more (docker's shm-size), or take fewer data.workers"
        raise WorkerError(f"the shared memory of this machine, /dev/shm, is full; {remedy}") from error


def pad(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """B rows of any length -> (B, longest) with zeros after each, (B,) lengths."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    if not rows:
        return torch.zeros(0, 0), lengths
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True), lengths
