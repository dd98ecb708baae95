"""The `ds2` command: parses, calls, prints. Heavy imports wait inside the commands, so that help comes at once."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tyro

import ds2
from ds2.cli import corpus, data, language_model, recognition, serving, training
from ds2.cli.exits import BAD_INPUT, INTERRUPTED
from ds2.errors import InputError

COMMANDS: dict[str, Callable[..., Any]] = {
    "train": training.train,
    "transcribe": recognition.transcribe,
    "align": recognition.align,
    "eval": recognition.evaluate,
    "info": recognition.info,
    "average": training.average,
    "tune-decoder": language_model.tune_decoder,
    "bench-train": training.bench_train,
    "find-rate": training.find_rate,
    "tune": training.tune,
    "report": training.report,
    "segment": corpus.segment,
    "filter": corpus.filter,
    "make-corpus": corpus.make_corpus,
    "serve": serving.serve,
    "bench-serve": serving.bench_serve,
}
GROUPS: dict[str, tuple[str, dict[str, Callable[..., Any]]]] = {  # ds2 GROUP COMMAND
    "lm": (
        "N-gram language models.",
        {"build": language_model.build, "score": language_model.score, "info": language_model.info},
    ),
    "data": (
        "Corpora: manifests, layouts of others, noise, shards.",
        {
            "validate": data.validate,
            "stats": data.stats,
            "split": data.split,
            "merge": data.merge,
            "sample": data.sample,
            "convert": data.convert,
            "mix": data.mix,
            "noise": data.noise,
            "shard": data.shard,
        },
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; bad input ends in one line on standard error and code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"ds2 {ds2.__version__}")
        return 0
    try:
        return _run(arguments)
    except InputError as error:
        print(f"ds2: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: say nothing at exit either
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0] in GROUPS:
        group = arguments.pop(0)
        description, commands = GROUPS[group]
        prog = f"ds2 {group}"
    else:
        groups = "; ".join(f"ds2 {name} {', '.join(commands)}" for name, (_, commands) in GROUPS.items())
        description, commands, prog = f"End-to-end speech recognition. More commands: {groups}.", COMMANDS, "ds2"
    return tyro.extras.subcommand_cli_from_dict(commands, prog=prog, description=description, args=arguments)
