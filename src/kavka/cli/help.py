"""Help: how the help of commands looks, and how mistakes on the command line are reported.

Decides the form: usage, what the command does, examples one to a line, options with their defaults; as wide as the
terminal, up to MAX_WIDTH. Must not know any command: what it shows stands in docstrings and options.

A docstring is paragraphs; those after one that is `Example` or `Examples` (in [bold]) are examples.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from kavka.cli.login import choose_file
from kavka.cli.options import HABITS, Bootstrap, ClientConfig
from kavka.cli.output import WRONG_USAGE, Failure

HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}
MAX_WIDTH: Final = 100
NAMES_WIDTH: Final = 30
"""Options whose names are longer have their text on a line of its own."""
NEEDED: Final = "*"
"""Behind the metavar of an argument that is needed, unless a name that help is silent on stands for it."""
Function = TypeVar("Function", bound=Callable[..., Any])
Context = Any
"""click's, which typer brings along in some versions and imports in others; so are its parameters."""
Parameter = Any
ClickException: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""What a wrong command line raises, whichever click typer uses."""


class Command(TyperCommand):
    """A command whose help is `render_command`."""

    def format_help(self, ctx: Context, formatter: Any) -> None:
        formatter.write(render_command(self, ctx))


class Group(TyperGroup):
    """A group of commands whose help is `render_group`."""

    def format_help(self, ctx: Context, formatter: Any) -> None:
        formatter.write(render_group(self, ctx))

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        """The command's name, the command, and the arguments after it.

        `reset` is too far from `reset-offsets` for typer to suggest it.
        """
        # The names alone: what stands behind them is imported when it is asked for.
        longer = [name for name in self.commands if name.startswith(f"{args[0]}-")]
        if len(longer) == 1 and args[0] not in self.commands:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{longer[0]}'?")
        return super().resolve_command(ctx, args)

    def summaries(self, ctx: Context) -> Iterator[tuple[str, str, str]]:
        """Section, name and summary of each command, those of a section one after the other; one section of "" where
        there is no order but that of the commands."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield "", name, summary(command)


