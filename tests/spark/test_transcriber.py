"""SpeechTranscriber on a cluster: the texts of `ds2 transcribe`, NULLs, damaged recordings, wrong settings."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

import ds2
from ds2.data.utterance import RecordingSpan
from ds2.recognition.channels import transcribe_channels
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = "id int, content binary, path string"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twelve recordings of other lengths, one of which is cut into windows."""
    folder = tmp_path_factory.mktemp("recordings")
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.wav" for number in range(12)]
    for number, path in enumerate(paths):
        seconds = 40.0 if number == 5 else 0.3 + 0.1 * ((7 * number) % 12)
        soundfile.write(path, rng.normal(0, 0.1, round(8000 * seconds)), 8000)
    return paths


@pytest.fixture
def table(spark: "SparkSession", recordings: list[Path]) -> "DataFrame":
    rows = [(number, bytearray(path.read_bytes()), str(path)) for number, path in enumerate(recordings)]
    return spark.createDataFrame(rows, COLUMNS).repartition(3)


@pytest.mark.parametrize("columns", [{"inputCol": "content"}, {"pathCol": "path"}], ids=["bytes", "paths"])
def test_transcripts_are_those_of_the_recognizer(
    table: "DataFrame", recordings: list[Path], tiny_bundle: Path, columns: dict[str, str]
) -> None:
    from ds2.spark import SpeechTranscriber

    transcriber = SpeechTranscriber(outputCol="heard", model=tiny_bundle, **columns)
    found = transcriber.transform(table).orderBy("id").collect()
    recognizer = Recognizer.load(tiny_bundle, "cpu")
    assert [row.id for row in found] == list(range(12))
    for row, path in zip(found, recordings, strict=True):
        expected = recognizer.transcribe(path)
        assert row.heard_error is None
        assert row.heard.text == expected.text
        assert row.heard.duration == pytest.approx(expected.duration)
        assert [(word.text, word.start, word.end) for word in row.heard.words] == [
            (word.text, word.start, word.end) for word in expected.words
        ]
        confidences = [word.confidence for word in expected.words]
        assert [word.confidence for word in row.heard.words] == pytest.approx(confidences, abs=1e-3)


def test_nulls_stay_null_and_damaged_recordings_have_errors(
    spark: "SparkSession", recordings: list[Path], tiny_bundle: Path
) -> None:
    from ds2.spark import SpeechTranscriber

    good = recordings[0].read_bytes()
    contents = [None, good, b"", None, b"no audio at all", good[:300], good, None]
    rows = [(number, data and bytearray(data), f"{number}.wav") for number, data in enumerate(contents)]
    rows[2] = (2, bytearray(), "2.wav")
    stage = SpeechTranscriber(inputCol="content", pathCol="path", outputCol="heard", errorCol="why", model=tiny_bundle)
    found = stage.transform(spark.createDataFrame(rows, COLUMNS)).orderBy("id").collect()
    assert [row.heard is not None for row in found] == [number in (1, 6) for number in range(8)]
    assert [row.why is not None for row in found] == [number in (2, 4, 5) for number in range(8)]
    assert found[1].heard == found[6].heard
    for number in (2, 4, 5):
        assert found[number].why.startswith(f"{number}.wav: ")
        assert "\n" not in found[number].why


def test_speakers_are_the_channels_of_a_call(spark: "SparkSession", tiny_bundle: Path, tmp_path: Path) -> None:
    """Of bytes and of paths; a recording of one channel has no speakers."""
    from ds2.spark import SpeechTranscriber

    rng = np.random.default_rng(0)
    for name, shape in (("two.wav", (16000, 2)), ("one.wav", (9000,))):
        soundfile.write(tmp_path / name, rng.normal(0, 0.1, shape), 8000)
    rows = [(n, bytearray((tmp_path / f"{n}.wav").read_bytes()), str(tmp_path / f"{n}.wav")) for n in ("two", "one")]
    table = spark.createDataFrame(rows, "name string, content binary, path string")
    recognizer = Recognizer.load(tiny_bundle, "cpu")
    recordings = [RecordingSpan(tmp_path / f"{name}.wav") for name in ("two", "one")]
    [(_, two), (_, one)] = transcribe_channels(recognizer, recordings)
    expected = [(word.text, number) for number, segment in two.channel_segments for word in segment.words]
    assert {speaker for _, speaker in expected} == {1, 2}
    for columns in ({"inputCol": "content"}, {"pathCol": "path"}):
        stage = SpeechTranscriber(outputCol="heard", model=tiny_bundle, separate=True, **columns)
        found = {row.name: row.heard for row in stage.transform(table).collect()}
        assert [(word.text, word.speaker) for word in found["two"].words] == expected
        assert found["one"].text == one.text
        assert {word.speaker for word in found["one"].words} == {None}


