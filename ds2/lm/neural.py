"""A neural language model of whole sentences, for the second pass: an LSTM over pieces of words in int8.

    the cat sat    0 _the _cat _s at  ->  LSTM  ->  probabilities of _the _cat _s at 0
    the cat sang           the states of shared beginnings are computed once,
    a cat sat              and of beginnings of one length that end alike the first one's stands for all

The layer projects its output (Sak et al. 2014, "Long Short-Term Memory Recurrent Neural Network Architectures for Large
Scale Acoustic Modeling", section 2.2), and the projection is as wide as the embedding, which also scores the pieces
(Press and Wolf 2017, "Using the Output Embedding to Improve Language Models"). `recipes/english/neural_lm.py` trains
one. That beginnings may stand for each other is an idea of Liu et al. 2014, "Efficient Lattice Rescoring Using
Recurrent Neural Network Language Models".
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.lm.pieces import Pieces
from ds2.utils.activations import sigmoid, tanh
from ds2.utils.byte_products import ByteWeight, convolved, rounded, worth_it
from ds2.utils.errors import InputError
from ds2.utils.fast_exp import REORDER, exponential
from ds2.utils.int8_linear import Int8Weight, int8_linear
from ds2.utils.jit import njit

MATRICES = ("embedding", "input", "recurrent", "projection")
VECTORS = ("gate_bias", "norm_scale", "norm_bias", "output_bias")
TINY = 1e-5  # added to a variance
# Last pieces of beginnings that are taken for one, a power of 2: with 4, 0.3 points more words of `english` are wrong.
HISTORY = 8
BLOCK = 64  # nodes whose probabilities of all pieces are in memory at once
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
        return self.scores([[words]])[0][0]

    def scores(self, nbests: Sequence[Sequence[Sequence[str]]]) -> list[list[float]]:
        """Natural log-probabilities of the sentences of each n-best, of which the first is exact.

        In the others a difference more than HISTORY pieces back no longer counts. Words that the model does not know
        are left out.
        """
        pieces = [
            [[n for word in words for n in self.pieces.divide(word) or ()] for words in nbest] for nbest in nbests
        ]
        found = iter(self._scores(Beginnings.of(pieces)).tolist() if any(pieces) else [])
        return [list(itertools.islice(found, len(nbest))) for nbest in nbests]

    def _scores(self, graph: "Beginnings") -> np.ndarray:
        """(S,) of the sentences."""
        outputs = self._outputs(graph)
        totals = np.zeros(graph.sentences)
        for start in range(0, len(outputs), BLOCK):
            scores = self._piece_scores(outputs[start : start + BLOCK])
            every = np.empty(len(scores), np.float32)
            fill_log_sums(scores, every)
            first, past = np.searchsorted(graph.asked[:, 0], [start, start + BLOCK])
            nodes, pieces, owners = graph.asked[first:past].T
            np.add.at(totals, owners, scores[nodes - start, pieces] - every[nodes - start])
        return totals

    def _outputs(self, graph: "Beginnings") -> np.ndarray:
        """(N, P): what the layer gives after each beginning, level by level; torch's order of the gates: input, forget,
        candidate, output."""
        size, count = self.cells, len(graph.pieces)
        # The recurrent product alone has to wait for the level before; a piece may follow several beginnings.
        pieces, which = np.unique(graph.pieces, return_inverse=True)
        inputs = self._product("input", self._embedded(pieces), self.vectors["gate_bias"])
        outputs, cells = np.empty((count, self.width), np.float32), np.zeros((count, size), np.float32)
        recurrent = np.zeros((1, 4 * size), np.float32)  # nothing is before the root
        for first, past in itertools.pairwise(graph.levels):
            before = graph.parents[first:past]
            if first:
                recurrent = self._product("recurrent", outputs[before])
            hidden = np.empty((past - first, size), np.float32)
            lstm_step(inputs, which[first:past], recurrent, before, first, cells, hidden)
            outputs[first:past] = self._product("projection", hidden)
        return outputs

    def _embedded(self, pieces: np.ndarray) -> np.ndarray:
        """(N,) -> (N, P); embeddings have a variance of 1."""
        embedding = self.matrices["embedding"]
        scales = embedding.scale[pieces, None] * np.float32(self.width**0.5)
        return embedding.levels[pieces, : self.width] * scales

    def _piece_scores(self, output: np.ndarray) -> np.ndarray:
        """(N, P) outputs of the layer -> (N, V) unnormalised scores of the next piece."""
        vectors = self.vectors
        centred = output - output.mean(1, keepdims=True)
        variance = (centred**2).mean(1, keepdims=True)
        normal = centred / np.sqrt(variance + TINY) * vectors["norm_scale"] + vectors["norm_bias"]
        return self._product("embedding", normal, vectors["output_bias"])

    def _product(self, name: str, rows: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """(N, K) -> (N, M), by an (M, K) matrix."""
        if name not in self.in_bytes:
            return int8_linear(rows, self.matrices[name], bias)
        bias = np.zeros_like(self.matrices[name].scale) if bias is None else bias
        return convolved(rounded(rows, signed=True), [self.in_bytes[name]], bias)


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def lstm_step(inputs, which, recurrent, parents, first, cells, hidden):  # type: ignore[no-untyped-def]
    """The cells of the N nodes from `first` on, and what they give.

    Args:
        inputs: (I, 4 C) the terms of pieces in the sums of their gates.
        which: (N,) the nodes' pieces, as rows of `inputs`.
        recurrent: (N, 4 C) the other terms.
        parents: (N,) the nodes before them; the root's is itself.
        cells: (nodes, C), those of the parents computed, the root's 0; those of these nodes are filled.
        hidden: (N, C), is filled.
    """
    one, size = np.float32(1), hidden.shape[1]
    for n in range(len(hidden)):
        row, own, before, after, given = inputs[which[n]], recurrent[n], cells[parents[n]], cells[first + n], hidden[n]
        for c in range(size):
            kept = sigmoid(row[size + c] + own[size + c], one) * before[c]
            after[c] = kept + sigmoid(row[c] + own[c], one) * tanh(row[2 * size + c] + own[2 * size + c], one)
        for c in range(size):
            given[c] = sigmoid(row[3 * size + c] + own[3 * size + c], one) * tanh(after[c], one)


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def fill_log_sums(scores, sums):  # type: ignore[no-untyped-def]
    """(N, V) float32 scores -> (N,) `sums`, the logarithm of the sum of the exponentials of each row."""
    for n in range(len(scores)):
        row, total = scores[n], np.float32(0)
        largest = row[0]
        for v in range(len(row)):
            largest = max(largest, row[v])
        for v in range(len(row)):
            total += exponential(row[v] - largest)
        sums[n] = largest + math.log(total)


@dataclass(frozen=True)
class Beginnings:
    """The beginnings of S sentences as N nodes, level by level: the root is that of all; those of an n-best that are
    equally long and end in the same HISTORY pieces are one node, that of the best sentence or the alphabet's first.

    Attributes:
        pieces: (N,) the last one of each; 0, the end of the sentence before, of the root.
        parents: (N,) the node without that piece; the root's is itself.
        levels: the first node of each level, and N.
        asked: (A, 3) a node, a piece that follows it in a sentence or its end, 0, and the sentence; in order of nodes.
        sentences: S.
    """

    pieces: np.ndarray
    parents: np.ndarray
    levels: list[int]
    asked: np.ndarray
    sentences: int

    @classmethod
    def of(cls, nbests: Sequence[Sequence[Sequence[int]]]) -> "Beginnings":
        """Those of one sentence or more, of pieces none of which is 0."""
        owners = itertools.count()
        # The best sentences first; where others stand in an n-best may depend on the last digits of their scores.
        sentences = sorted(
            (number, place > 0, each, next(owners))
            for number, own in enumerate(nbests)
            for place, each in enumerate(own)
        )
        nbest, lengths, order = np.array([(number, len(each), owner) for number, _, each, owner in sentences]).T
        rows = np.zeros((lengths.max() + 1, len(sentences)), np.int64)  # the sentences, and their ends, 0
        for column, (_, _, each, _) in zip(rows.T, sentences, strict=True):
            column[: len(each)] = each
        last = _later(rows, 1)
        endings, pieces = last, 1  # numbers of the last piece, two, four, until HISTORY of them
        while pieces < HISTORY:
            endings, pieces = _numbered(endings, _later(endings, pieces)), 2 * pieces
        place = np.arange(len(rows))[:, None]
        beginnings = _numbered(place, _numbered(nbest * (place > 0), endings))
        there = place <= lengths
        _, first, nodes = np.unique(beginnings[there], return_index=True, return_inverse=True)
        places, columns = np.nonzero(there)
        asked = np.stack([nodes, rows[there], order[columns]], 1)[np.argsort(nodes, kind="stable")]
        node_of = np.zeros_like(rows)
        node_of[there] = nodes
        places, columns = places[first], columns[first]  # of the first sentence that reaches each node
        levels = np.searchsorted(places, np.arange(len(rows) + 1)).tolist()
        parents = _later(node_of, 1)[places, columns]
        return cls(last[places, columns], parents, levels, asked, len(sentences))


def _later(rows: np.ndarray, places: int) -> np.ndarray:
    """(T, S) -> (T, S): what stands so many places before each, 0 before the first."""
    return np.pad(rows[: max(0, len(rows) - places)], ((min(places, len(rows)), 0), (0, 0)))


def _numbered(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two arrays of integers from 0 on that broadcast to (T, S) -> (T, S): a number for each pair, in their order."""
    pairs = first * (second.max() + 1) + second
    return np.unique(pairs, return_inverse=True)[1].reshape(pairs.shape)


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
