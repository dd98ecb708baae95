"""The linear classifier and what it decides."""

import dataclasses
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from ds2.curation.classifier import ALONE, Classifier
from ds2.curation.filter import (
    FilterConfig,
    filter_segments,
    kept_against_wer,
    learner,
    read_checked,
    roc,
    thinned,
)
from ds2.curation.score import FEATURES
from ds2.curation.text_errors import bad_threshold, word_counts, word_gap
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError

Tensor = torch.Tensor


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def newton(inputs: np.ndarray, targets: np.ndarray, ridge: float) -> np.ndarray:
    """Ridge logistic regression by iteratively reweighted least squares; the constant is penalised as well."""
    inputs = np.column_stack([inputs, np.ones(len(inputs))])
    weights = np.zeros(inputs.shape[1])
    for _ in range(50):
        odds = 1 / (1 + np.exp(-inputs @ weights))
        gradient = inputs.T @ (odds - targets) / len(targets) + 2 * ridge * weights
        hessian = (inputs * (odds * (1 - odds))[:, None]).T @ inputs / len(targets) + 2 * ridge * np.eye(len(weights))
        weights -= np.linalg.solve(hessian, gradient)
    return weights


def test_the_fit_is_that_of_newtons_method() -> None:
    generator = np.random.default_rng(0)
    examples = generator.normal(size=(200, 6)) * [1, 10, 100, 1, 1, 1] + 5
    bad = examples @ [1, 0.1, -0.01, 0, 0, 0.5] + generator.normal(size=200) > 7.5
    found = Classifier.fit(torch.from_numpy(examples), torch.from_numpy(bad), ridge=1e-3)
    standardised = (examples - examples.mean(0)) / examples.std(0, ddof=1)
    expected = newton(standardised, bad.astype(float), 1e-3)
    assert np.allclose([*found.weights, found.bias], expected, atol=1e-4)
    odds = found(torch.from_numpy(examples)).numpy()
    assert np.allclose(odds, standardised @ expected[:-1] + expected[-1], atol=1e-3)


def test_examples_of_one_kind_leave_the_cost_per_character_to_decide() -> None:
    examples = torch.rand(30, 6, dtype=torch.float64)
    one = torch.arange(30) == 3
    for bad in (torch.zeros(30, dtype=torch.bool), one, ~one):
        odds = learner(bad, FilterConfig())(examples, bad)(examples)
        assert torch.equal(odds.argsort(), examples[:, 2].argsort())


def test_word_counts() -> None:
    assert word_counts("one two three", "One, three!") == (1, 3)
    assert word_counts("", "one") == (1, 0)
    assert word_counts("我去北京", "我去南京") == (1, 4)


def test_the_threshold_keeps_the_good_part_below_its_wer() -> None:
    errors, lengths = doubles(0, 0, 1, 5, 10), doubles(10, 10, 10, 10, 10)
    assert bad_threshold(errors, lengths, 0.05) == pytest.approx(0.1)  # 1 error in 30 words; with 5 more 6 in 40
    assert bad_threshold(errors, lengths, 0.01) == 0.0
    assert bad_threshold(errors, lengths, 0.5) == 0.5


def test_a_few_texts_that_are_all_wrong_are_bad_among_many_faultless_ones() -> None:
    errors, lengths = doubles(*[0] * 46, 9, 11, 11, 24), doubles(*[12] * 46, 16, 11, 13, 26)
    assert bad_threshold(errors, lengths, 0.05) < 9 / 16


def test_when_even_the_best_are_not_good_the_median_divides() -> None:
    assert bad_threshold(doubles(5, 10), doubles(10, 10), 0.05) == 0.5  # none is good enough: the median


def test_equal_rates_are_on_the_same_side() -> None:
    assert bad_threshold(doubles(0, 1, 1), doubles(10, 10, 10), 0.05) == 0.0


def test_kept_against_wer_by_hand() -> None:
    shares, wers = kept_against_wer(doubles(2, -1, 0), doubles(4, 0, 1), doubles(4, 5, 5))
    assert shares.tolist() == pytest.approx([1 / 3, 2 / 3, 1])
    assert wers.tolist() == pytest.approx([0, 0.1, 5 / 14])


