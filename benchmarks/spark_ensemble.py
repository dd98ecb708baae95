"""A classifier on deep features, + augmentation, + ensembles: figure 4 of MMLSpark (Hamilton et al. 2018) with speech.

    python benchmarks/spark_ensemble.py --seeds 1 2 3

Which of ten digits is it? The features are those of `english`, which has not learnt from these speakers; the classifier
is Spark's logistic regression. It is trained on five speakers of recipes/digits and tested on the sixth, in turn.

    base             recordings as they are
    + augmentation   copies at other speeds and with noise, in training and in the test, where the scores of the copies
                     of a recording are averaged
    + ensemble       three recordings of one digit decide together

A seed chooses the recordings that train. The table has the mean errors over seeds, and the lowest and highest.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import soundfile
import torch

from ds2.audio.flac import flac_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[1]
AUDIO = ROOT / "recipes" / "digits" / "audio"
TAKES = range(5, 17)  # of each speaker and digit; takes 0 to 4 are the official test part
TRAINED = 4  # takes of each speaker and digit, by a seed
BURST = 3  # recordings that decide together
DIGITS = "zero one two three four five six seven eight nine".split()
LAYER = "convolutions"  # the last of them
RATE = 8000  # Hz
ROWS = ("base", "+ augmentation", "+ ensemble", "+ augmentation + ensemble")


def recordings() -> list[tuple[str, float, int, str, str, bytes]]:
    """speaker, digit, take, recording, burst, content."""
    rows = [json.loads(line) for line in (AUDIO / "utterances.jsonl").read_text().splitlines()]
    found = []
    for row in rows:
        if row["source"] == "fsdd" and row["take"] in TAKES:
            start, frames = round(row["offset"] * RATE), round(row["duration"] * RATE)
            samples, _ = soundfile.read(AUDIO / row["audio_filepath"], frames, start, dtype="float32")
            name = f"{row['speaker']} {row['text']}"
            burst = f"{name} {(row['take'] - TAKES[0]) // BURST}"
            digit = float(DIGITS.index(row["text"]))
            content = flac_bytes(samples, RATE)
            found.append((row["speaker"], digit, row["take"], f"{name} {row['take']}", burst, content))
    return found


def copies_with_features(spark: "SparkSession", model: str) -> "DataFrame":
    """Every copy of every recording, with the mean output of a layer."""
    from ds2.spark import AudioAugmenter, SpeechFeaturizer

    kinds = "speaker string, label double, take int, recording string, burst string, original binary"
    table = spark.createDataFrame(recordings(), kinds).repartition(8)
    augmenter = AudioAugmenter(inputCol="original", outputCol="changed", speeds=[0.9, 1.1], noises=[15.0])
    copies = augmenter.transform(table).drop("original").select("*", "changed.copy", "changed.content")
    featurizer = SpeechFeaturizer(inputCol="content", outputCol="features", model=model, layer=LAYER)
    features = featurizer.transform(copies).drop("content", "changed").repartition(2).cache()
    assert features.where("features IS NULL").count() == 0
    return features


def errors(features: "DataFrame", speaker: str, seed: int) -> list[float]:
    """Fractions of wrong decisions on one speaker after training on the others, for each of ROWS."""
    from pyspark.ml.classification import LogisticRegression
    from pyspark.sql.functions import col

    chosen = random.Random(seed)
    takes = {(name, digit): chosen.sample(TAKES, TRAINED) for name in speakers(features) for digit in DIGITS}
    wanted = [f"{name} {digit} {take}" for (name, digit), each in sorted(takes.items()) for take in each]
    train = features.where((col("speaker") != speaker) & col("recording").isin(wanted)).cache()
    test = features.where(col("speaker") == speaker)
    found = []
    for copies in ("copy = 'original'", "true"):
        scored = LogisticRegression(regParam=0.01, maxIter=50).fit(train.where(copies)).transform(test.where(copies))
        found.append([wrong_groups(scored.cache(), key) for key in ("recording", "burst")])
    (base, ensemble), (augmented, both) = found
    return [base, augmented, ensemble, both]


def wrong_groups(scored: "DataFrame", key: str) -> float:
    """The fraction of groups that decide wrongly; the label of a group is that of its rows."""
    from ds2.spark import GroupEnsemble

    labels = scored.select(key, "label").distinct()
    judged = GroupEnsemble(groupCol=key).transform(scored).join(labels, key)
    [[rate]] = judged.selectExpr("avg(cast(prediction != label AS double))").collect()
    return float(rate)


def speakers(features: "DataFrame") -> list[str]:
    return sorted({row["speaker"] for row in features.select("speaker").distinct().collect()})


def table(found: dict[int, list[list[float]]]) -> str:
    """Markdown; `found` has for each seed the errors of each speaker."""
    lines = ["| | wrong digits | lowest and highest seed |", "|---|---|---|"]
    for number, name in enumerate(ROWS):
        rates = [sum(each[number] for each in folds) / len(folds) for folds in found.values()]
        lines.append(f"| {name} | {sum(rates) / len(rates):.1%} | {min(rates):.1%}, {max(rates):.1%} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--model", default="english")
    parser.add_argument("--master", default="local[2]")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    spark = SparkSession.builder.master(chosen.master).config(map={**settings}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    features = copies_with_features(spark, chosen.model)
    found = {}
    for seed in chosen.seeds:
        found[seed] = [errors(features, speaker, seed) for speaker in speakers(features)]
        print(f"seed {seed}:", *(f"{sum(each) / len(each):.1%}" for each in zip(*found[seed], strict=True)), flush=True)
    spark.stop()
    print(table(found))


if __name__ == "__main__":
    main()
