"""`ds2 report`: a training run as one HTML file, without other files or a network."""

import base64
import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ds2.bundle import Bundle
from ds2.data.dataset import SpeechDataset, collate
from ds2.data.manifest import read_manifest, summary
from ds2.data.utterance import Utterance
from ds2.decoder.greedy import greedy
from ds2.metrics import align_texts, word_errors
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ModelConfig
from ds2.text import Tokenizer
from ds2.train import plots
from ds2.train.best_epoch import best_of
from ds2.train.checkpoint import load_checkpoint
from ds2.train.curves import curves
from ds2.train.fine_tune import WITH_SEARCH
from ds2.train.fingerprint import OF_DATA, fixed_values, saved_config
from ds2.train.metrics import read_metrics
from ds2.train.network_drawing import network_drawing
from ds2.train.run_folder import read_start
from ds2.utils.config import dotted_keys
from ds2.utils.errors import InputError
from ds2.utils.files import read_text, write_text
from ds2.utils.pages import as_html, filled
from ds2.utils.version import VERSION

WORST = 15  # utterances in the list of errors
AT_A_TIME = 16  # utterances decoded in a batch
PAGE = Path(__file__).with_name("report.html")


def write_run_report(run: Path, output: Path) -> None:
    """Reads a run's folder and writes the page.

    Raises:
        InputError: the folder holds no finished epoch, or its files hold something else than a training writes.
    """
    try:
        page = _page(run)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{run}: not a run of ds2 train, or damaged ({error!s:.100})") from error
    write_text(output, page)


def _page(run: Path) -> str:
    """The page as HTML; its policy lets a browser run the script of the template and load nothing."""
    history = read_metrics(run / "metrics.jsonl") if (run / "metrics.jsonl").exists() else []
    if not run.is_dir():
        raise InputError(f"{run}: no such folder; name the output folder of a training")
    if not history:
        begun = any((run / name).exists() for name in ("checkpoint.pt", ".lock"))
        remedy = (
            "wait for the first epoch of its training to end" if begun else "it holds no training, name one that does"
        )
        raise InputError(f"{run}: no metrics.jsonl with figures; {remedy}")
    saved = load_checkpoint(run / "checkpoint.pt", "fingerprint", "random")
    of_data = {name: saved["fingerprint"].get(name) for name in OF_DATA}
    config = fixed_values(saved_config(run / "checkpoint.pt", saved["fingerprint"])) | of_data
    bundle = Bundle.load(run / "best.safetensors")
    observed = [load_checkpoint(path, "epoch") for path in sorted((run / "observed").glob("epoch_*.pt"))]
    found = _with_search(run / WITH_SEARCH)
    sections = [
        ("curves", "Curves", curves([*read_start(run), *history])),
        ("alignments", "Alignments", "".join(_alignments(observed, bundle))),
        ("errors", "Worst errors", "".join(_error_listing(config, bundle, found.get("texts", {})))),
        ("network", "Network", network_drawing(bundle, observed[-1] if observed else {})),
        ("layers", "Layers", "".join(_layers(observed))),
        ("data", "Data", "".join(_data(config))),
        ("config", "Configuration", _configuration(config)),
        ("environment", "Environment", _pairs(_environment(saved))),
    ]
    sections = [section for section in sections if section[2]]
    page = PAGE.read_text(encoding="utf-8")
    script = page.partition("<script>")[2].partition("</script>")[0]
    parts = {
        "SCRIPT_HASH": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "TITLE": as_html(run.resolve().name),
        "TILES": "".join(_tiles(history, bundle, config, found)),
        "LINKS": "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections),
        "SECTIONS": "".join(
            f'<section id="{name}"><h2>{title}</h2>{content}</section>' for name, title, content in sections
        ),
    }
    return filled(page, parts)


def _with_search(path: Path) -> dict[str, Any]:
    """What `write_with_search` keeps of a fine-tuning; empty for another training."""
    return dict(json.loads(read_text(path))) if path.exists() else {}