def test_the_area_under_the_roc_is_the_share_of_pairs_in_order() -> None:
    generator = torch.Generator().manual_seed(0)
    odds = torch.randn(50, generator=generator, dtype=torch.float64)
    bad = torch.rand(50, generator=generator) < 0.3
    points, area = roc(odds, bad)
    pairs = (odds[bad][:, None] > odds[~bad][None, :]).double()
    assert area == pytest.approx(float(pairs.mean()))
    assert points[0] == (0, 0)
    assert points[-1] == (1, 1)
    assert roc(odds, torch.zeros(50, dtype=torch.bool))[1] == 0.5


def test_a_curve_keeps_its_ends() -> None:
    points = [(float(index), 0.0) for index in range(1000)]
    assert len(thinned(points)) == 200
    assert (thinned(points)[0], thinned(points)[-1]) == (points[0], points[-1])
    assert thinned(points[:5]) == points[:5]


def segments(count: int, seed: int = 0) -> tuple[list[Utterance], dict[str, str]]:
    """Scored segments, a third of them with a text that is not what is said and costs more; and what is said."""
    rng = np.random.default_rng(seed)
    scored, truth = [], {}
    for number in range(count):
        text = " ".join(rng.choice(["one", "two", "three", "four"], 8))
        wrong = number % 3 == 0
        truth[str(number)] = " ".join(["five"] * 8) if wrong else text
        facts = {"id": str(number), "hypothesis": truth[str(number)], "frames": 200}
        facts["cost"] = float(rng.normal(60 if wrong else 10, 12))
        scored.append(Utterance(Path(f"/{number}.flac"), 6.0, text, extra=facts))
    return scored, truth


def test_segments_whose_text_is_wrong_are_rejected() -> None:
    scored, truth = segments(300)
    checked = {key: truth[key] for key in list(truth)[:150]}
    judged, report = filter_segments(scored, checked, FilterConfig(wer=0.02))
    kept = [int(utterance.extra["id"]) for utterance in judged if utterance.extra["kept"]]
    assert sum(number % 3 == 0 for number in kept) / len(kept) < 0.05
    assert 0.5 < report.kept < 0.72
    assert report.examples == 150
    assert report.bad == 50
    assert report.area > 0.95
    assert report.wer_before == pytest.approx(1 / 3)
    assert report.wer_after <= 0.03
    assert report.judged_by == "checked segments"


def test_a_wanted_share_is_kept() -> None:
    scored, truth = segments(100)
    judged, report = filter_segments(scored, truth, FilterConfig(keep=0.4))
    assert sum(utterance.extra["kept"] for utterance in judged) == 40
    assert report.kept == 0.4


def test_without_truth_the_model_is_the_judge() -> None:
    scored, _ = segments(100)
    _, report = filter_segments(scored, None, FilterConfig())
    assert report.judged_by == "the model's own transcripts"
    assert report.examples == 100
    assert 0.55 < report.kept < 0.75  # those more probably good than bad
    assert report.area is None
    assert "the true WER needs checked segments" in report.summary


@pytest.mark.parametrize("checked", [False, True])
def test_what_is_said_of_the_kept_segments_is_true_of_them(checked: bool) -> None:
    """A classifier of few, noisy segments does better on those that it learnt from than on others."""
    differences = []
    for seed in range(10):
        scored, truth = segments(30)
        rng = np.random.default_rng(seed)
        for each in scored:
            each.extra["cost"] += float(rng.normal(0, 40))
        judged, report = filter_segments(scored, truth if checked else None, FilterConfig(keep=0.6))
        assert report.wer_before == pytest.approx(wer(scored, truth))
        assert report.wer_after == pytest.approx(wer([each for each in judged if each.extra["kept"]], truth))
        differences.append(report.wer_held_out - report.wer_after)
        if checked:
            shown = f"to {report.wer_held_out:.2%}, by cross-validation on 30 checked segments"
        else:
            shown = f"{report.wer_before:.1%} before, {report.wer_after:.1%} after"
        assert shown in report.summary
    assert np.mean(differences) > 0.01


def wer(chosen: list[Utterance], truth: dict[str, str]) -> float:
    errors, words = zip(*[word_counts(truth[each.extra["id"]], each.text) for each in chosen], strict=True)
    return sum(errors) / sum(words)


