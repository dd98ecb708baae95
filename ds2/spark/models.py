"""Settings of models and decoders, and the models on the executors: each is loaded once by a Python worker."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from ds2.bundle import read_record
from ds2.recognition.options import DEFAULT_OPTIONS, DecoderOptions, EngineName
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.windows import BATCH_SECONDS
from ds2.spark.executor_work import Settings
from ds2.spark.shipped_files import shipped
from ds2.spark.stage import Setting, Stage, number, path, paths, text, texts, whole
from ds2.utils.errors import ParameterError
from ds2.utils.model_names import DEFAULT_MODEL, locate

LOADED = 4  # models that a Python worker keeps: those of the jobs that it serves at a time


class OnDevice(Stage):
    """A stage with models, which are in its setting `model` or `models`."""

    device = Setting("auto, cpu or cuda, on the executors", text, "auto")
    minibatch = Setting("seconds of audio, padding included, in one pass of the model, at most", number, BATCH_SECONDS)

    def located(self, name: str) -> list[Path]:
        """The files of a setting; models also by their names in the package.

        Raises:
            InputError: not a bundle.
        """
        found = super().located(name)
        if name not in ("model", "models"):
            return found
        for each in found:
            read_record(each)
        return list(map(locate, found))

    def shipped_settings(self, spark: Any) -> Settings:
        """Adds a check.

        Raises:
            ParameterError: a minibatch of no audio.
        """
        if not self.value("minibatch") > 0:
            raise ParameterError("minibatch", f"must be above 0 seconds, got {self.value('minibatch')}")
        return super().shipped_settings(spark)


class HasModel(OnDevice):
    """A stage with a model."""

    model = Setting("bundle of a trained model, or the name of one", path, DEFAULT_MODEL)


class HasModels(OnDevice):
    """A stage with several models."""

    models = Setting("bundles of trained models, or their names in the package", paths, [DEFAULT_MODEL])


class HasDecoder(Stage):
    """A stage with a decoder, whose settings are those of `ds2.recognition.options.DecoderOptions`."""

    lm = Setting("language model for the search: ARPA, plain or .gz, or the compiled form", path)
    lmWeight = Setting("weight of the language model's natural log-probability; by default the bundle's", number)
    wordBonus = Setting("nats added for each word; by default the bundle's", number)
    beam = Setting("width of the prefix beam search, 0 decodes greedily; by default the bundle's", whole)
    hot = Setting("words to prefer, each WORD or WORD=NATS", texts)
    rescore = Setting("larger language model that rescores the n-best hypotheses", path)

    def shipped_settings(self, spark: Any) -> Settings:
        """Adds a check.

        Raises:
            ParameterError: a value out of range, or values that contradict each other.
        """
        settings = super().shipped_settings(spark)
        decoder_options(settings)
        return settings


def decoder_settings(options: DecoderOptions) -> Settings:
    """The settings of HasDecoder that stand for these options."""
    weights = {"lmWeight": options.lm_weight, "wordBonus": options.word_bonus}
    return {"lm": options.lm, "beam": options.beam, "hot": options.hot, "rescore": options.rescore, **weights}


def decoder_options(settings: Settings) -> DecoderOptions:
    """The options of the settings of HasDecoder; files stand as `Stage.shipped_settings` names them."""
    lm, rescore = (next(map(Path, settings[name]), None) for name in ("lm", "rescore"))
    weight, bonus, beam = settings["lmWeight"], settings["wordBonus"], settings["beam"]
    return DecoderOptions(lm, weight, bonus, beam, tuple(settings["hot"] or ()), rescore)


def loaded(settings: Settings, engine: EngineName = "auto") -> list[Recognizer]:
    """On an executor: the recognisers of the settings of HasModel, with those of HasDecoder where they are given.

    Raises:
        InputError: a bundle or a language model is damaged, or the options do not fit.
    """
    options = decoder_options(settings) if "beam" in settings else DEFAULT_OPTIONS
    names = settings.get("models") or settings["model"]
    return [_load_recognizer(name, settings["device"], options, engine, settings["minibatch"]) for name in names]


@functools.lru_cache(LOADED)
def _load_recognizer(
    name: str, device: str, options: DecoderOptions, engine: EngineName, minibatch: float
) -> Recognizer:
    lm, rescore = (None if file is None else shipped(file.name) for file in (options.lm, options.rescore))
    options = dataclasses.replace(options, lm=lm, rescore=rescore)
    recognizer = Recognizer.load(shipped(name), device, options, engine)
    recognizer.cutter = dataclasses.replace(recognizer.cutter, batch_seconds=minibatch)
    return recognizer
