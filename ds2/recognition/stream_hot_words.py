"""Hot words of one live stream, in the search that all streams of a model share."""

from collections.abc import Mapping

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.hot_phrases import words_of
from ds2.decoder.lexicon import NO_WORD
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.recognition.decoding import lexicon_with_hot, make_beam_decoder, spellable
from ds2.text import Tokenizer


def with_hot(
    beam: BeamDecoder | PronouncingDecoder, tokenizer: Tokenizer, boosts: Mapping[str, float]
) -> BeamDecoder | PronouncingDecoder:
    """The same search with more hot words and phrases: fast, because it keeps the lexicon; words that it lacks are not
    found."""
    if isinstance(beam, PronouncingDecoder):
        return beam.with_boosts(boosts)
    space = beam.space
    spelt = set(spellable(words_of(boosts), tokenizer))
    boosts = {text: nats for text, nats in boosts.items() if spelt.issuperset(text.split())}
    if space.lexicon is None:  # it searches letters, or tokens of a language model, which are no words
        return make_beam_decoder(tokenizer, space.config, None, None, boosts) if space.lm is None else beam
    return BeamDecoder(*space._replace(lexicon=lexicon_with_hot(space.lexicon, tokenizer, boosts)))


def unknown_hot(
    beam: BeamDecoder | PronouncingDecoder, tokenizer: Tokenizer, boosts: Mapping[str, float]
) -> tuple[str, ...]:
    """The words of hot words and phrases that `with_hot` leaves out, because the search does not know them."""
    words = words_of(boosts)
    if isinstance(beam, PronouncingDecoder):
        known = set(words).intersection(beam.words)
        return tuple(word for word in words if word not in known)
    lexicon, spelt = beam.space.lexicon, set(spellable(words, tokenizer))
    if lexicon is None:
        return tuple(word for word in words if beam.space.lm is not None or word not in spelt)
    return tuple(word for word in words if word not in spelt or lexicon.number(tokenizer.encode(word)) == NO_WORD)