def test_a_text_that_lacks_a_line_is_rejected_however_well_the_rest_fits() -> None:
    """One bad segment is too few to learn from. A wanted share is kept all the same, and so is a misheard word."""
    scored, _ = segments(100)
    scored = [each for number, each in enumerate(scored) if number % 3]
    scored[1].extra["hypothesis"] += " six seven six seven six"
    scored[2].extra["hypothesis"] += " six"
    judged, _ = filter_segments(scored, None, FilterConfig())
    assert [number for number, each in enumerate(judged) if not each.extra["kept"]] == [1]
    judged, _ = filter_segments(scored, None, FilterConfig(keep=1.0))
    assert all(each.extra["kept"] for each in judged)


def test_the_longest_gap_between_a_text_and_what_is_said() -> None:
    assert word_gap("one two three four five six", "one six") == 4
    assert word_gap("one six", "One two, three four; five six!") == 4
    assert word_gap("one two three", "one too three") == 0
    assert word_gap("", "one two") == 2
    assert word_gap("", "") == 0


def test_where_all_are_good_all_are_kept() -> None:
    scored, _ = segments(100)
    scored = [each for number, each in enumerate(scored) if number % 3]
    assert filter_segments(scored, None, FilterConfig())[1].kept == 1.0


def test_nothing_is_not_a_result() -> None:
    scored, truth = segments(60)
    scored = [dataclasses.replace(each, text="six " * 8) for each in scored]
    with pytest.raises(InputError, match=r"no segment is good enough for wer = 0\.01: raise it, or give keep"):
        filter_segments(scored, truth, FilterConfig(wer=0.01))


@pytest.mark.parametrize("wrong", [0, 1, 2, 4])
def test_few_wrong_texts_among_the_checked_are_enough(wrong: int) -> None:
    """Among 50 of which nearly all are right, the others are found, and the rest is kept."""
    scored, truth = segments(150)
    good, bad = scored[1::3] + scored[2::3], scored[::3]
    chosen = good[: 50 - wrong] + bad[:wrong]
    judged, report = filter_segments(
        chosen + good[60:80], {key: truth[key] for key in (each.extra["id"] for each in chosen)}, FilterConfig(wer=0.01)
    )
    assert report.bad == wrong
    assert not any(each.extra["kept"] for each in judged[50 - wrong : 50])
    assert report.kept > 0.8
    assert report.examples_kept > 0.8
    json.loads(json.dumps(asdict(report), allow_nan=False))


def test_too_few_examples_are_refused() -> None:
    scored, truth = segments(30)
    with pytest.raises(InputError, match=r"5 checked segments that are here: at least 20"):
        filter_segments(scored, dict(list(truth.items())[:5]), FilterConfig())


@pytest.mark.parametrize("values", [{"keep": 0.0}, {"keep": 1.2}, {"wer": -0.1}])
def test_shares_that_are_none_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        FilterConfig(**values)


def test_checked_segments_are_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "checked.jsonl"
    path.write_text('{"id": "a/1", "text": "one"}\n\n{"id": "a/2", "text": ""}\n')
    assert read_checked(path) == {"a/1": "one", "a/2": ""}
    for line in ("one two", '{"id": 3}', "[1]"):
        path.write_text('{"id": "a/1", "text": "one"}\n' + line)
        with pytest.raises(InputError, match=r"checked\.jsonl:2: expected"):
            read_checked(path)


@pytest.mark.parametrize("faulty", [0, 10])
def test_a_weak_model_judges_by_the_alignment(faulty: int) -> None:
    """Its own transcripts have every third word wrong, whether the text is right or not."""
    scored, _ = segments(300)
    rng = np.random.default_rng(1)
    for number, each in enumerate(scored):
        heard = [word if place % 3 else "the" for place, word in enumerate(each.text.split())]
        wrong = faulty and number % faulty == 0
        each.extra.update(hypothesis=" ".join(heard), cost=float(rng.normal(4 if wrong else 1, 0.2) * len(each.text)))
    judged, report = filter_segments(scored, None, FilterConfig())
    kept = [int(each.extra["id"]) for each in judged if each.extra["kept"]]
    assert report.judged_by == "the alignment"
    assert len(kept) > 0.97 * (300 - 300 // max(faulty, 1) if faulty else 300)
    assert not faulty or sum(number % faulty == 0 for number in kept) == 0
    assert (report.area, report.roc) == (None, [])
    assert [name for name, weight in zip(FEATURES, report.classifier.weights, strict=True) if weight] == [ALONE]
    assert "% of the words differ from the model's transcripts; a better model judges" in report.summary
    json.dumps(asdict(report), allow_nan=False)