class CommandLine(typer.Typer):
    """A typer application of such commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **{
                "cls": Group,
                "context_settings": HELP_NAMES,
                "no_args_is_help": True,
                "pretty_exceptions_enable": False,
                "rich_markup_mode": None,
                **settings,
            }
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        register = super().command(name, **{"cls": Command, **settings})

        def take(function: Function) -> Function:
            register(_with_client_config(function))
            return function

        return take


def _with_client_config(function: Function) -> Callable[..., Any]:
    """A command that talks to a cluster takes --client-config, too; the others are as they are."""
    signature = inspect.signature(function, eval_str=True)
    bootstrap = signature.parameters.get("bootstrap")
    if bootstrap is None or bootstrap.annotation != Bootstrap:
        return function

    @wraps(function)
    def called(*arguments: Any, client_config: str | None = None, **options: Any) -> Any:
        choose_file(client_config)
        return function(*arguments, **options)

    more = inspect.Parameter("client_config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ClientConfig)
    called.__signature__ = signature.replace(parameters=[*signature.parameters.values(), more])  # type: ignore[attr-defined]  # inspect reads it
    called.__annotations__ = {**function.__annotations__, "client_config": ClientConfig}
    return called


def render_command(command: Any, ctx: Context) -> str:
    """The help of one command."""
    prose, examples = split_docstring(command.help)
    arguments = [each for each in _shown(command, ctx) if each.param_type_name == "argument"]
    options = [each for each in _shown(command, ctx) if each.param_type_name != "argument"]
    words = " ".join(["[OPTIONS]", *(_argument(each) for each in arguments)])
    lines = [f"{_bold('Usage:')} {ctx.command_path} {words}", ""]
    lines += _paragraphs(prose)
    if examples:
        lines += [_bold("Examples:"), *(f"  {line}" for line in examples), ""]
    if any(each.help for each in arguments):
        lines += [_bold("Arguments:"), *_table([(_argument(each), _text(each, ctx)) for each in arguments]), ""]
    lines += [_bold("Options:"), *_table([(_names(each), _text(each, ctx)) for each in options])]
    return "\n".join(lines) + "\n"


def render_group(group: Any, ctx: Context) -> str:
    """The help of a group: its commands by section, and its own options."""
    prose, examples = split_docstring(group.help)
    command = "[COMMAND]" if group.invoke_without_command and not group.no_args_is_help else "COMMAND"
    lines = [f"{_bold('Usage:')} {ctx.command_path} [OPTIONS] {command} ...", ""]
    lines += _paragraphs(prose)
    if examples:
        lines += [_bold("Examples:"), *(f"  {line}" for line in examples), ""]
    listed = list(group.summaries(ctx))
    options = [each for each in _shown(group, ctx) if each.param_type_name != "argument"]
    if len({section for section, _, _ in listed}) == 1:
        lines += [_bold("Commands:"), *_table([(name, text) for _, name, text in listed]), ""]
        lines += [_bold("Options:"), *_table([(_names(each), _text(each, ctx)) for each in options])]
    else:
        # As few lines as there can be: all commands fit on a screen, and nothing has an empty line.
        usage = f"{_bold('Usage:')} {ctx.command_path} COMMAND ...   `{ctx.command_path} COMMAND --help` has examples."
        lines = [usage, *prose, *(f"{_bold('Example:')} {line}" for line in examples), *_sections(listed)]
        lines.append(f"Options: {', '.join(map(_name, options))}")
    return "\n".join(lines) + "\n"


def failure_of(wrong: Any, called: str) -> Failure:
    """A mistake on the command line of the command `called`, as a failure.

    A group without a command is none: its help was asked for.
    """
    if type(wrong).__name__ == "NoArgsIsHelpError":
        print(wrong.format_message())
        return Failure("", status=WRONG_USAGE)
    ctx = getattr(wrong, "ctx", None)
    path = ctx.command_path if ctx is not None else called
    problem = _wrong_value(wrong) or _missing_argument(wrong) or wrong.format_message()
    return Failure(problem, f"`{path} --help` shows options and examples", status=wrong.exit_code)


def _missing_argument(wrong: Any) -> str | None:
    """Which argument is missing, with the command's first example; None where the mistake is another one."""
    parameter, ctx = getattr(wrong, "param", None), getattr(wrong, "ctx", None)
    if type(wrong).__name__ != "MissingParameter" or parameter is None or ctx is None:
        return None
    if parameter.param_type_name != "argument":
        return None
    _, examples = split_docstring(ctx.command.help)
    missing = f"{parameter.metavar or parameter.name} is missing"
    return f"{missing}, for example {examples[0]}" if examples else missing


def _wrong_value(wrong: Any) -> str | None:
    """What is wrong with an option's value, with the value and its bound; None where the mistake is another one.

    Newer versions of typer pass on pydantic's sentence, which has no value and speaks of "input".
    """
    parameter, details = getattr(wrong, "param", None), getattr(wrong.__cause__, "errors", None)
    if parameter is None or details is None:
        return None
    error = details()[0]
    name = next((each for each in parameter.opts if each.startswith("--")), parameter.metavar or parameter.name)
    said, bounds = f"{name} {error['input']}", error.get("ctx", {})
    match error["type"]:
        case "int_parsing" | "int_from_float":
            return f"{said}: not a whole number"
        case "float_parsing":
            return f"{said}: not a number"
        case "greater_than_equal":
            return f"{said}: less than {bounds['ge']}"
        case "less_than_equal":
            return f"{said}: more than {bounds['le']}"
        case "value_error":
            return f"{name}: {bounds['error']}"
        case _:
            return None


def summary(command: Any) -> str:
    """The first paragraph of a command's help."""
    prose, _ = split_docstring(command.help)
    return prose[0] if prose else ""


