"""Search over phones with a pronouncing lexicon, on the posteriors of a few frames."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds2.decoder import phone_search
from ds2.decoder.config import BeamConfig
from ds2.decoder.phone_search import COPIES, FIRST, PronouncingDecoder, homophones_apart
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.ngram import NGram

ARPA = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-99 <s> -0.3
-1.0 </s>
-9.0 <unk>
-0.5 to -0.3
-1.5 two -0.3
-1.0 cats -0.3

\\2-grams:
-0.2 <s> two
-2.5 <s> to
-0.1 two cats
-0.5 cats to

\\end\\
"""
LETTERS = {letter: number for number, letter in enumerate("_ abcdefghijklmnopqrstuvwxyz")}
T, UW, K, AE, S = range(2, 7)  # in the outputs [blank, space, T, UW, K, AE, S]
PRONUNCIATIONS = {"to": [(T, UW)], "two": [(T, UW)], "cats": [(K, AE, T, S)]}


@pytest.fixture
def lm(tmp_path: Path) -> NGram:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    return NGram.load(path)


def posteriors(labels: list[int]) -> torch.Tensor:
    """(1, T, 28 + 7), letters unknown: each label has p = 0.9 for two frames, followed by a frame of blank."""
    frames = [label for label in labels for label in (label, label, 0)]
    phones = torch.full((len(frames), 7), 0.1 / 6).scatter(1, torch.tensor(frames).unsqueeze(1), 0.9)
    return torch.cat([torch.full((len(frames), len(LETTERS)), 1 / len(LETTERS)), phones], 1).log().unsqueeze(0)


def decoder(lm: NGram, **config: float) -> PronouncingDecoder:
    return PronouncingDecoder(
        BeamConfig(closed=True, cumulative_probability=1.0, **config), Pronunciations.of(PRONUNCIATIONS), lm, LETTERS
    )


def text(tokens: tuple[int, ...]) -> str:
    return "".join("_ abcdefghijklmnopqrstuvwxyz"[token] for token in tokens)


def test_the_language_model_tells_homophones_apart(lm: NGram) -> None:
    """Two words with one pronunciation: `two` begins a sentence, `to` follows cats."""
    log_probs = posteriors([T, UW, 1, K, AE, T, S, 1, T, UW])
    [[found, *_]] = decoder(lm)(log_probs, torch.tensor([log_probs.shape[1]]))
    assert text(found.tokens) == "two cats to"


def test_hot_words_can_be_changed_afterwards(lm: NGram) -> None:
    log_probs = posteriors([T, UW, 1, K, AE, T, S])
    usual = decoder(lm)
    for beam, expected in ((usual.with_boosts({"to": 6.5, "unheard": 9.0}), "to cats"), (usual, "two cats")):
        [[found, *_]] = beam(log_probs, torch.tensor([log_probs.shape[1]]))
        assert text(found.tokens) == expected


def test_the_possessive_of_a_hot_word_gains_as_much(lm: NGram) -> None:
    letters = {**LETTERS, "'": len(LETTERS)}
    pronunciations = Pronunciations.of({"to": [(T, UW)], "two's": [(T, UW)]})
    log_probs = posteriors([T, UW])
    log_probs = torch.cat([log_probs[..., :1], log_probs], 2)
    for hot, expected in (({}, "to"), ({"two": 18.0}, "two's")):
        config = BeamConfig(closed=True, cumulative_probability=1.0)
        searching = PronouncingDecoder(config, pronunciations, lm, letters, hot, outputs=7)
        [[found, *_]] = searching(log_probs, torch.tensor([log_probs.shape[1]]))
        assert "".join("_ abcdefghijklmnopqrstuvwxyz'"[token] for token in found.tokens) == expected


def test_letters_lie_on_the_frames_of_their_phones(lm: NGram) -> None:
    """cats: K on frames 0 and 1, AE on 3 and 4, T on 6 and 7, S on 9 and 10; two: three letters on two phones."""
    log_probs = posteriors([K, AE, T, S, 1, T, UW])
    [[found, *_]] = decoder(lm)(log_probs, torch.tensor([log_probs.shape[1]]))
    assert text(found.tokens) == "cats to"
    assert found.starts == (0, 3, 6, 9, 12, 15, 18)
    assert found.ends == (2, 5, 8, 11, 14, 17, 20)
    assert all(0.8 < confidence < 1.0 for confidence in found.confidences)


