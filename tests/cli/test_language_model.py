"""ds2 lm."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused

from ds2.bundle import Bundle
from ds2.lm.ngram import NGram
from ds2.recognition.bundled_search import with_language_model


def test_language_models_are_built_scored_and_shown(run: Callable[..., Outcome], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat\nthe cat ran\n\na dog sat\n" * 5)
    for name in ("lm.arpa", "lm.arpa.gz", "lm.safetensors"):
        code, shown, _ = run("lm", "build", corpus, "-o", tmp_path / name, "--order", "2")
        assert code == 0
        assert "2-gram model, 6 words" in shown  # six words, <unk>, <s>, </s>
        assert run("lm", "info", tmp_path / name)[1].startswith(f"{tmp_path / name}: 2-gram model")
    assert run("lm", "compile", tmp_path / "lm.arpa.gz", "-o", tmp_path / "compiled")[0] == 0
    assert run("lm", "compile", tmp_path / "lm.arpa", "-o", tmp_path / "small", "--quantize")[0] == 0
    assert b"ds2-ngram-2" in (tmp_path / "small").read_bytes()
    names = ("lm.arpa", "lm.arpa.gz", "lm.safetensors", "compiled", "small")
    values = {run("lm", "score", tmp_path / name, corpus)[1] for name in names}
    assert len(values) == 1
    assert "0 unknown" in values.pop()
    assert_refused(run("lm", "build", tmp_path / "none.txt", "-o", tmp_path / "x.arpa"), "none.txt: cannot be read")
    (tmp_path / "empty.txt").write_text("\n")
    refused = run("lm", "build", corpus, tmp_path / "empty.txt", "-o", tmp_path / "x.arpa")
    assert_refused(refused, "empty.txt: no sentence in it")
    assert_refused(run("lm", "build", corpus, "-o", tmp_path / "x.arpa", "--order", "0"), "order 0")
    assert_refused(run("lm", "build", corpus, "-o", tmp_path / "x.arpa", "--memory", "0"), "memory 0")
    assert_refused(run("lm", "info", corpus), "neither an ARPA file")
    assert_refused(run("lm", "compile", tmp_path / "lm.arpa", "-o", tmp_path / "x.arpa"), "x.arpa: the compiled form")
    both = ("--words", tmp_path / "empty.txt", "--vocabulary", "5")
    assert_refused(run("lm", "build", corpus, "-o", tmp_path / "x.arpa", *both), "--vocabulary: --words says which")
    assert not (tmp_path / "x.arpa").exists()


def test_the_model_of_a_bundle_is_mixed_with_a_text(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    """Rounded as it is there: its probabilities are kept to some hundredths."""
    texts = {"books": "the cat sat\nthe cat ran\na dog sat\n" * 5, "own": "a zebra sat\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
        assert run("lm", "build", tmp_path / f"{name}.txt", "-o", tmp_path / f"{name}.arpa", "--order", "2")[0] == 0
    books = NGram.load(tmp_path / "books.arpa")
    with_language_model(Bundle.load(tiny_bundle), books.quantized(), None).save(tmp_path / "model.safetensors")
    for first in ("books.arpa", "model.safetensors"):
        models = [tmp_path / first, tmp_path / "own.arpa"]
        code, shown, _ = run("lm", "mix", *models, "-o", tmp_path / f"{first}.lm", "--weights", "0.8", "0.2")
        assert code == 0
        assert "2-gram model, 7 words" in shown
    plain, bundled = (NGram.load(tmp_path / f"{first}.lm") for first in ("books.arpa", "model.safetensors"))
    for sentence in (["the", "cat", "sat"], ["a", "zebra", "sat"], ["unheard"]):
        assert bundled.score(sentence) == pytest.approx(plain.score(sentence), rel=0.02)
    (tmp_path / "dev.txt").write_text("the zebra sat\n")
    scored = [
        run("lm", "score", tmp_path / each, tmp_path / "dev.txt")[1] for each in ("books.arpa", "model.safetensors")
    ]
    values = [float(shown.removeprefix("perplexity ").split()[0]) for shown in scored]
    assert values[1] == pytest.approx(values[0], rel=0.02)
    (tmp_path / "cut").write_bytes((tmp_path / "model.safetensors").read_bytes()[:-9])
    for bundle, reason in ((tiny_bundle, "has no language model"), (tmp_path / "cut", "cut: damaged model bundle")):
        assert_refused(run("lm", "mix", bundle, "-o", tmp_path / "x.lm", "--weights", "1"), reason)


def test_prose_is_normalised_or_warned_of(run: Callable[..., Outcome], tmp_path: Path) -> None:
    """With a language the words are those that a recogniser says; without, a warning names the others."""
    prose, plain = tmp_path / "prose.txt", tmp_path / "plain.txt"
    prose.write_text("\u201cHello,\u201d said the man from London.\nIt\u2019s 3 miles.\n" * 5)
    plain.write_text("hello said the man from london\nit's three miles\n" * 5)
    code, shown, log = run("lm", "build", prose, "-o", tmp_path / "prose.arpa", "--language", "en")
    assert (code, "capitals" in log) == (0, False)
    assert "read 10 sentences; counting" in log
    assert "Hello" not in shown
    assert "capitals" not in run("lm", "build", plain, "-o", tmp_path / "plain.arpa")[2]
    assert (tmp_path / "prose.arpa").read_bytes() == (tmp_path / "plain.arpa").read_bytes()
    code, shown, log = run("lm", "build", prose, "-o", tmp_path / "kept.arpa")
    assert code == 0
    assert "ds2: 44% of the words of the first 1,000 sentences have capitals or punctuation: " in log
    assert "--language en" in log
    assert "London." in shown
    code, scored, log = run("lm", "score", tmp_path / "prose.arpa", prose)
    assert "0 unknown" not in scored
    assert "44% of the words of the first 1,000 sentences have" in log
    code, scored, log = run("lm", "score", tmp_path / "prose.arpa", prose, "--language", "en")
    assert "0 unknown" in scored
    assert "capitals" not in log


@pytest.mark.parametrize("pipe", ["pipe", "-"])
def test_texts_come_whole_through_a_pipe(tmp_path: Path, pipe: str) -> None:
    """The first sentences are looked at before all are counted; a pipe gives them only once."""
    text = "".join(f"line {number}\n" for number in range(2000))
    (tmp_path / "lines.txt").write_text(text)
    os.mkfifo(tmp_path / "pipe")
    writing = "cat lines.txt > pipe &" if pipe == "pipe" else ""
    lm = f"{sys.executable} -m ds2 lm"
    for command in (
        f"{lm} build lines.txt -o a.arpa",
        f"{writing} {lm} build {pipe} -o b.arpa",
        f"{writing} {lm} vocabulary {pipe} --dev lines.txt --size 9000 -o c.txt",
        f"{writing} {lm} mix a.arpa b.arpa --dev {pipe} -o d.arpa",
    ):
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, input=text, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()
    assert len((tmp_path / "c.txt").read_text().split()) == 2001
