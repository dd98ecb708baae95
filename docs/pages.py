"""Writes the pages of the reference from the program itself: commands from their parsers, exit codes and the server's
metrics from their modules, configuration keys from their dataclasses, the Python API from docstrings.
"""

import argparse
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
import tokenize
import typing
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tyro.extras
from prometheus_client.metrics import MetricWrapperBase

import ds2
from ds2.cli import exits
from ds2.cli.commands import GROUPS, SECTIONS
from ds2.serve.config import ServeConfig
from ds2.serve.prometheus import Metrics
from ds2.train.config import TrainConfig

PRIVATE = ("ds2.cli", "ds2.__main__")  # the command line has a page of its own
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$", re.MULTILINE)


def write_reference(folder: Path) -> None:
    """Writes commands.md, configuration.md, server_metrics.md and one page for each package into the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "commands.md").write_text("\n".join(commands_page()))
    (folder / "server_metrics.md").write_text("\n".join(metrics_page()))
    (folder / "configuration.md").write_text("\n".join(configuration_page()))
    for package in packages():
        (folder / f"{package}.md").write_text("\n".join(package_page(package)))


# ---- commands


def commands_page() -> Iterator[str]:
    yield "# Commands\n\n`ds2 COMMAND --help` prints the same at a shell.\n"
    for title, section in SECTIONS.items():
        yield f"## {title}\n"
        for name, command in section.items():
            if callable(command):
                yield from command_lines(name, command)
            else:
                yield f"{GROUPS[name][0]}\n"
                for inner, inner_command in command.items():
                    yield from command_lines(f"{name} {inner}", inner_command)
    yield from exit_code_lines()


def exit_code_lines() -> Iterator[str]:
    yield "## Exit codes\n\n| code | constant | |\n|---|---|---|\n| 0 | | everything was done |"
    for name, code, meaning in re.findall(r"^(\w+) = (\d+)  # (.+)$", inspect.getsource(exits), re.MULTILINE):
        yield f"| {code} | `{name}` | {cell(meaning)} |"
    yield ""


def command_lines(name: str, command: Callable[..., int]) -> Iterator[str]:
    """Heading, description and a table of all arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = tyro.extras.get_parser(command, config=(tyro.conf.FlagCreatePairsOff,))
    yield f"### ds2 {name}\n"
    yield f"{example_as_code(markdown((command.__doc__ or '').partition('    Args:')[0]).strip())}\n"
    arguments = [each for each in parser._actions if each.dest != "help"]
    if arguments:
        yield "| argument | |\n|---|---|"
        for argument in arguments:
            yield f"| {argument_name(argument)} | {cell(str(argument.help or ''))} |"
        yield ""


def argument_name(argument: argparse.Action) -> str:
    metavar = (argument.metavar if isinstance(argument.metavar, str) else "").replace("{None}|", "")
    values = "" if argument.nargs == 0 else f" {metavar}"
    if not argument.option_strings:
        return f"`{metavar}`"
    names = [
        each for each in argument.option_strings if not each.startswith("--no-") or len(argument.option_strings) == 1
    ]
    return f"`{', '.join(names)}{values}`".replace("|", "\\|")


def example_as_code(text: str) -> str:
    """A paragraph "Example: ds2 ..." becomes a block."""
    return re.sub(r"^Example: (.*)$", r"```shell\n\1\n```", text, flags=re.MULTILINE)


# ---- metrics of the server


def metrics_page() -> Iterator[str]:
    yield "# Metrics of the server\n\n`ds2 serve` answers `GET /metrics` in the text format of Prometheus:\n"
    yield "| metric | kind | |\n|---|---|---|"
    server = Metrics()
    for collector in [each for each in vars(server).values() if isinstance(each, MetricWrapperBase)]:
        [metric] = collector.describe()
        name = metric.name + ("_total" if metric.type == "counter" else "")
        labels = "".join(f", by `{label}`" for label in collector._labelnames)
        yield f"| `{name}` | {metric.type} | {cell(metric.documentation)}{labels} |"
    yield "\nA histogram has the series `_bucket`, `_sum` and `_count`.\n"