def _tiles(
    history: Sequence[dict[str, Any]], bundle: Bundle, config: dict[str, Any], found: dict[str, Any]
) -> Iterator[str]:
    best = best_of(history)
    parameters = sum(tensor.numel() for tensor in bundle.weights.values())
    seconds = sum(epoch["seconds"] for epoch in history)
    facts = {}
    if found:
        label = f"dev WER after fine-tuning, with the whole search; before {found['before']:.1%}"
        facts[f"{found['after']:.1%}"] = label
    if "per" in best:
        facts[f"{best['per']:.2%}"] = f"dev PER of epoch {best['epoch']}, the best by it"
    facts |= {
        f"{best['wer']:.2%}": f"dev WER of the best epoch, {best['epoch']}, without a language model (greedy)",
        f"{best['cer']:.2%}": "its CER",
        f"{len(history)} of {config['epochs']}": "epochs",
        f"{parameters / 1e6:.2f} M": "parameters",
        f"{config['hours']:.2f} h": f"of audio, {config['utterances']} utterances",
        f"{seconds / 60:.1f} min": "of training",
    }
    if megabytes := history[-1].get("megabytes_per_minibatch"):
        facts[f"{megabytes:.2f} MB"] = "sent per minibatch, by all ranks"
        paused = [1000 * history[-1].get(f"{kind}_seconds_per_minibatch", 0.0) for kind in ("waiting", "communication")]
        facts["{:.1f} + {:.1f} ms".format(*paused)] = "a rank waits and communicates per minibatch"
    for value, label in facts.items():
        yield f'<div class="tile"><b>{as_html(value)}</b><span>{as_html(label)}</span></div>'


def _alignments(observed: Sequence[dict[str, Any]], bundle: Bundle) -> Iterator[str]:
    """The posteriors of every observed utterance, one chart for each epoch, chosen by a slider."""
    if not observed:
        return
    model = ModelConfig.of(bundle)
    few = observed if len(observed) <= 12 else [observed[round(i * (len(observed) - 1) / 11)] for i in range(12)]
    yield "<p>Probability of each token at each frame; the blank is grey. The slider chooses the epoch.</p>"
    yield f'<div class="stages"><input type="range" min="0" max="{len(few) - 1}" value="{len(few) - 1}" '
    yield 'aria-label="epoch"><output></output>'
    for look in few:
        yield f'<div class="stage" data-label="epoch {as_html(look["epoch"])}">'
        for (reference, hypothesis), posteriors in zip(look["texts"], look["posteriors"], strict=True):
            yield f"<p class=hypothesis>{_marked_edits(reference, hypothesis)}</p>"
            yield plots.alignment_chart(posteriors, bundle.tokens, model.frame_seconds)
        yield "</div>"
    yield "</div>"


def _marked_edits(reference: str, hypothesis: str) -> str:
    """The words of the hypothesis as HTML: wrong words inserted, those of the reference deleted."""
    words = []
    for edit in align_texts(reference.split(), hypothesis.split()):
        right, found = as_html(edit.reference or ""), as_html(edit.hypothesis or "")
        words.append(
            {
                "equal": found,
                "substitute": f"<ins>{found}</ins> <del>{right}</del>",
                "insert": f"<ins>{found}</ins>",
                "delete": f"<del>{right}</del>",
            }[edit.kind]
        )
    return " ".join(words)


def _error_listing(config: dict[str, Any], bundle: Bundle, found: Mapping[str, str]) -> Iterator[str]:
    """The dev utterances with the most errors of the best model, or why the dev set cannot be read.

    Args:
        found: the texts by the whole search, of each recording; empty where there are those of the letters alone.
    """
    try:
        utterances = read_manifest(config["data"]["dev"])
        decoded = [(each, found[str(each.span)]) for each in utterances if str(each.span) in found]
        by = "the whole search" if decoded else "the letters alone, without a language model"
        decoded = decoded or list(_recognized_texts(bundle, utterances))
    except InputError as error:
        yield f"<p>{as_html(error)}</p>"
        return
    counted = [(word_errors(utterance.text, text), utterance, text) for utterance, text in decoded]
    wrong = sorted((row for row in counted if row[0].errors), key=lambda row: -row[0].errors)
    yield f"<p>By {by}: "
    yield f"{len(decoded) - len(wrong)} of {len(decoded)} dev utterances are without errors. Wrong words are red, "
    yield "words of the reference are struck through.</p><table><tr><th>errors<th>utterance<th>file</tr>"
    for errors, utterance, text in wrong[:WORST]:
        yield f"<tr><td>{errors.errors} of {errors.reference_length}<td>{_marked_edits(utterance.text, text)}"
        yield f"<td class=file>{as_html(utterance.audio_path.name)}</tr>"
    yield "</table>"


