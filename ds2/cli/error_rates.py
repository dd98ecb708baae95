"""What ds2 eval prints."""

import sys
from typing import TYPE_CHECKING

from ds2.cli.exits import SOME_FAILED
from ds2.cli.references import shown_area
from ds2.utils.errors import counted, printable

if TYPE_CHECKING:
    from ds2.cli.options import EvaluationOptions
    from ds2.recognition.evaluate import Evaluation


def report_evaluation(
    result: "Evaluation", model: str, others: dict[str, list[str]], outputs: "EvaluationOptions"
) -> int:
    """Prints an evaluation, writes what was asked for, and returns the exit code; `others` hold other transcripts."""
    from ds2.utils.files import write_text

    if outputs.listing is not None:
        write_text(outputs.listing, result.listing)
    if outputs.page is not None:
        from ds2.recognition.error_page import write_error_page

        write_error_page(outputs.page, model, result, others)
    if outputs.calibration is not None:
        from ds2.recognition.plots import draw_reliability

        draw_reliability(result.confidences, result.right, outputs.calibration)
    # Files first: a reader of the output may close it early.
    _print_evaluation(result)
    for field in outputs.by:
        _print_groups(field, result)
    if others:
        _print_comparisons(result, others)
    for line in result.cut_off + result.skipped:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if result.skipped else 0


def _print_evaluation(result: "Evaluation") -> None:
    from ds2.recognition.calibration import area_under_roc, calibration_error

    for name, counts, unit in (("WER", result.words, "words"), ("CER", result.characters, "characters")):
        if not counts.reference_length:
            print(f"{name} unknown: the references are empty, {counts.errors} {unit} were recognised")
            continue
        print(f"{name} {counts.rate:.2%} ({counts.errors} errors in {counts.reference_length} {unit}): ", end="")
        print(f"{counts.substitutions} substituted, {counts.deletions} deleted, {counts.insertions} inserted")
    error = calibration_error(result.confidences, result.right)
    area = area_under_roc(result.confidences, result.right)
    print(f"confidence: expected calibration error {error:.2%}, area under ROC {shown_area(area)}")
    print(f"{result.audio_seconds:.0f} s of audio in {result.compute_seconds:.1f} s: ", end="")
    print(f"real-time factor {result.real_time_factor:.3f}")
    if result.compiling_seconds:
        print(f"{result.compiling_seconds:.1f} s of it compiled kernels, which a second run does not need")
    if skipped := len(result.skipped):
        every = skipped + len(result.utterances)
        print(f"not measured: {skipped} of {every} utterances: {result.skipped[0]}{' ...' if skipped > 1 else ''}")
    if empty := result.references.count(""):
        line = f"{empty} of {len(result.references)} references are empty: every word recognised there is an error"
        print(f"ds2: {line}", file=sys.stderr)


def _print_groups(by: str, result: "Evaluation") -> None:
    from ds2.recognition.error_intervals import errors_by

    for group in errors_by(by, result.utterances, result.word_errors):
        low, high = group.interval
        shown = f"95% interval {low:.2%} to {high:.2%}" if group.utterances > 1 else "too few for an interval"
        print(f"{by} {printable(group.name)}: WER {group.errors.rate:.2%} ({shown}), ", end="")
        print(f"{counted(group.errors.reference_length, 'word')} in {counted(group.utterances, 'utterance')}")


def _print_comparisons(result: "Evaluation", others: dict[str, list[str]]) -> None:
    from ds2.metrics import word_errors
    from ds2.recognition.comparison import better_of, compare

    rows = {f"against {printable(name)}": texts for name, texts in others.items()}
    if len(others) > 1:
        rows[f"against the best of {len(others)} for each utterance"] = better_of(result.references, [*others.values()])
    for title, texts in rows.items():
        counts = list(map(word_errors, result.references, texts))
        found = compare(result.utterances, result.word_errors, counts)
        low, high = found.interval
        print(f"{title}: WER {found.others.rate:.2%} ({found.others.errors} errors); difference ", end="")
        print(f"{found.difference:+.2%} (95% interval {low:+.2%} to {high:+.2%}), ", end="")
        print(f"fewer errors in {counted(found.fewer, 'utterance')}, more in {found.more}; ", end="")
        print(f"permutation test by utterances: p = {found.p_utterances:.3g}", end="")
        if found.p_speakers is not None:
            print(f", by {counted(found.speakers, 'speaker')}: p = {found.p_speakers:.3g}", end="")
        print("; more than chance" if found.significant else "; may be chance")
