"""A bundle's decoder: what it holds, what a person asks for, and what they may not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ds2
from ds2.bundle import Bundle
from ds2.decoder.config import BeamConfig
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.recognition.bundled_search import bundled_model, bundled_pronunciations, with_decoder
from ds2.recognition.decoding import beam_config, is_over_tokens, make_beam, make_beam_decoder, with_own_words
from ds2.recognition.options import DecoderOptions, hot_words
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.stream_hot_words import unknown_hot, with_hot
from ds2.text import Tokenizer
from ds2.utils.errors import InputError, ParameterError

TOKENIZER = Tokenizer.from_texts(["a b c"])  # blank, space, a, b, c
EMPTY = Bundle(weights={}, config={}, tokens=[])
UNSURE = torch.tensor([[[0.02, 0.0, 0.5, 0.48, 0.0], [0.96, 0.01, 0.01, 0.01, 0.01]]]).log()  # "a", or nearly "b"


def model(*sentences: str, order: int = 2) -> NGram:
    return NGram.from_orders(*estimate([sentence.split() for sentence in sentences], EstimateConfig(order)))


def best(beam: object, log_probs: torch.Tensor = UNSURE) -> str:
    assert beam is not None
    [[first, *_]] = beam(log_probs, torch.tensor([log_probs.shape[1]]))  # type: ignore[operator]
    return TOKENIZER.decode(first.tokens)


def test_a_bundle_without_words_is_decoded_greedily(caplog: pytest.LogCaptureFixture) -> None:
    assert make_beam(TOKENIZER, EMPTY, DecoderOptions()) is None
    assert make_beam(TOKENIZER, replace(EMPTY, vocabulary=["a"]), DecoderOptions(beam=0)) is None
    assert not caplog.messages
    assert ds2.load("english", beam=0).beam is None
    assert ["beam 0: letters alone" in message for message in caplog.messages] == [True]


def test_a_closed_vocabulary_finds_no_other_words() -> None:
    closed = make_beam(TOKENIZER, replace(EMPTY, vocabulary=["b", "ab"]), DecoderOptions())
    assert best(closed) == "b"  # "a" is likeliest, and no word


def test_width_alone_searches_without_words() -> None:
    beam = make_beam(TOKENIZER, EMPTY, DecoderOptions(beam=7))
    assert beam is not None
    assert (beam.config.beam_width, beam.config.closed) == (7, False)


def test_a_language_model_changes_the_result(tmp_path: Path) -> None:
    model("a", "b", "b", "b", "b", "b", "cc").save(tmp_path / "lm")
    beam = make_beam(TOKENIZER, EMPTY, DecoderOptions(lm=tmp_path / "lm", lm_weight=1.0, word_bonus=0.5))
    assert best(beam) == "b"
    assert best(make_beam(TOKENIZER, EMPTY, DecoderOptions(lm=tmp_path / "lm", lm_weight=0.0))) == "a"


def test_a_model_over_tokens_leaves_out_the_space() -> None:
    tokenizer = Tokenizer.from_texts(["我 用 wifi"])
    lm = model("我 用 它 w i f i", "用 我")  # 它: no token of the model
    assert is_over_tokens(lm, tokenizer)
    rows = torch.full((1, 3, len(tokenizer)), 1e-4)
    for frame, token in enumerate(tokenizer.encode("我 用")):
        rows[0, frame, token] = 1.0
    rows = (rows / rows.sum(2, keepdim=True)).log()
    [[first, *_]] = make_beam_decoder(tokenizer, BeamConfig(), lm)(rows, torch.tensor([3]))
    assert tokenizer.decode(first.tokens) == "我 用"
    assert first.gains == pytest.approx(0.7 * lm.score(["我", "用"]) + 2 * 1.5, rel=1e-5)


def test_words_of_single_letters_beside_longer_ones_are_words() -> None:
    assert not is_over_tokens(model("a ab"), TOKENIZER)


def test_a_quantized_model_is_bundled_and_searched_with(tiny_bundle: Path, tmp_path: Path) -> None:
    lm = model("a", "b", "b", "b", "b", "b", "cc").quantized()
    with_decoder(Bundle.load(tiny_bundle), BeamConfig(), lm).save(tmp_path / "bundle")
    found = bundled_model(Bundle.load(tmp_path / "bundle"))
    assert found is not None
    assert {name: array.dtype for name, array in found.arrays.items()} == {
        name: array.dtype for name, array in lm.arrays.items()
    }
    beam = make_beam_decoder(TOKENIZER, BeamConfig(lm_weight=1.0, word_bonus=0.5), found)
    assert best(beam) == "b"


def test_hot_words_are_heard_more_readily() -> None:
    assert best(make_beam_decoder(TOKENIZER, BeamConfig(), None, boosts={"b": 1.0})) == "b"
    assert best(make_beam_decoder(TOKENIZER, BeamConfig(), None, boosts={"b": 0.01})) == "a"
    lm = model("a", "a", "ab")
    assert best(make_beam_decoder(TOKENIZER, BeamConfig(), lm)) == "a"
    assert (
        best(make_beam_decoder(TOKENIZER, BeamConfig(), lm, boosts={"b": 30.0})) == "b"
    )  # no word of the language model


def test_hot_words_can_be_changed_afterwards() -> None:
    """As a stream of the server does: the search is that of one made with these words."""
    lm, hot = model("a", "a", "b", "ab"), {"b": 1.0, "ax": 9.0}  # "ax" cannot be spelt
    for beam in (
        make_beam_decoder(TOKENIZER, BeamConfig(), None),
        make_beam_decoder(TOKENIZER, BeamConfig(), lm),
        make_beam_decoder(TOKENIZER, BeamConfig(closed=True), None, ["a", "b"]),
    ):
        assert best(beam) == "a"
        assert best(with_hot(beam, TOKENIZER, hot)) == "b"
        assert unknown_hot(beam, TOKENIZER, hot) == ("ax",)
        assert best(beam) == "a"
    configured = make_beam_decoder(TOKENIZER, BeamConfig(), lm, boosts={"b": 1.0})
    assert best(with_hot(configured, TOKENIZER, {"ab": 0.1})) == "b"
    tokens = make_beam_decoder(TOKENIZER, BeamConfig(), model("a b c"))
    assert with_hot(tokens, TOKENIZER, hot) is tokens
    assert unknown_hot(tokens, TOKENIZER, hot) == ("b", "ax")


def test_a_hot_phrase_is_heard_where_all_of_its_words_are() -> None:
    """ "a a" is a little more probable than "a b"; a phrase counts from its first word to its last."""
    probabilities = torch.full((3, 4), 1e-3)
    probabilities[0, 2], probabilities[1, 1], probabilities[2, 2], probabilities[2, 3] = 1.0, 1.0, 0.55, 0.45
    given = (probabilities / probabilities.sum(1, keepdim=True)).log()[None], torch.tensor([3])
    tokenizer, words = Tokenizer(["<blank>", " ", "a", "b"]), ["a", "b"]
    usual = make_beam_decoder(tokenizer, BeamConfig(), None, words)
    for hot, expected in (({}, "a a"), ({"a b": 1.0}, "a b"), ({"b b": 1.0}, "a a"), ({"a b b": 9.0}, "a a")):
        for decoder in (make_beam_decoder(tokenizer, BeamConfig(), None, words, hot), with_hot(usual, tokenizer, hot)):
            assert tokenizer.decode(decoder(*given)[0][0].tokens) == expected


def test_hot_words_are_parsed() -> None:
    assert hot_words(("deep", "speech=2.5")) == {"deep": 5.0, "speech": 2.5}
    assert hot_words(("Deep=1",)) == {"deep": 1.0}  # as transcripts spell it
    assert hot_words(("Deep  Speech=1", "a b")) == {"deep speech": 1.0, "a b": 5.0}
    assert hot_words(("deep, speech=2.5,", "a b")) == {"deep": 5.0, "speech": 2.5, "a b": 5.0}  # a list in one
    with pytest.raises(InputError, match="at most 6 words, got 7"):
        hot_words(("a b c d e f g",))
    assert set(hot_words(("deep=15", "a b c d e f=15", "speech=-100")).values()) == {15.0, -100.0}
    for wrong in ("deep=15.1", "a b=16", "deep=-101"):
        with pytest.raises(InputError, match=r"from -\d+ to 15"):
            hot_words((wrong,))
    with pytest.raises(InputError, match=r"a b=-51: expected .* from -50 to 15"):
        hot_words(("a b=-51",))
    for wrong in ("=3", "!=3", "deep=", "deep=loud", "deep=inf", "deep=1e5"):
        with pytest.raises(InputError, match="WORD=NATS"):
            hot_words((wrong,))


def test_a_hot_phrase_is_not_a_book() -> None:
    """Normalising a megabyte of marks would hold up a server's other clients."""
    with pytest.raises(ParameterError, match=r"at most 300 characters, got 4,960"):
        hot_words(["a" + "\u0301" * 4959])