# ---- configuration


def configuration_page() -> Iterator[str]:
    yield "# Configuration\n"
    yield "The keys of a recipe's `train.toml`, then those of `ds2 serve --config`. `--set KEY=VALUE` sets one.\n"
    for title, configuration in (("Training", TrainConfig), ("Server", ServeConfig)):
        yield f"## {title}\n"
        yield from section_lines("", configuration)


def section_lines(name: str, section: type) -> Iterator[str]:
    """A table of the section's own keys, then its sections."""
    hints, inner = typing.get_type_hints(section), []
    comments = {**attribute_comments(section), **field_comments(section)}
    yield f"### {f'[{name}]' if name else 'Top level'}\n"
    yield f"{markdown(SECTION.split(inspect.getdoc(section) or '')[0]).strip()}\n"
    yield "| key | type | default | |\n|---|---|---|---|"
    for field in dataclasses.fields(section):
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            inner.append((f"{name}.{field.name}".lstrip("."), kind))
            continue
        inner += [
            (f"{name}.{field.name}[]".lstrip("."), each)
            for each in typing.get_args(kind)
            if dataclasses.is_dataclass(each)
        ]
        comment = cell(comments.get(field.name, ""))
        yield f"| `{field.name}` | {cell(type_name(kind))} | {cell(default_of(field))} | {comment} |"
    yield ""
    for inner_name, kind in inner:
        yield from section_lines(inner_name, typing.cast(type, kind))


