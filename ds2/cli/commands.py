"""The tree of commands, and the overview that --help prints."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ds2.cli import (
    adaptation,
    alignment,
    calibration,
    curation,
    data,
    export,
    installation,
    language_model,
    listening,
    models,
    noise,
    recognition,
    serving,
    spark,
    training,
    tune_decoder,
)

Command = Callable[..., int]
LM: dict[str, Command] = {
    "vocabulary": language_model.vocabulary_command,
    "build": language_model.build_command,
    "mix": language_model.lm_mix_command,
    "prune": language_model.prune_command,
    "compile": language_model.lm_compile_command,
    "score": language_model.score_command,
    "info": language_model.lm_info_command,
}
DATA: dict[str, Command] = {
    "compile": data.compile_manifest_command,
    "validate": data.validate_command,
    "stats": data.stats_command,
    "split": data.split_command,
    "merge": data.merge_command,
    "sample": data.sample_command,
    "convert": data.convert_command,
    "shard": data.shard_command,
    "mix": noise.mix_noise_command,
    "noise": noise.noise_command,
}
MODELS: dict[str, Command] = {
    "list": models.list_command,
    "pull": models.pull_command,
    "index": models.index_command,
}
SPARK: dict[str, Command] = {
    "transcribe": spark.spark_transcribe_command,
}
GROUPS: dict[str, tuple[str, Mapping[str, Command]]] = {  # ds2 GROUP COMMAND
    "data": ("Check, split, convert, mix and pack data sets.", DATA),
    "lm": ("Build, mix, prune, compile and score n-gram language models.", LM),
    "models": ("List the models that have a name here, and fetch others.", MODELS),
    "spark": ("Transcribe on a cluster of Apache Spark.", SPARK),
}
SECTIONS: dict[str, dict[str, Command | Mapping[str, Command]]] = {  # of the overview
    "Transcribe and evaluate": {
        "transcribe": recognition.transcribe_command,
        "listen": listening.listen_command,
        "align": alignment.align_command,
        "eval": recognition.evaluate_command,
        "calibrate": calibration.calibrate_command,
        "info": recognition.info_command,
        "spark": SPARK,
    },
    "Train": {
        "train": training.train_command,
        "adapt": adaptation.adapt_command,
        "report": training.report_command,
        "tune": training.tune_command,
        "find-rate": training.find_rate_command,
        "average": training.average_command,
        "bench-train": training.bench_train_command,
    },
    "Data": {
        "data": DATA,
        "segment": curation.segment_command,
        "filter": curation.filter_command,
        "make-corpus": curation.make_corpus_command,
    },
    "Language models": {"lm": LM, "tune-decoder": tune_decoder.tune_decoder_command},
    "Serve and export": {
        "serve": serving.serve_command,
        "bench-serve": serving.bench_serve_command,
        "export": export.export_command,
    },
    "Installation": {
        "models": MODELS,
        "doctor": installation.doctor_command,
        "warmup": installation.warmup_command,
    },
}


def all_commands() -> Iterator[str]:
    """ "transcribe", "data split", ...: every command as it is typed after `ds2`."""
    for section in SECTIONS.values():
        for name, command in section.items():
            if callable(command):
                yield name
            else:
                yield from (f"{name} {inner}" for inner in command)


def command_overview(group: str = "") -> str:
    """The commands of ds2, or of one of its groups, with a line for each."""
    description, commands = GROUPS.get(group, ("End-to-end speech recognition.", {}))
    sections: Mapping[str, Mapping[str, Any]] = {"Commands": commands} if group else SECTIONS
    prog = f"ds2 {group}".rstrip()
    lines = [f"usage: {prog} COMMAND ...", "", description]
    column = 2 + max(len(name) for section in sections.values() for name in section)
    for title, section in sections.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:{column}}{_summary(name, command)}" for name, command in section.items()]
    listed = [] if group else [f"{', '.join(f'ds2 {name}' for name in GROUPS)}: each lists its commands."]
    return "\n".join([*lines, "", *listed, f"{prog} COMMAND --help shows its options and an example."])


def _summary(name: str, command: Command | Mapping[str, Command]) -> str:
    return (command.__doc__ or "").partition("\n")[0] if callable(command) else GROUPS[name][0]