def test_hot_words_beyond_a_closed_vocabulary_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    closed = replace(EMPTY, vocabulary=["a", "b"])
    make_beam(TOKENIZER, closed, DecoderOptions(hot=("b",)))
    assert caplog.messages == []
    make_beam(TOKENIZER, closed, DecoderOptions(hot=("b", "ab")))
    assert caplog.messages == ["hot: ab: hardly any effect, the model learnt only 2 words: a, b ..."]


def test_hot_words_must_be_spelt_and_need_words() -> None:
    with pytest.raises(InputError, match="cannot spell 'x'"):
        make_beam_decoder(TOKENIZER, BeamConfig(), None, boosts={"ax": 1.0})
    with pytest.raises(InputError, match="over tokens"):
        make_beam_decoder(TOKENIZER, BeamConfig(), model("a b c"), boosts={"a": 1.0})


def test_a_language_model_that_cannot_be_spelt_is_refused() -> None:
    with pytest.raises(InputError, match="no letters for its words"):
        make_beam_decoder(TOKENIZER, BeamConfig(closed=True), model("A B", "AB"))
    assert best(make_beam_decoder(TOKENIZER, BeamConfig(), model("a AB", "ab AB"))) == "a"  # the others are left out


def test_weights_without_a_language_model_are_refused() -> None:
    for options in (DecoderOptions(lm_weight=1.0), DecoderOptions(word_bonus=0.0)):
        with pytest.raises(InputError, match="no language model"):
            make_beam(TOKENIZER, EMPTY, options)


