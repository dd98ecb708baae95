"""ds2 lm."""

from collections.abc import Callable
from pathlib import Path

from helpers.commands import Outcome, assert_refused


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