def attribute_comments(section: type) -> dict[str, str]:
    """What the docstring says of each field below "Attributes:"."""
    listed = (inspect.getdoc(section) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    return {name: " ".join(text.split()) for name, text in re.findall(r"^    (\w+): (.+(?:\n {6}.+)*)", listed, re.M)}


def field_comments(section: type) -> dict[str, str]:
    """The comment of each field: after it, or on the lines before it."""
    lines = iter(inspect.getsource(section).splitlines(keepends=True))
    comments, waiting, name = dict[str, str](), list[str](), ""
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        field = re.match(r"    (\w+): ", token.line)
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ")
            if token.line.strip().startswith("#"):
                waiting.append(text)
            elif name:
                comments[name] = " ".join([comments.get(name, ""), text]).strip()
        elif token.type == tokenize.NAME and field and token.string == field[1] and token.start[1] == 4:
            name = token.string
            if waiting:
                comments[name] = " ".join(waiting)
                waiting.clear()
    return comments


def default_of(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
        return "" if value and not isinstance(value, str | int | float) else f"`{value!r}`"
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


# ---- Python


def packages() -> list[str]:
    """ds2 and its packages, for which there is a page each."""
    names = [each.name for each in pkgutil.iter_modules(ds2.__path__, "ds2.") if each.ispkg]
    return ["ds2", *(name for name in names if name not in PRIVATE)]


def package_page(package: str) -> Iterator[str]:
    yield f"# {package}\n"
    for module in modules(package):
        if module.__name__ != package:
            yield f"## {module.__name__}\n"
        # A module may be called as its function is: only the function is an entry of the index.
        yield f"```{{py:currentmodule}} {module.__name__}\n```\n\n{markdown(module.__doc__ or '')}\n"
        for name, member in members(module):
            yield from (class_lines(name, member) if inspect.isclass(member) else function_lines(name, member))


def modules(package: str) -> Iterator[ModuleType]:
    """The package and the modules below it; ds2's own page has the modules that lie beside its packages."""
    root = importlib.import_module(package)
    yield root
    walk = pkgutil.iter_modules if package == "ds2" else pkgutil.walk_packages
    for found in walk(root.__path__, f"{package}."):
        own = package != "ds2" or not found.ispkg
        if own and found.name not in PRIVATE and not found.name.rpartition(".")[2].startswith("_"):
            yield importlib.import_module(found.name)


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Public classes and functions that are defined in the module and have a docstring, or that a package offers."""
    offered = getattr(module, "__all__", ())
    for name, member in [(name, getattr(module, name)) for name in offered or vars(module)]:
        if name.startswith("_") or not (inspect.isclass(member) or inspect.isfunction(member)):
            continue
        if (member.__module__ == module.__name__ or name in offered) and member.__doc__:
            yield name, member


def function_lines(name: str, function: Callable[..., Any], directive: str = "function") -> Iterator[str]:
    yield f"````{{py:{directive}}} {name}{signature(function)}\n\n{markdown(function.__doc__ or '')}\n````\n"


def class_lines(name: str, kind: type) -> Iterator[str]:
    arguments = signature(kind) if "__init__" in vars(kind) else ""
    yield f"`````{{py:class}} {name}{arguments}\n\n{markdown(kind.__doc__ or '')}\n"
    for method, member in vars(kind).items():
        if method.startswith("_") or not member:
            continue
        if isinstance(member, property) and member.fget and member.fget.__doc__:
            yield f"````{{py:property}} {method}\n\n{markdown(member.fget.__doc__)}\n````\n"
        elif inspect.isfunction(inspect.unwrap(getattr(kind, method))) and inspect.getdoc(member):
            yield from function_lines(method, getattr(kind, method), "method")
    yield "`````\n"


def signature(member: Any) -> str:
    """(lm: str | Path | None = None, ...) -> Recognizer, types without their modules."""
    try:
        found, quotes = inspect.signature(member, eval_str=True), ""
    except NameError:  # a type that is only imported for type checkers: all annotations stay strings
        found, quotes = inspect.signature(member), "'"
    except (TypeError, ValueError):
        return "()"
    own = [
        each.replace(default=Shown(each.default)) if has_default(each) else each for each in found.parameters.values()
    ]
    own = own[1:] if own and own[0].name in ("self", "cls") else own
    result = inspect.Signature.empty if inspect.isclass(member) else found.return_annotation
    text = str(found.replace(parameters=own, return_annotation=result))
    return re.sub(r"(?:\b[a-z_]\w*\.)+(?=[A-Za-z])", "", text.replace(quotes, "") if quotes else text)


def has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


class Shown:
    """A default value as it is typed; `...` for an object that has no such form."""

    def __init__(self, value: Any):
        self.text = repr(value)

    def __repr__(self) -> str:
        return "..." if "<" in self.text else self.text


# ---- text


def markdown(docstring: str) -> str:
    """A docstring as Markdown: its sections become lists."""
    lines, out = inspect.cleandoc(docstring).splitlines(), []
    inside = False
    for line in lines:
        if SECTION.match(line):
            inside = True
            out += ["", f"**{line}**", ""]
        elif inside and re.match(r"    \S", line):
            name, separator, rest = line.strip().partition(": ")
            out.append(f"- `{name}`: {rest}" if separator and " " not in name else f"- {line.strip()}")
        elif inside and line.strip():
            out.append(f"  {line.strip()}")
        else:
            inside = inside and not line.strip()
            out.append(line)
    return "\n".join(escaped(line) for line in out)


def escaped(line: str) -> str:
    """Dollars, stars and angle brackets outside code mean themselves."""
    if line.startswith("    "):
        return line
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"([$<\[\]_~|])|(?<!\*)\*(?!\*)", r"\\\g<0>", part) for part in parts
    )


def cell(text: str) -> str:
    return escaped(" ".join(text.split())).replace("\\|", "|").replace("|", "\\|")


def type_name(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return f"`{re.sub(r'(?:[a-z_]+[.])+(?=[A-Z])', '', text).replace('typing.', '').replace('pathlib.', '')}`"


if __name__ == "__main__":
    write_reference(Path(__file__).parent / "reference")
    print(textwrap.shorten(", ".join(packages()), 200))