def test_language_model_and_weights_travel_in_the_bundle(tiny_bundle: Path, tmp_path: Path) -> None:
    lm = model("ab b", "b c", "c", order=3)
    path = tmp_path / "with-lm.safetensors"
    with_decoder(Bundle.load(tiny_bundle), BeamConfig(12, lm_weight=0.3, word_bonus=0.1), lm).save(path)
    loaded = bundled_model(Bundle.load(path))
    assert loaded is not None
    assert loaded.score(["ab", "b", "x"]) == lm.score(["ab", "b", "x"])
    recognizer = Recognizer.load(path)
    assert recognizer.beam is not None
    assert (recognizer.beam.config.beam_width, recognizer.beam.config.lm_weight) == (12, 0.3)
    narrow = Recognizer.load(path, options=DecoderOptions(beam=3, word_bonus=-1.0)).beam
    assert narrow is not None
    assert (narrow.config.beam_width, narrow.config.lm_weight, narrow.config.word_bonus) == (3, 0.3, -1.0)
    samples = torch.randn(8000, generator=torch.Generator().manual_seed(0))
    words = recognizer.transcribe(samples, 8000).words
    assert words
    assert all(0 < word.confidence <= 1 for word in words)


def test_a_decoder_configured_by_version_0_1_is_read() -> None:
    chosen = {"beam_width": 9, "lm_weight": 0.4, "best": 3}
    assert beam_config(chosen, DecoderOptions(), closed=False) == BeamConfig(9, lm_weight=0.4, nbest=3)