@pytest.mark.parametrize(("short", "long", "shown"), [("to", "cats", "to"), ("cats", "to", "")])
def test_a_word_that_may_go_on_is_shown_where_no_longer_one_is_more_frequent(
    lm: NGram, short: str, long: str, shown: str
) -> None:
    pronunciations = Pronunciations.of({short: [(T, UW)], long: [(T, UW, K)]})
    config = BeamConfig(closed=True, cumulative_probability=1.0)
    searching = PronouncingDecoder(config, pronunciations, lm, LETTERS, outputs=7)
    stream, [frames] = searching.begin(), posteriors([T, UW, 1])
    for part, expected in ((frames[:6], shown), (frames[6:], short)):
        searching.step([stream], [part])
        assert text(searching.partial(stream).tokens) == expected


def test_frame_by_frame_is_the_same_as_at_once(lm: NGram) -> None:
    log_probs = posteriors([T, UW, 1, K, AE, T, S])
    searching = decoder(lm)
    [expected] = searching(log_probs, torch.tensor([log_probs.shape[1]]))
    stream = searching.begin()
    for frame in log_probs[0].split(4):
        searching.step([stream], [frame])
    assert text(searching.partial(stream).tokens) == "two cats"
    assert searching.finish(stream) == expected


def test_stable_are_the_letters_of_whole_words(lm: NGram) -> None:
    """Of "cats t" the word to is not yet whole; after the space nothing can change "two cats "."""
    searching = decoder(lm, score_threshold=2.0)
    stream = searching.begin()
    searching.step([stream], [posteriors([T, UW, 1, K, AE, T, S, 1, T])[0]])
    assert searching.stable(stream) == len("two cats")


def test_with_nbest_finds_more_hypotheses(lm: NGram) -> None:
    log_probs = posteriors([T, UW, 1, K, AE, T, S])
    searching = decoder(lm, nbest=1)
    lengths = torch.tensor([log_probs.shape[1]])
    assert [len(searching.with_nbest(nbest)(log_probs, lengths)[0]) for nbest in (1, 2)] == [1, 2]


def test_pronunciations_of_a_text_are_one_hypothesis(lm: NGram) -> None:
    """cats with or without the T, with both posteriors alike, is one of the n-best."""
    pronunciations = Pronunciations.of({**PRONUNCIATIONS, "cats": [(K, AE, T, S), (K, AE, S)]})
    config = BeamConfig(closed=True, cumulative_probability=1.0, recombine=True, nbest=9)
    log_probs = posteriors([T, UW, 1, K, AE, T, S])
    [found] = PronouncingDecoder(config, pronunciations, lm, LETTERS)(log_probs, torch.tensor([log_probs.shape[1]]))
    texts = [text(hypothesis.tokens) for hypothesis in found]
    assert {"two cats", "to cats"} <= set(texts)
    assert len(set(texts)) == len(texts)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), frames=st.integers(0, 30), most=st.integers(1, 40))
def test_each_text_is_there_with_the_best_of_its_pronunciations(lm: NGram, seed: int, frames: int, most: int) -> None:
    """Those of the first strings of labels that are read, one by one."""
    spoken = Pronunciations.of({**PRONUNCIATIONS, "cats": [(K, AE, T, S), (K, AE, S), (K, S)], "a": [(AE,), (T, S)]})
    config = BeamConfig(200, score_threshold=30.0, cumulative_probability=1.0, recombine=True, nbest=10)
    log_probs = np.random.default_rng(seed).normal(0, 2, (frames, len(LETTERS) + 7)).astype(np.float32)
    search = PronouncingDecoder(config, spoken, lm, LETTERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phone_search, "READ_MORE", most)
        found = search.search([log_probs])[0]
    stream = search.begin()
    search.step([stream], [log_probs])
    texts: dict[str, float] = {}
    for each in itertools.islice(search.beam.hypotheses(stream), config.nbest + most):
        pieces = "".join(map(chr, each.tokens)).split(chr(1))
        words = (search.beam.space.lexicon.number(tuple(map(ord, piece))) for piece in pieces if piece)
        texts.setdefault(" ".join(search.words[word] for word in words if word >= 0), each.score)
    assert [(text(each.tokens), each.score) for each in found] == list(texts.items())[: config.nbest]


