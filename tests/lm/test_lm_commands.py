"""ds2 lm vocabulary, mix and prune, used together."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lm.test_ngram import corpus

from ds2.cli.main import main
from ds2.lm.ngram import NGram

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        return main(["lm", *map(str, arguments)]), *capsys.readouterr()

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """first.txt and second.txt differ in kind; most of dev.txt is like first.txt."""
    first, second = corpus(240, 12, 1), corpus(220, 30, 2)
    for name, sentences in (("first", first[40:]), ("second", second[20:]), ("dev", first[:40] + second[:20])):
        lines = map(" ".join, sentences)
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def build(run: Run, folder: Path, *options: object) -> list[Path]:
    models = [folder / "first.arpa.gz", folder / "second.lm"]
    for model in models:
        text = folder / f"{model.name.partition('.')[0]}.txt"
        assert run("build", text, "-o", model, "--order", "3", *options)[0] == 0
    return models


def perplexity(run: Run, model: Path, text: Path) -> float:
    return float(run("score", model, text)[1].split()[1])


def test_from_texts_to_a_small_model(run: Run, folder: Path) -> None:
    """The mixture predicts dev better than any part; the pruned one has the requested size and is little worse."""
    texts, dev = [folder / "first.txt", folder / "second.txt"], folder / "dev.txt"
    code, shown, _ = run("vocabulary", *texts, "--dev", dev, "--size", "15", "-o", folder / "words.txt")
    assert code == 0
    assert len((folder / "words.txt").read_text().split()) == 15
    assert shown.endswith("words.txt: 15 words\n")
    models = build(run, folder, "--words", folder / "words.txt")
    assert run("mix", *models, "--dev", dev, "-o", folder / "mixed.lm")[0] == 0
    counts = folder / "counts.lm"
    assert run("build", *texts, "-o", counts, "--no-continuation", "--words", folder / "words.txt")[0] == 0
    size = ("--ngrams", "300", "--histories", counts)
    assert run("prune", folder / "mixed.lm", *size, "-o", folder / "small.arpa")[0] == 0
    assert 290 <= NGram.load(folder / "small.arpa").ngrams <= 300
    parts = [perplexity(run, model, dev) for model in models]
    mixed, small = (perplexity(run, folder / name, dev) for name in ("mixed.lm", "small.arpa"))
    assert mixed < min(parts)
    assert mixed < small < 1.3 * mixed


def test_the_perplexity_on_dev_is_told_before_the_mixture_is_made(run: Run, folder: Path) -> None:
    models = build(run, folder)
    _, shown, _ = run("mix", *models, "--dev", folder / "dev.txt", "-o", folder / "mixed.arpa")
    first, *rest = shown.splitlines()
    told = float(first.partition("perplexity ")[2].split()[0])
    assert told == pytest.approx(
        perplexity(run, folder / "mixed.arpa", folder / "dev.txt"), rel=0.1
    )  # the two differ where the mixture backs off
    weights = [float(line.partition("weight ")[2].partition(",")[0]) for line in rest[:2]]
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert weights[0] > weights[1] > 0.1
    assert "lost" not in shown


def test_a_model_that_dev_gives_no_weight_is_named(run: Run, folder: Path) -> None:
    models = build(run, folder)
    _, shown, _ = run("mix", *models, "--dev", folder / "first.txt", "-o", folder / "mixed.arpa")
    lines = shown.splitlines()
    assert "lost" not in lines[1]
    assert lines[2].endswith("; what it alone knows is lost: give --weights to keep it")


def test_given_weights_are_taken_and_what_weighs_nothing_is_left_out(run: Run, folder: Path) -> None:
    models = build(run, folder)
    assert run("mix", *models, "--weights", "1", "0", "-o", folder / "mixed.lm")[0] == 0
    assert NGram.load(folder / "mixed.lm").words == NGram.load(models[0]).words
    first, mixed = (perplexity(run, model, folder / "dev.txt") for model in (models[0], folder / "mixed.lm"))
    assert mixed == pytest.approx(first, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mix first.arpa.gz -o x.lm", "give either --dev or --weights"),
        ("mix first.arpa.gz -o x.lm --weights 1 --dev dev.txt", "give either --dev or --weights"),
        ("mix first.arpa.gz second.lm -o x.lm --weights 1", "one for each of 2 models"),
        ("mix first.arpa.gz second.lm -o x.lm --weights 1 -1", "none negative"),
        ("mix first.arpa.gz second.lm -o x.lm --weights 0.7 0.7", "1 in all"),
        ("mix first.arpa.gz second.lm -o x.lm --weights nan 1", "1 in all"),
        ("mix first.arpa.gz rounded.lm -o x.lm --weights 0.5 0.5", "rounded.lm: quantised"),
        ("mix first.arpa.gz dev.txt -o x.lm --weights 0.5 0.5", "dev.txt: neither an ARPA file"),
        ("prune first.arpa.gz -o x.lm", "give a --threshold above 0"),
        ("prune first.arpa.gz -o x.lm --threshold -1", "give a --threshold above 0"),
        ("prune first.arpa.gz -o x.lm --threshold nan", "give a --threshold above 0"),
        ("vocabulary first.txt --dev dev.txt --size 0 -o x.txt", "--size of at least 1"),
        ("build first.txt -o x.lm --order 65", "order 65 must be from 1 to 64"),  # a longer one could not be read
        ("build first.txt -o x.lm --memory inf", "memory inf must be above 0 and at most 1e+09 MB"),
        ("build first.txt -o x.lm --words none.txt", "none.txt: cannot be read"),
        ("build first.txt -o x.lm --language xx", "--language: xx: not a known language"),
        ("mix first.arpa.gz second.lm -o x.lm --dev dev.txt --language xx", "--language: xx: not a known language"),
    ],
)
def test_impossible_requests_end_in_one_line(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    build(run, folder)
    run("compile", folder / "second.lm", "-o", folder / "rounded.lm", "--quantize")
    code, shown, errors = run(*arguments.split())
    assert (code, shown) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert not list(folder.glob("x.*"))


def test_prose_is_normalised_or_warned_of(run: Run, folder: Path) -> None:
    """The words of a list and the weights of a mixture are those of recognised text."""
    models = build(run, folder)
    dev, words = folder / "prose.txt", folder / "words.txt"
    dev.write_text("".join(f"{line.upper()}!\n" for line in (folder / "dev.txt").read_text().splitlines()))
    warning = "--language en normalises English text"
    _, plain, errors = run("mix", *models, "--dev", folder / "dev.txt", "-o", folder / "mixed.lm")
    assert warning not in errors
    _, shown, errors = run("mix", *models, "--dev", dev, "-o", folder / "mixed.lm", "--language", "de")
    assert shown.splitlines()[1:] == plain.splitlines()[1:]
    assert warning not in errors
    command = ["vocabulary", dev, "--dev", dev, "--size", "5", "-o", words]
    assert warning in run(*command)[2]
    assert words.read_text().isupper()
    assert warning in run("build", dev, "-o", folder / "listed.lm", "--words", words, "--language", "en")[2]
    assert warning not in run(*command, "--language", "en")[2]
    assert words.read_text().islower()


def test_the_texts_of_a_manifest_are_sentences(run: Run, folder: Path) -> None:
    line = '{"audio_filepath": "a.wav", "duration": 1.0, "text": "%s"}\n'
    (folder / "train.jsonl").write_text(line % "one two" + line % "two three")
    run("build", str(folder / "train.jsonl"), "-o", str(folder / "a.lm"), "--order", "2")
    assert {"one", "two", "three"} < set(NGram.load(folder / "a.lm").words)
    (folder / "bad.jsonl").write_text(line % "one" + "two three\n")
    code, _, error = run("build", str(folder / "bad.jsonl"), "-o", str(folder / "b.lm"), "--order", "2")
    assert code == 2
    assert "bad.jsonl:2: no line of a manifest with a text" in error


def test_ideographs_are_known_by_characters(run: Run, folder: Path) -> None:
    text = folder / "zh.txt"
    text.write_text("今天天气很好\n我们去公园\n" * 3)
    assert run("build", text, "-o", folder / "zh.lm", "--characters")[0] == 0
    code, _, errors = run("score", folder / "zh.lm", text)
    assert code == 0
    assert "give --characters" in errors
    assert "English" not in errors
    text.write_text("今天天气很好。\n")
    assert "--language zh" in run("score", folder / "zh.lm", text)[2]
    assert run("score", folder / "zh.lm", text, "--characters", "--language", "zh")[2] == ""
