"""The `ds2` command: parses, calls, prints. Heavy imports wait inside the commands, so that help comes at once."""

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

import ds2
from ds2.cli import corpus, data, language_model, recognition, serving, training
from ds2.cli.arguments import parse
from ds2.cli.exits import BAD_INPUT, INTERRUPTED
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.extras import hint

COMMANDS: dict[str, Callable[..., int]] = {
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
GROUPS: dict[str, tuple[str, dict[str, Callable[..., int]]]] = {  # ds2 GROUP COMMAND
    "lm": (
        "N-gram language models.",
        {
            "vocabulary": language_model.vocabulary,
            "build": language_model.build,
            "mix": language_model.mix,
            "prune": language_model.prune,
            "compile": language_model.compile,
            "score": language_model.score,
            "info": language_model.info,
        },
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the name of a file may be any bytes
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()  # at exit it would be too late to tell that the disk is full
        return code
    except ParameterError as error:
        return _refuse(f"--{error.parameter.replace('_', '-')}: {error.reason}")
    except InputError as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        return _refuse(hint(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:  # of standard output, as a rule
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # say nothing at exit either
        return INTERRUPTED if isinstance(error, BrokenPipeError) else _refuse(str(error))


def _refuse(message: str) -> int:
    print(f"ds2: {message}", file=sys.stderr)
    return BAD_INPUT


def _run(arguments: list[str]) -> int:
    """ds2 COMMAND ... or ds2 GROUP COMMAND ...; with neither, or only --help, the list of them."""
    group = arguments.pop(0) if arguments[:1] and arguments[0] in GROUPS else ""
    description, commands = GROUPS[group] if group else ("End-to-end speech recognition.", COMMANDS)
    prog = f"ds2 {group}".rstrip()
    name, *rest = arguments or ["--help"]
    if name in commands:
        return parse(commands[name], f"{prog} {name}", rest)()
    if name in ("--help", "-h"):
        print(_overview(prog, description, commands))
    elif name == "--version":
        print(f"ds2 {ds2.__version__}")
    else:
        raise InputError(f"{name}: {prog} has no such command; try {prog} --help")
    return 0


def _overview(prog: str, description: str, commands: Mapping[str, Callable[..., int]]) -> str:
    """The commands, a sentence for each; the groups last, where there are."""
    lines = {name: (command.__doc__ or "").partition("\n")[0] for name, command in commands.items()}
    if commands is COMMANDS:
        lines |= {name: f"{what} Commands: {', '.join(inside)}." for name, (what, inside) in GROUPS.items()}
    width = shutil.get_terminal_size().columns
    column = 4 + max(map(len, lines))
    rows = (
        textwrap.fill(line, width, initial_indent=f"  {name:{column - 2}}", subsequent_indent=" " * column)
        for name, line in lines.items()
    )
    return "\n".join([f"{prog} COMMAND ...: {description}", "", *rows, "", f"{prog} COMMAND --help has an example."])