def test_more_homophones_than_copies_leave_out_the_rarest(lm: NGram) -> None:
    """The words that the language model knows precede all others."""
    others = {f"t{letter}": [(T, UW)] for letter in "abcdefgh"}
    found = PronouncingDecoder(BeamConfig(closed=True), Pronunciations.of({**others, **PRONUNCIATIONS}), lm, LETTERS)
    words = found.words
    assert {"to", "two", "cats"} <= set(words)
    assert len(words) == COPIES + 1


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.lists(st.lists(st.integers(2, 4), min_size=1, max_size=9).map(tuple), min_size=1, max_size=3),
        max_size=12,
    ),
    st.integers(0, 2**16),
)
def test_every_homophone_has_a_copy_of_its_own(spoken: dict[str, list[tuple[int, ...]]], seed: int) -> None:
    pronunciations = Pronunciations.of(spoken)
    assert pronunciations.to_dict() == spoken
    frequency = np.random.default_rng(seed).permutation(len(spoken)).astype(float)
    words, tokens, lengths = homophones_apart(pronunciations, frequency, 5, COPIES)
    found = [tuple(part.tolist()) for part in np.split(tokens, np.cumsum(lengths))[:-1]]
    assert len(set(found)) == len(found)
    taken: dict[tuple[int, ...], int] = {}
    expected = []
    for word in sorted(range(len(spoken)), key=lambda place: -frequency[place]):
        for phones in list(spoken.values())[word]:
            copy = taken[phones] = taken.get(phones, -1) + 1
            if copy < COPIES:
                expected.append((word, (*phones[:-1], phones[-1] + copy * (5 - FIRST))))
    assert sorted(zip(words.tolist(), found, strict=True)) == sorted(expected)


CHARACTERS = "易意义亿异议艺忆"  # y i4, one after another in this order of frequency


def test_characters_that_sound_alike_are_told_apart_without_spaces(tmp_path: Path) -> None:
    """More than COPIES of them: the language model alone knows which one follows."""
    path = tmp_path / "lm.arpa"
    singles = "".join(f"-{1 + number / 10} {character} -0.3\n" for number, character in enumerate(CHARACTERS))
    path.write_text(
        f"\\data\\\nngram 1={len(CHARACTERS) + 3}\nngram 2=2\n\n"
        f"\\1-grams:\n-99 <s> -0.3\n-1.0 </s>\n-9.0 <unk>\n{singles}\n"
        "\\2-grams:\n-0.1 <s> 忆\n-0.1 忆 艺\n\n\\end\\\n"
    )
    letters = {letter: number for number, letter in enumerate(["_", *CHARACTERS])}
    spoken = Pronunciations.of({character: [(2, 3)] for character in CHARACTERS})
    beam = PronouncingDecoder(
        BeamConfig(closed=True, cumulative_probability=1.0, recombine=True), spoken, NGram.load(path), letters
    )
    assert len(CHARACTERS) > COPIES
    frames = [label for label in [2, 3, 1, 2, 3] for label in (label, label, 0)]
    phones = torch.full((len(frames), 4), 0.1 / 3).scatter(1, torch.tensor(frames).unsqueeze(1), 0.9)
    unknown = torch.full((len(frames), len(letters)), 1 / len(letters))
    log_probs = torch.cat([unknown, phones], 1).log().unsqueeze(0)
    [[found, *_]] = beam(log_probs, torch.tensor([len(frames)]))
    assert "".join(list(letters)[token] for token in found.tokens) == "忆艺"
    stream = beam.begin()
    beam.step([stream], [log_probs[0, :9]])
    assert "".join(list(letters)[token] for token in beam.partial(stream).tokens) == "忆"
    assert beam.stable(stream) <= 1