def test_weights_in_half_precision_are_widened(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(tiny_bundle)
    halves = {name: tensor.half() for name, tensor in bundle.weights.items()}
    replace(bundle, weights=halves).save(tmp_path / "half.safetensors")
    assert (
        Recognizer.load(tmp_path / "half.safetensors", engine="torch").model.module.output.weight.dtype == torch.float32
    )


PRONUNCIATIONS = {"a": [(2, 3), (4,)], "b": [(2, 3)]}


@pytest.mark.parametrize(
    ("tokens", "phones", "arrays"),
    [
        (["<blank>", " ", "b"], 5, {}),
        (["<blank>", "a", "b"], 5, {}),
        (["<blank>", " ", "a", "b"], 4, {}),
        (["<blank>", " ", "a", "b"], 5, {"phones": None}),
        (["<blank>", " ", "a", "b"], 5, {"phones": torch.tensor([2.5, 0.0, 4.0, 0.0, 2.0, 0.0])}),
        (["<blank>", " ", "a", "b"], 5, {"phones": torch.tensor([0, 2, 0, 2, 0])}),
        (["<blank>", " ", "a", "b"], 5, {"phones": torch.tensor([1, 0, 4, 0, 2, 0])}),
        (["<blank>", " ", "a", "b"], 5, {"pronounced": torch.tensor([[1], [1], [1]])}),
        (["<blank>", " ", "a", "b"], 5, {"pronounced": torch.tensor([1, 1, 1]).bfloat16()}),
    ],
)
def test_pronunciations_that_do_not_fit_the_bundle_are_refused(
    tokens: list[str], phones: int, arrays: dict[str, torch.Tensor | None]
) -> None:
    model = NGram.from_orders(*estimate([["a", "b"], ["b"]], EstimateConfig(2)))
    plain = replace(EMPTY, tokens=["<blank>", " ", "a", "b"], config={"phones": 5})
    whole = with_decoder(plain, BeamConfig(), model, Pronunciations.of(PRONUNCIATIONS))
    found = bundled_pronunciations(whole)
    assert found is not None
    assert found.to_dict() == PRONUNCIATIONS
    assert whole.language_model is not None
    tensors = {key: value for key, value in (whole.language_model.arrays | arrays).items() if value is not None}
    part = replace(whole.language_model, arrays=tensors)
    damaged = replace(whole, tokens=tokens, config={"phones": phones}, language_model=part)
    with pytest.raises(InputError, match="pronunciations do not fit"):
        bundled_pronunciations(damaged)


def test_the_callers_own_words_are_pronounced_by_their_letters(caplog: pytest.LogCaptureFixture) -> None:
    """Those of another language are not, nor what the bundle's own model lacks."""
    spoken = Pronunciations.of({"ab": [(2, 3)], "ba": [(3, 2)], "aa": [(2, 2)]}, ["ab", "ba", "aa", "b"])
    plain = replace(EMPTY, tokens=["<blank>", " ", "a", "b"], config={"phones": 4})
    bundle = with_decoder(plain, BeamConfig(), model("ab ba", "aa b"), spoken)
    tokenizer = Tokenizer(bundle.tokens)
    own = with_own_words(spoken, model("ab ba aa b", "bab", 201 * "ab"), tokenizer, bundle)
    assert own.to_dict() == spoken.to_dict() | {"bab": [(3, 2, 3)]}
    guessed, left = caplog.messages
    assert guessed.startswith("lm: new to the model: bab; how that sounds is guessed")
    assert left.startswith("lm: without a pronunciation, and not found unless hot, are 1 of its 6 words: abab")
    caplog.clear()
    assert with_own_words(spoken, model("ab bb", "bab bbb"), tokenizer, bundle) is spoken
    assert "lm: without a pronunciation, and not found unless hot, are 3 of its 4 words: bab, bb, bbb" in caplog.text


def test_a_pronounced_word_of_a_thousand_letters_is_refused() -> None:
    """Each hypothesis would take minutes to spell."""
    silent = Pronunciations.of({"ab": [(2, 3)]}, ["ab", 201 * "a"])
    assert silent.known() == {"ab"}
    assert Pronunciations.of({200 * "a": [(2, 3)]}).known() == {200 * "a"}
    with pytest.raises(InputError, match=r"aaaa\.\.\.: a word of 1,000 letters; at most 200"):
        Pronunciations.of({1000 * "a": [(2, 3)]})


def test_a_search_for_words_without_a_space_is_refused() -> None:
    with pytest.raises(InputError, match="lack the space"):
        make_beam_decoder(Tokenizer(["<blank>", "a", "b"]), BeamConfig(), None, ["a", "ab"])
