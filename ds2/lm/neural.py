"""A neural language model of whole sentences, for the second pass: an LSTM over pieces of words in int8.

    the cat sat    0 _the _cat _s at  ->  LSTM  ->  probabilities of _the _cat _s at 0
    the cat sang           the states of shared beginnings are computed once

The layer projects its output (Sak et al. 2014, "Long Short-Term Memory Recurrent Neural Network Architectures for Large
Scale Acoustic Modeling", section 2.2), and the projection is as wide as the embedding, which also scores the pieces
(Press and Wolf 2017, "Using the Output Embedding to Improve Language Models"). `recipes/english/neural_lm.py` trains
one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.lm.pieces import Pieces
from ds2.utils.byte_products import ByteWeight, convolved, rounded, worth_it
from ds2.utils.errors import InputError
from ds2.utils.int8_linear import Int8Weight, int8_linear

MATRICES = ("embedding", "input", "recurrent", "projection")
VECTORS = ("gate_bias", "norm_scale", "norm_bias", "output_bias")
TINY = 1e-5  # added to a variance
LARGEST = 1e4  # of a weight; far beyond what training gives, and no product of such overflows


class NeuralModel:
    """Log-probabilities of sentences."""

    def __init__(self, pieces: Sequence[str], arrays: Mapping[str, np.ndarray]):
        """`arrays`: of `array_shapes`, each matrix in int8 with the scales of its rows.

        Raises:
            InputError: they do not fit each other.
        """
        self.pieces = Pieces(pieces)
        damaged = InputError("the neural language model is damaged, or of another version; add it again")
        try:
            width, self.cells = arrays["projection"].shape
        except (KeyError, ValueError) as error:
            raise damaged from error
        if not arrays["projection"].size:
            raise damaged
        expected = array_shapes(len(self.pieces), width, self.cells)
        kinds = {name: (np.int8 if name in MATRICES else np.float32, shape) for name, shape in expected.items()}
        if {name: (values.dtype, values.shape) for name, values in arrays.items()} != kinds:
            raise damaged
        if not all(np.abs(values).max() <= LARGEST for name, values in arrays.items() if name not in MATRICES):
            raise damaged
        self.matrices = {name: Int8Weight.padded(arrays[name], arrays[f"{name}_scales"]) for name in MATRICES}
        self.in_bytes = {
            name: ByteWeight.packed(arrays[name], arrays[f"{name}_scales"], signed=True)
            for name in MATRICES
            if worth_it(arrays[name])
        }
        self.vectors = {name: arrays[name] for name in VECTORS}
        self.width = width

    def knows(self, word: str) -> bool:
        """Whether the model has a probability for a word."""
        return self.pieces.divide(word) is not None

    def score(self, words: Sequence[str]) -> float:
        """Natural log-probability of a sentence between <s> and </s>."""
        return self.scores([words])[0]

    def scores(self, sentences: Sequence[Sequence[str]]) -> list[float]:
        """Natural log-probabilities of sentences; shared beginnings are computed once.

        Words that the model does not know are left out.
        """
        numbers = [[n for word in words for n in self.pieces.divide(word) or ()] for words in sentences]
        totals = np.zeros(len(sentences))
        nodes = np.zeros(len(sentences), np.int64)  # of each sentence in the present level
        state = State(np.zeros((1, self.width), np.float32), np.zeros((1, self.cells), np.float32))
        taken = np.zeros(1, np.int64)
        for place in range(max(map(len, numbers), default=-1) + 1):
            state = self._step(taken, state)
            log_probs = self._log_probs(state.output)
            going = [each for each, pieces in enumerate(numbers) if place <= len(pieces)]
            following = np.array([(*numbers[each], 0)[place] for each in going])
            totals[going] += log_probs[nodes[going], following]
            # The sentences that go on are the next level: one node for each that has its own beginning.
            going = [each for each in going if place < len(numbers[each])]
            if not going:
                break
            pairs = np.stack([nodes[going], [numbers[each][place] for each in going]], 1)
            unique, own = np.unique(pairs, axis=0, return_inverse=True)
            nodes[going] = own.reshape(-1)
            state, taken = state.of(unique[:, 0]), unique[:, 1]
        return totals.tolist()

    def _step(self, pieces: np.ndarray, state: "State") -> "State":
        """(N,) pieces and N states -> N states; torch's order of the gates: input, forget, candidate, output."""
        size = self.cells
        gates = self._product("input", self._embedded(pieces), self.vectors["gate_bias"])
        gates += self._product("recurrent", state.output)
        candidate = np.tanh(gates[:, 2 * size : 3 * size])
        gates = 0.5 + 0.5 * np.tanh(0.5 * gates)  # the logistic function of the other three
        cell = gates[:, size : 2 * size] * state.cell + gates[:, :size] * candidate
        return State(self._product("projection", gates[:, 3 * size :] * np.tanh(cell)), cell)

    def _embedded(self, pieces: np.ndarray) -> np.ndarray:
        """(N,) -> (N, P); embeddings have a variance of 1."""
        embedding = self.matrices["embedding"]
        scales = embedding.scale[pieces, None] * np.float32(self.width**0.5)
        return embedding.levels[pieces, : self.width] * scales

    def _log_probs(self, output: np.ndarray) -> np.ndarray:
        """(N, P) outputs of the layer -> (N, V) log-probabilities of the next piece."""
        vectors = self.vectors
        centred = output - output.mean(1, keepdims=True)
        variance = (centred**2).mean(1, keepdims=True)
        normal = centred / np.sqrt(variance + TINY) * vectors["norm_scale"] + vectors["norm_bias"]
        scores = self._product("embedding", normal, vectors["output_bias"])
        scores -= scores.max(1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(1, keepdims=True))
        return scores

    def _product(self, name: str, rows: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """(N, K) -> (N, M), by an (M, K) matrix."""
        weight = self.matrices[name]
        bias = np.zeros_like(weight.scale) if bias is None else bias
        if name in self.in_bytes:
            return convolved(rounded(rows, signed=True), [self.in_bytes[name]], bias)
        return int8_linear(rows, weight, bias)


@dataclass(frozen=True)
class State:
    """Of N sentences' beginnings.

    Attributes:
        output: (N, P) what the layer gave last.
        cell: (N, H).
    """

    output: np.ndarray
    cell: np.ndarray

    def of(self, rows: np.ndarray) -> "State":
        """The states of (N,) rows of them."""
        return State(self.output[rows], self.cell[rows])


def array_shapes(pieces: int, width: int, cells: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a model's arrays: `pieces` with the sentences' end, `width` of the embedding."""
    matrices = {
        "embedding": (pieces, width), "input": (4 * cells, width), "recurrent": (4 * cells, width),
        "projection": (width, cells),
    }  # fmt: skip
    vectors = {"gate_bias": 4 * cells, "norm_scale": width, "norm_bias": width, "output_bias": pieces}
    found: dict[str, tuple[int, ...]] = {name: (count,) for name, count in vectors.items()}
    for name, shape in matrices.items():
        found |= {name: shape, f"{name}_scales": shape[:1]}
    return found