def test_an_empty_table_and_a_table_of_nulls(spark: "SparkSession", tiny_bundle: Path) -> None:
    from ds2.spark import SpeechTranscriber

    stage = SpeechTranscriber(inputCol="content", outputCol="heard", model=tiny_bundle)
    assert stage.transform(spark.createDataFrame([], COLUMNS)).collect() == []
    nulls = stage.transform(spark.createDataFrame([(1, None, None)] * 7, COLUMNS)).collect()
    assert [(row.heard, row.heard_error) for row in nulls] == [(None, None)] * 7


def test_a_column_is_computed_once_though_it_is_used_twice(
    table: "DataFrame", tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark would otherwise transcribe for the filter, and once more for the column."""
    from ds2.spark import SpeechTranscriber

    found = SpeechTranscriber(inputCol="content", outputCol="heard", model=tiny_bundle).transform(table)
    found.filter("heard_error IS NULL").select("heard.text", "heard.duration").explain()
    plan = capsys.readouterr().out
    assert plan.count("ArrowEvalPython") == 1
    assert plan.count("run(") == 1


def test_decoder_options_reach_the_executors(table: "DataFrame", recordings: list[Path], tiny_bundle: Path) -> None:
    from ds2.spark import SpeechTranscriber

    lm = tiny_bundle.with_name("lm.arpa")
    lm.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-0.3\t<s>\n-0.3\t</s>\n-0.3\tabc\n\n\\end\\\n")
    stage = SpeechTranscriber(inputCol="content", outputCol="heard", model=tiny_bundle, lm=lm, beam=8, hot=["cab=9"])
    heard = {row.heard.text for row in stage.transform(table).collect()}
    recognizer = ds2.load(tiny_bundle, "cpu", lm=lm, beam=8, hot=["cab=9"])
    assert heard == {recognizer.transcribe(path).text for path in recordings}


def test_wrong_settings_are_refused_before_any_work(table: "DataFrame", tiny_bundle: Path, tmp_path: Path) -> None:
    from ds2.spark import SpeechTranscriber

    cases: list[tuple[dict[str, object], str]] = [
        ({"inputCol": "path"}, "inputCol: the column path must be binary, it is string"),
        ({"inputCol": "sound"}, "inputCol: the table has no column sound; it has id, content, path"),
        ({"pathCol": "id"}, "pathCol: the column id must be string, it is int"),
        ({}, "inputCol: set inputCol, the column with the bytes of files, or pathCol"),
        ({"inputCol": "content", "outputCol": "id"}, "outputCol: the table has a column id already"),
        ({"inputCol": "content", "errorCol": "path"}, "errorCol: the table has a column path already"),
        ({"inputCol": "content", "beam": -1}, "beam: must be at least 1"),
        ({"inputCol": "content", "beam": 0, "hot": ["a"]}, "beam: 0 decodes greedily"),
    ]
    for settings, message in cases:
        with pytest.raises(ParameterError) as error:
            SpeechTranscriber(**{"model": tiny_bundle, "outputCol": "heard"} | settings).transform(table)
        assert str(error.value).startswith(message)
    for model, message in ((tmp_path / "no.safetensors", "cannot read"), (Path(__file__), "not a ds2 model bundle")):
        with pytest.raises(InputError, match=message):
            SpeechTranscriber(inputCol="content", outputCol="heard", model=model).transform(table)
    with pytest.raises(TypeError, match="beam"):
        SpeechTranscriber(beam="wide")
    with pytest.raises(AttributeError, match="colour"):
        SpeechTranscriber(colour="red")