def split_docstring(text: str | None) -> tuple[list[str], list[str]]:
    """The paragraphs, each on one line, and the examples."""
    prose: list[str] = []
    examples: list[str] = []
    into = prose
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        plain = re.sub(r"\[/?bold\]", "", " ".join(paragraph.split()))
        if plain in ("Example", "Examples"):
            into = examples
        elif plain:
            into.append(plain)
    return prose, examples


def _shown(command: Any, ctx: Context) -> list[Parameter]:
    return [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]


def _argument(parameter: Parameter) -> str:
    name = (parameter.metavar or parameter.name.upper()).rstrip(".")
    is_needed = parameter.required or name.endswith(NEEDED)
    name = name.rstrip(NEEDED) + ("..." if parameter.nargs != 1 else "")
    return name if is_needed else f"[{name}]"


def _name(parameter: Parameter) -> str:
    """All names in a running text: `-h/--help`."""
    return "/".join(parameter.opts)


def _names(parameter: Parameter) -> str:
    """The short name first: `-p, --port N`; a switch with two sides as `--preferred/--unclean`."""
    names = sorted(set(parameter.opts) - HABITS, key=lambda name: (name.startswith("--"), parameter.opts.index(name)))
    if parameter.secondary_opts:
        return "/".join([*names, *parameter.secondary_opts])
    shown = ", ".join(names) if len(names) > 1 else f"    {names[0]}"
    return shown if _is_flag(parameter) else f"{shown} {parameter.metavar or 'VALUE'}"


def _is_flag(parameter: Parameter) -> bool:
    return bool(getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))


def _text(parameter: Parameter, ctx: Context) -> str:
    parts = [parameter.help or ""]
    default = _default(parameter, ctx)
    if default:
        parts.append(f"[default: {default}]")
    if parameter.required and parameter.param_type_name != "argument":
        parts.append("[required]")
    if parameter.envvar and getattr(parameter, "show_envvar", False):
        parts.append(f"[env: {parameter.envvar}]")
    return " ".join(filter(None, parts))


def _default(parameter: Parameter, ctx: Context) -> str:
    shown = getattr(parameter, "show_default", True)
    if isinstance(shown, str):
        return shown
    if not shown or _is_flag(parameter) or parameter.secondary_opts:
        return ""
    before, ctx.resilient_parsing = ctx.resilient_parsing, True
    try:
        default = parameter.get_default(ctx, call=False)
    finally:
        ctx.resilient_parsing = before
    return "" if default is None or default == "" or isinstance(default, list | tuple | bool) else str(default)


# -- form


def _width() -> int:
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def _paragraphs(paragraphs: Sequence[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield from textwrap.wrap(paragraph, _width(), break_on_hyphens=False)
        yield ""


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Two columns: names, and what they are for."""
    fitting = [len(name) for name, _ in rows if len(name) <= NAMES_WIDTH]
    column = max(fitting, default=0) + 4
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(_width() - column, 20), break_on_hyphens=False)
        first = f"  {name}"
        if len(name) > NAMES_WIDTH:
            yield first
        elif wrapped:
            yield f"{first:<{column}}{wrapped.pop(0)}"
        else:
            yield first
        for line in wrapped:
            yield f"{'':<{column}}{line}"


def _sections(listed: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Three columns, for many commands on one screen: section (in its first line only), name, summary."""
    widths = [max(len(row[column]) for row in listed) + 2 for column in (0, 1)]
    last = ""
    for section, name, text in listed:
        left = f"{section if section != last else '':<{widths[0]}}"
        wrapped = textwrap.wrap(text, max(_width() - sum(widths), 20), break_on_hyphens=False)
        yield f"{_bold(left) if section != last else left}{name:<{widths[1]}}{wrapped[0]}"
        yield from (f"{'':<{sum(widths)}}{line}" for line in wrapped[1:])
        last = section


def _bold(text: str) -> str:
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        return f"\x1b[1m{text}\x1b[0m"
    return text
