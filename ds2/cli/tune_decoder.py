"""ds2 tune-decoder: the weights and the width of a bundle's search."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from ds2.cli.exits import SOME_FAILED
from ds2.cli.options import DEFAULT_TUNED_MODEL, Device, Maybe, Normalize, OptionalOutput, TunedModel
from ds2.cli.overwriting import check_bundle_output
from ds2.cli.references import choose_form, comparable_references, warn_of_few
from ds2.utils.extras import need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds2.bundle import Bundle
    from ds2.data.utterance import Utterance
    from ds2.recognition.evaluate import Evaluation
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.tune_decoder import Tuning


def tune_decoder_command(
    manifest: Positional[Path],
    model: Path,
    words: TunedModel = DEFAULT_TUNED_MODEL,
    output: OptionalOutput = None,
    picture: Maybe[Path] = None,
    normalize: Normalize = None,
    device: Device = "auto",
) -> int:
    """Choose a decoder's weights and beam on held-out utterances.

    Prints the error rate before and after, as ds2 eval does; nothing is written if it would rise. In a bundle with a
    neural language model the weight of its second pass follows. Run ds2 calibrate afterwards.

    Example: ds2 tune-decoder data/dev.jsonl --model best.safetensors --lm lm.arpa.gz --output with-lm.safetensors

    Args:
        manifest: Utterances on which neither model was trained.
        model: Bundle of the acoustic model.
        words: The language model and its words.
        output: Bundle to write; by default the file of the model is overwritten.
        picture: PNG to write, with the error rate over both weights and over the beam.
    """
    from ds2.bundle import Bundle
    from ds2.data.manifest import read_manifest
    from ds2.recognition.plots import draw_tuning
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.tune_decoder import MOST_DECODINGS, tune, tuned_bundle
    from ds2.utils.progress import Progress

    _check_tuning_outputs(output, model, picture)
    utterances, bundle = read_manifest(manifest), Bundle.load(model)
    candidate = _candidate(bundle, words.lm, words.lexicon)
    recognizer = Recognizer.from_bundle(bundle, str(model), device)
    language = choose_form(recognizer.tokenizer, utterances, normalize)
    utterances = comparable_references(recognizer.tokenizer, utterances, language)
    warn_of_few(utterances)
    parts = 3 if candidate.neural_model is None else 4
    with Progress(f"tuning, part 1 of {parts}", MOST_DECODINGS, "decodings") as progress:
        tuning = tune(recognizer, bundle, candidate, utterances, words.closed, progress.step)
    if picture is not None:
        draw_tuning(tuning, picture)
    tuned = _with_second_pass(tuned_bundle(candidate, tuning), utterances, device)
    improved = Recognizer.from_bundle(tuned, "the tuned bundle", device)
    before = _evaluated(recognizer, utterances, language, f"measuring before, part {parts - 1} of {parts}")
    after = _evaluated(improved, utterances, language, f"measuring after, part {parts} of {parts}")
    written = _saved_if_better(tuned, output or model, tuning.unit, before, after)
    _print_search(tuning, candidate.neural_model is not None)
    return SOME_FAILED if tuning.skipped or not written else 0


def _with_second_pass(bundle: "Bundle", utterances: "Sequence[Utterance]", device: str) -> "Bundle":
    """The bundle with the weights of its second pass, if it has one; prints them."""
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.tune_second_pass import tune_second_pass, with_second_pass
    from ds2.utils.progress import Progress

    if bundle.neural_model is None:
        return bundle
    recognizer = Recognizer.from_bundle(bundle, "the tuned bundle", device)
    with Progress("second pass, part 2 of 4", len(utterances), "utterances") as progress:
        chosen = tune_second_pass(recognizer, utterances, progress.step)
    print(f"second pass: weight {chosen.weight:g} of the neural model, word bonus {chosen.bonus:g}, ", end="")
    print(f"{chosen.kept:.0%} kept of the n-gram model's scores")
    return with_second_pass(bundle, chosen)


def _saved_if_better(tuned: "Bundle", target: Path, unit: str, before: "Evaluation", after: "Evaluation") -> bool:
    """Writes the bundle unless it is worse; prints both error rates, and whether they tell."""
    from ds2.recognition.comparison import compare

    old, new = ((each.characters if unit == "CER" else each.words).rate for each in (before, after))
    if new > old:
        print(f"{unit} {old:.2%} before, {new:.2%} after: the bundle is better as it is, nothing is written")
        return False
    tuned.save(target)
    print(f"{unit} {old:.2%} before, {new:.2%} after: written into {target}")
    if not compare(after.utterances, after.word_errors, before.word_errors).significant:
        print("ds2: so small a difference may be chance: compare both by ds2 eval --against on others", file=sys.stderr)
    return True


def _evaluated(
    recognizer: "Recognizer", utterances: "Sequence[Utterance]", language: str | None, title: str
) -> "Evaluation":
    """Transcripts and errors, as `ds2 eval` counts them."""
    from ds2.recognition.evaluate import evaluate
    from ds2.recognition.readings import both_forms
    from ds2.utils.progress import Progress

    with Progress(title, len(utterances), "utterances") as progress:
        return evaluate(recognizer, utterances, progress.step, both_forms(language))


def _candidate(bundle: "Bundle", lm: Path | None, lexicon: Path | None) -> "Bundle":
    """The bundle with the language model and the lexicon of these files."""
    from ds2.data.cmudict import read_pronunciations
    from ds2.data.phone_sets import phone_set
    from ds2.decoder.pronunciations import Pronunciations
    from ds2.recognition.bundled_search import load_search_model
    from ds2.recognition.tune_decoder import candidate_bundle

    pronunciations = None
    if lexicon is not None:  # of a model without phones it is refused later
        phones = phone_set(bundle.phones) if bundle.phones else None
        pronunciations = Pronunciations.of(read_pronunciations(lexicon, phones))
    return candidate_bundle(bundle, load_search_model(lm) if lm is not None else None, pronunciations)


def _check_tuning_outputs(output: Path | None, model: Path, picture: Path | None) -> None:
    from ds2.utils.files import check_writable

    check_bundle_output(output, model)
    if picture is not None:
        need("matplotlib")
    check_writable(output or model, picture)


def _print_search(tuning: "Tuning", has_second_pass: bool) -> None:
    """The weights of the search, and its own error rates."""
    config, alone = tuning.config, "without the second pass" if has_second_pass else "by itself"
    print(f"search: lm_weight {config.lm_weight:g}, word_bonus {config.word_bonus:g}, ", end="")
    print(f"beam {config.beam_width}, threshold {config.score_threshold:g}")
    print(f"search {alone}: {tuning.unit} {tuning.before:.2%} before, {tuning.after:.2%} after; ", end="")
    print(f"no search at all: {tuning.greedy:.2%}")
    for line in tuning.skipped:
        print(f"ds2: {line}", file=sys.stderr)
