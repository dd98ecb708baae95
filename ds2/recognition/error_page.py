"""The worst utterances of an evaluation in one HTML file, with their sound, without other files or a network."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ds2.audio.files import read_audio_array
from ds2.audio.flac import flac_bytes
from ds2.data.utterance import Utterance
from ds2.metrics import Edit, align_texts, word_errors
from ds2.recognition.evaluate import Evaluation
from ds2.utils.errors import InputError
from ds2.utils.files import write_text
from ds2.utils.pages import as_html, filled, player

WORST = 50  # utterances on the page
RATE = 16000  # Hz, of the sound
MOST_SECONDS = 60.0  # of the sound of an utterance
TEMPLATE = Path(__file__).with_name("error_page.html")


def write_error_page(path: Path, title: str, result: Evaluation, others: Mapping[str, Sequence[str]]) -> None:
    """Writes the page; `others` holds the texts of other models or people by their names, one for each utterance."""
    order = sorted(
        range(len(result.utterances)), key=lambda row: (-result.word_errors[row].errors, -result.word_errors[row].rate)
    )
    wrong = [row for row in order if result.word_errors[row].errors]
    cards = (
        _card(result.utterances[row], {title: result.hypotheses[row]} | {name: others[name][row] for name in others})
        for row in wrong[:WORST]
    )
    summary = f"WER {result.words.rate:.2%}. {len(wrong)} of {len(order)} utterances hold errors"
    parts = {
        "TITLE": as_html(title),
        "SUMMARY": summary + (f"; the worst {WORST} are here." if len(wrong) > WORST else "."),
        "UTTERANCES": "".join(cards),
    }
    write_text(path, filled(TEMPLATE.read_text(encoding="utf-8"), parts))


def _card(utterance: Utterance, hypotheses: Mapping[str, str]) -> str:
    facts = [utterance.place, f"{utterance.duration:.1f} s", *([utterance.speaker] if utterance.speaker else [])]
    spans = "".join(f"<span>{as_html(fact)}</span>" for fact in facts)
    texts = "".join(_comparison(name, utterance.text, hypothesis) for name, hypothesis in hypotheses.items())
    return f"<article><h2>{as_html(utterance.span.path.name)}{spans}</h2>{_sound(utterance)}{texts}</article>"


def _sound(utterance: Utterance) -> str:
    """The sound in the page itself, in one channel; of a long utterance its beginning."""
    try:
        longest = min(utterance.duration, MOST_SECONDS)
        samples, _ = read_audio_array(utterance.audio_path, RATE, utterance.offset or 0.0, longest)
    except InputError as error:
        return f"<p>{as_html(error)}</p>"
    return player("audio/flac", flac_bytes(samples, RATE))


def _comparison(name: str, reference: str, hypothesis: str) -> str:
    counts = word_errors(reference, hypothesis)
    title = f"{name}: {counts.errors} errors in {counts.reference_length} words"
    words = "".join(_columns(align_texts(reference.split(), hypothesis.split())))
    return f'<h3>{as_html(title)}</h3><p class="words">{words}</p>'


def _columns(edits: Sequence[Edit]) -> Iterator[str]:
    """Each word of the reference above that of the hypothesis; a dot where one has none."""
    for edit in edits:
        above, below = as_html(edit.reference or "·"), as_html(edit.hypothesis or "·")
        left_out = f"<del>{above}</del>" if edit.kind == "delete" else above
        if edit.kind == "equal":
            yield f"<span><b>{above}</b><i>{below}</i></span> "
        else:
            yield f'<span class="wrong"><b>{left_out}</b><ins>{below}</ins></span> '