@torch.no_grad()
def _recognized_texts(bundle: Bundle, utterances: Sequence[Utterance]) -> Iterator[tuple[Utterance, str]]:
    config = ModelConfig.of(bundle)
    tokenizer = Tokenizer(bundle.tokens)
    model = AcousticModel(config, len(tokenizer)).eval()
    model.load_state_dict(bundle.weights)
    order = sorted(range(len(utterances)), key=lambda index: utterances[index].duration)
    dataset = SpeechDataset(utterances, tokenizer, config.frontend.sample_rate)
    for start in range(0, len(order), AT_A_TIME):
        batch = collate([dataset[0, index] for index in order[start : start + AT_A_TIME]])
        if batch.utterances:
            hypotheses = greedy(*model(batch.samples, batch.sample_lengths))
            texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in hypotheses]
            yield from zip(batch.utterances, texts, strict=True)


def _layers(observed: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not observed:
        return
    epochs, first, last = [look["epoch"] for look in observed], observed[0], observed[-1]
    titles = {
        "weights": "Weights",
        "gradients": "Gradients of the observed utterances' loss",
        "activations": "Activations",
        "means": "Batch normalisation: running means",
        "variances": "Batch normalisation: running variances",
    }
    yield "<p>Bands hold 98, 80 and 50 % of the values; the line is their median; the horizontal axis is epochs.</p>"
    for kind, title in titles.items():
        if last[kind]:
            series = {name: [look[kind][name] for look in observed] for name in last[kind]}
            opened = " open" if kind == "activations" else ""
            yield f"<details{opened}><summary>{title}</summary>{plots.bands(epochs, series)}</details>"
    yield "<details open><summary>Norm of the gradient over the frames of one utterance</summary>"
    labels = (f"epoch {first['epoch']}", f"epoch {last['epoch']}")
    yield plots.gradient_norm_chart(first["gradients_over_time"], last["gradients_over_time"], labels) + "</details>"
    yield "<details open><summary>Filters of the first convolution: frequency upwards, time to the right</summary>"
    yield plots.tiles(last["filters"], 16, symmetric=True) + "</details>"
    yield "<details open><summary>Their output for one utterance</summary>"
    yield plots.tiles(last["maps"][:32], 4, symmetric=False) + "</details>"


def _data(config: dict[str, Any]) -> Iterator[str]:
    for name, paths in (("Training set", config["data"]["train"]), ("Dev set", [config["data"]["dev"]])):
        try:
            utterances = [utterance for path in paths for utterance in read_manifest(path)]
        except InputError as error:
            yield f"<h3>{name}</h3><p>{as_html(error)}</p>"
            continue
        facts = summary(utterances)
        durations = (facts.shortest, facts.median, facts.longest)
        yield f"<h3>{name}</h3><div class=beside>"
        yield _pairs(
            {
                "manifests": ", ".join(Path(path).name for path in paths),
                "utterances": facts.utterances,
                "hours": f"{facts.hours:.2f}",
                "speakers": facts.speakers or "not named",
                "seconds, shortest / median / longest": " / ".join(f"{seconds:.1f}" for seconds in durations),
                "words": facts.words,
                "characters": "".join(facts.characters).replace(" ", "␣"),
            }
        )
        yield plots.histogram([utterance.duration for utterance in utterances], "seconds") + "</div>"


def _configuration(config: dict[str, Any]) -> str:
    sections = {name: value for name, value in config.items() if isinstance(value, dict)}
    blocks = [("run", {name: value for name, value in config.items() if name not in sections}), *sections.items()]
    cards = (f"<div class=card><h3>{as_html(name)}</h3>{_pairs(dotted_keys(values))}</div>" for name, values in blocks)
    return f"<div class=cards>{''.join(cards)}</div>"


def _environment(saved: dict[str, Any]) -> dict[str, Any]:
    return {
        "report by": f"ds2 {VERSION}",
        "Python": sys.version.split()[0],
        "torch": torch.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "ranks": len(saved["random"]),
    }


def _pairs(values: dict[str, Any]) -> str:
    texts = {key: f"{value:g}" if isinstance(value, float) else value for key, value in values.items()}
    rows = (f"<tr><th>{as_html(key)}<td>{as_html(text)}</tr>" for key, text in texts.items())
    return f"<table class=pairs>{''.join(rows)}</table>"
