"""Options that several commands share, each with one help text."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro
from tyro.conf import Positional
from tyro.constructors import PrimitiveConstructorSpec

from ds2.recognition.options import DecoderOptions, EngineName, OfflinePrecision
from ds2.utils.model_names import MODELS

# tyro asks another package whether a default fits a type, but for plain types and unions of TypeVars it knows the
# answer; that package takes 65 ms to import. The items of a plain tuple are texts.
if TYPE_CHECKING:
    Texts = tuple[str, ...]
else:
    Texts = tuple


def off(help: str) -> object:
    """Marks a field that is true by default; `help` says what its flag --no-FIELD does."""
    return tyro.conf.arg(help=help, help_behavior_hint="")


class Suggestions(tuple[str, ...]):
    """Values that a shell completes; others are accepted, too."""

    def __contains__(self, value: object) -> bool:
        return True


MODEL_NAME = PrimitiveConstructorSpec(
    nargs=1,
    metavar="MODEL",
    instance_from_str=lambda words: words[0],
    is_instance=lambda value: isinstance(value, str),
    str_from_instance=lambda name: [name],
    choices=Suggestions(path.stem for path in sorted(MODELS.glob("*.safetensors"))),
)
Model = Annotated[
    str,
    MODEL_NAME,
    tyro.conf.arg(
        metavar="MODEL",
        help="Bundle of a trained model, or the name of one (ds2 models list): english (read English sentences), "
        "mandarin (read Mandarin; in a checkout), digits (English digits in recordings) or digits-streaming (the same, "
        "also live).",
    ),
]
Device = Annotated[str, tyro.conf.arg(metavar="DEVICE", help="auto, cpu or cuda.")]
LIST = "(one or more)"
Paths = Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH [PATH ...]", help_behavior_hint=LIST)]]
Files = Positional[Annotated[Texts, tyro.conf.arg(metavar="FILE [FILE ...]", help_behavior_hint=LIST)]]
NO_DEFAULT = tyro.conf.arg(help_behavior_hint="")  # where the help says what holds, or nothing does
OF_BUNDLE = tyro.conf.arg(help_behavior_hint="(default: that of the bundle)")
T = TypeVar("T")
Maybe = Annotated[T | None, NO_DEFAULT]
OfBundle = Annotated[T | None, OF_BUNDLE]
Output = Annotated[Path, tyro.conf.arg(aliases=["-o"])]
ShortOutput = Annotated[T | None, tyro.conf.arg(aliases=["-o"], help_behavior_hint="")]
OptionalOutput = ShortOutput[Path]
Typed = Annotated[T, tyro.conf.arg(aliases=["-o"], metavar="PATH")]  # of texts: a Path forgets the slash of a folder
Skip = Annotated[
    bool, tyro.conf.arg(help="Allow speech that is not transcribed before, after and between the lines of the text.")
]
Language = Annotated[
    Literal["en", "zh"] | None,
    tyro.conf.arg(
        help="Read the numbers in the text as English or Mandarin words; by default English for the package's models.",
        help_behavior_hint="",
    ),
]


def _normal_form(words: list[str]) -> str:
    """A name of the normal forms; the message for any other says which one a third language takes."""
    if words[0] not in NORMAL_FORMS:
        known = "en and zh, whose numbers are written as words, and other, which leaves numbers as they are"
        raise ValueError(f"{words[0]:.40}: Expected one of {NORMAL_FORMS}: {known}")
    return words[0]


NORMAL_FORMS = ("en", "zh", "other")
NORMAL_FORM: PrimitiveConstructorSpec[str | None] = PrimitiveConstructorSpec(
    nargs=1,
    metavar="{" + ",".join(NORMAL_FORMS) + "}",
    instance_from_str=_normal_form,
    is_instance=lambda value: value is None or isinstance(value, str),
    str_from_instance=lambda name: [str(name)],
    choices=Suggestions(NORMAL_FORMS),
)
Normalize = Annotated[
    str | None,
    NORMAL_FORM,
    tyro.conf.arg(
        help="Normalise the texts first: lower case, no punctuation, numbers as words of this language; other leaves "
        "numbers as they are. By default where it lets the model write more of the texts.",
        help_behavior_hint="",
    ),
]
Settings = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(
        name="set",
        metavar="SECTION.KEY=VALUE",
        help="Set a key of the configuration, the value in TOML, a path from the folder of the file; repeatable.",
    ),
]


@dataclass(frozen=True)
class BundleOptions(DecoderOptions):
    """Options of the search, with the defaults that the help shows."""

    lm: OfBundle[Path] = None
    lm_weight: OfBundle[float] = None
    word_bonus: OfBundle[float] = None
    beam: OfBundle[int] = None
    hot: Texts = ()
    rescore: Maybe[Path] = None


@dataclass(frozen=True)
class SearchOptions(BundleOptions):
    """Options of commands whose text is plain."""

    punctuate: tyro.conf.Suppress[bool] = True
    figures: tyro.conf.Suppress[bool] = True


@dataclass(frozen=True)
class TextOptions(BundleOptions):
    """Options of commands that write text for people; the help of a flag says what the flag does, not the field."""

    punctuate: Annotated[bool, off("Write plain text, without capitals, punctuation and figures.")] = True
    figures: Annotated[bool, off('Write numbers as words: "twenty dollars", not "$20".')] = True


Search = Annotated[SearchOptions, tyro.conf.UseAppendAction, tyro.conf.arg(name="")]
Text = Annotated[TextOptions, tyro.conf.UseAppendAction, tyro.conf.arg(name="")]


@dataclass(frozen=True)
class MessageOptions:
    """Which messages are shown on standard error.

    Attributes:
        quiet: Show errors only: no progress and no warnings.
        verbose: Show a line for each recording.
    """

    quiet: bool = False
    verbose: bool = False


@dataclass(frozen=True)
class ComputeOptions:
    """Device, engine and precision.

    Attributes:
        device: auto, cpu or cuda.
        engine: native (a CPU without PyTorch), torch, or onnx, which also takes the model.onnx of ds2 export.
        precision: int8 is faster on a CPU: recurrent layers by torch, all others by native (with AVX-512 VNNI).
    """

    device: Annotated[str, tyro.conf.arg(metavar="DEVICE")] = "auto"
    engine: EngineName = "auto"
    precision: OfflinePrecision = "float32"


@dataclass(frozen=True)
class TranscriptOptions:
    """What is transcribed and written.

    Attributes:
        format: txt, json, srt, vtt, tsv, ctm, TextGrid, several of them separated by commas, or all.
        skip_existing: Skip recordings whose transcripts are in the output folder, which may grow.
        channels: mix averages the channels; separate transcribes each one, for calls with one speaker per channel.
        alternatives: How many of the best texts to write, each with its probability among them; txt or json.
        language: Spoken language, such as en; an error if a model of the package does not know it.
    """

    format: str = "txt"
    skip_existing: bool = False
    channels: Literal["mix", "separate"] = "mix"
    alternatives: Maybe[int] = None
    language: Maybe[str] = None


@dataclass(frozen=True)
class EvaluationOptions:
    """What is compared, and written beside the error rates.

    Attributes:
        by: Field of the manifest, such as speaker or accent, or duration: also the WER of each group; repeatable.
        against: Compare with other transcripts of the same audio: a manifest, lines of ds2 transcribe (.txt) or a
            folder of its --format json, a JSON object of names and texts, or another model; repeatable: then also with
            the best of them.
        listing: File for the wrong utterances, aligned word by word, and the most frequent confusions.
        page: HTML file that shows and plays the worst utterances.
        calibration: PNG file for a reliability diagram: the share of right words at each confidence.
    """

    by: Annotated[tyro.conf.UseAppendAction[Texts], tyro.conf.arg(metavar="FIELD", help_behavior_hint="")] = ()
    against: Annotated[tyro.conf.UseAppendAction[Texts], tyro.conf.arg(metavar="OTHER", help_behavior_hint="")] = ()
    listing: Maybe[Path] = None
    page: Maybe[Path] = None
    calibration: Maybe[Path] = None


@dataclass(frozen=True)
class LengthOptions:
    """The lengths of the utterances that long recordings are cut into.

    Attributes:
        mean: Average length of an utterance in seconds.
        shortest: Least length in seconds.
        longest: Greatest length in seconds.
    """

    mean: float = 7.0
    shortest: float = 1.0
    longest: float = 20.0


@dataclass(frozen=True)
class KnownTextOptions:
    """How the texts of recordings are read."""

    skip: Skip = False
    language: Language = None


@dataclass(frozen=True)
class FilterOptions:
    """Which transcripts are kept.

    Attributes:
        checked: JSON Lines with the id and the true text of some utterances, used to estimate errors.
        wer: Highest word error rate of the transcripts that are kept, 0.03 with --checked, which it needs.
        keep: Share of the utterances to keep, instead of --wer.
    """

    checked: Maybe[Path] = None
    wer: Maybe[float] = None
    keep: Maybe[float] = None


@dataclass(frozen=True)
class CountingOptions:
    """The words of a language model, and how n-grams are counted.

    Attributes:
        vocabulary: Number of words to keep, the most frequent; the others become <unk>; 0 keeps all.
        words: List of words, for example from ds2 lm vocabulary; exactly these are kept, in the text or not.
        continuation: Whether shorter n-grams count what they continue, for Kneser-Ney.
    """

    vocabulary: int = 0
    words: Maybe[Path] = None
    continuation: Annotated[
        bool, off("Count shorter n-grams as they occur in the text, as ds2 lm prune --histories needs them.")
    ] = True


@dataclass(frozen=True)
class TunedModelOptions:
    """The language model whose weights are chosen.

    Attributes:
        lm: ARPA, plain or .gz, or the compiled form; by default that of the bundle.
        lexicon: Pronunciations of the language model's words, in the format of CMUdict, for a search by phones; they
            add to those of the bundle, and replace its own of the same words.
        closed: Find only words of the language model, which suits commands, but not names.
    """

    lm: Maybe[Path] = None
    lexicon: Maybe[Path] = None
    closed: bool = False


DEFAULT_MESSAGES, DEFAULT_LENGTHS, DEFAULT_FILTER = MessageOptions(), LengthOptions(), FilterOptions()
DEFAULT_KNOWN_TEXT, DEFAULT_TUNED_MODEL = KnownTextOptions(), TunedModelOptions()
DEFAULT_COUNTING, DEFAULT_TRANSCRIPTS, DEFAULT_COMPUTE = CountingOptions(), TranscriptOptions(), ComputeOptions()
DEFAULT_SEARCH, DEFAULT_TEXT, DEFAULT_EVALUATION = SearchOptions(), TextOptions(), EvaluationOptions()
Compute = Annotated[ComputeOptions, tyro.conf.arg(name="")]
Transcripts = Annotated[TranscriptOptions, tyro.conf.arg(name="")]
Evaluations = Annotated[EvaluationOptions, tyro.conf.arg(name="")]
Messages = Annotated[MessageOptions, tyro.conf.arg(name="")]
Lengths = Annotated[LengthOptions, tyro.conf.arg(name="")]
Counting = Annotated[CountingOptions, tyro.conf.arg(name="")]
Filter = Annotated[FilterOptions, tyro.conf.arg(name="")]
TunedModel = Annotated[TunedModelOptions, tyro.conf.arg(name="")]
KnownText = Annotated[KnownTextOptions, tyro.conf.arg(name="")]
