"""The contents of pages and texts: commands `ottla ...`, checked against the real ones, and names of settings."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import click

from ottla.cli.main import ottla

#: One that cannot be run as it stands has `fragment` behind its language.
BLOCK = re.compile(r"^( *)```(\w*)( fragment)?\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
#: A variable of the environment, `sudo`, the folder of the command.
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ +|sudo +)*(?:\.venv/bin/)?ottla(?: +(.*)|$)", re.DOTALL)
PROMPT = "$ "
#: The line that a broker prints when it is ready.
READY = "ottla ready:"
#: Stand for what the reader puts in, or leaves out.
ELSE = ("...", "…")
COMMAND_TO_COME = "COMMAND"


def spans(text: str) -> Iterator[str]:
    """The texts in backticks outside of blocks, each in one line."""
    for found in SPAN.findall(BLOCK.sub("", text)):
        yield " ".join(found.split())


def blocks(text: str, *languages: str) -> Iterator[str]:
    """The blocks of code in these languages; without one, those that name none."""
    for language, _, content in all_blocks(text):
        if language in (languages or ("",)):
            yield content


def all_blocks(text: str) -> Iterator[tuple[str, bool, str]]:
    """Language, whether it is a fragment, and content of each block of code."""
    for _, language, mark, content in BLOCK.findall(text):
        yield language, bool(mark), content


def typed(block: str) -> Iterator[list[str]]:
    """The arguments of each `ottla` in a block. Where lines have prompts, the others are what is printed."""
    lines = block.replace("\\\n", " ").splitlines()
    if any(line.startswith(PROMPT) for line in lines):
        lines = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    for line in lines:
        for part in re.split(r" (?:\||&&|;|>|2>|&)(?= |$)", line):
            if found := COMMAND.fullmatch(part.strip()):
                yield shlex.split(found[1] or "", comments=True)


def named(span: str) -> list[str] | None:
    """The arguments of the command that a text names, if it is `ottla`."""
    if (found := COMMAND.fullmatch(span)) is None or span.startswith(READY):
        return None
    return shlex.split(found[1] or "")


def fault(arguments: list[str], *, is_typed: bool) -> str | None:
    """The fault of a command in words, None if it has none. One that `is_typed` has all that it needs."""
    command: click.Command = ottla
    context, rest = click.Context(ottla, info_name="ottla"), list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name == COMMAND_TO_COME:
            return None
        found = command.get_command(context, name)
        if found is None:
            return f"{context.command_path} has no command {name}"
        context, command = click.Context(found, parent=context, info_name=name), found
    try:
        # Values are not read: they may be placeholders, or files of the reader.
        values, left, _ = command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        return error.format_message()
    if left := [each for each in left if each not in ELSE]:
        return f"{context.command_path} takes no {' '.join(left)}"
    if not is_typed or values.get("help"):
        return None
    if isinstance(command, click.Group):
        return f"{context.command_path} needs a command"
    missing = [each.name for each in command.params if each.required and each.value_is_missing(values[str(each.name)])]
    return f"{context.command_path} needs {missing}" if missing else None


def options() -> set[str]:
    """Every option of every command."""
    found: set[str] = set()

    def look(command: click.Command, parent: click.Context | None) -> None:
        context = click.Context(command, parent=parent)
        for each in command.get_params(context):
            found.update(each.opts, each.secondary_opts)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                look(below, context)

    look(ottla, None)
    return found


SETTING = re.compile(r"(?:--set )?([a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+)(?: ?[=<>] ?.*)?")
OF_FILE = re.compile(r"^ *([^#=\s]+\.[^#=\s]+) *=", re.MULTILINE)
#: The end of a name that a file has.
FILES = {"cpp", "db", "lock", "md", "metadata", "pem", "properties", "py", "rs", "sh", "so", "sqlite", "toml"}


def settings(text: str) -> set[str]:
    """The names that a page gives as names of settings are given: words in lower case with dots between them, alone or
    with a value, in backticks, in files of properties, and behind --set.
    """
    found = {match[1] for span in spans(text) if (match := SETTING.fullmatch(span))}
    for block in blocks(text, "properties"):
        found.update(OF_FILE.findall(block))
    found.update(re.findall(r"--(?:set|unset) ([a-z][a-z0-9.]+)", text))
    return {name for name in found if name.rpartition(".")[2] not in FILES}


def texts(code: str) -> Iterator[str]:
    """The texts in a program. What is put into them is a word where it stands alone, else left out."""
    tree = ast.parse(code)
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                inside.add(id(part))
                if isinstance(part, ast.Constant):
                    text += str(part.value)
                elif text.endswith((" ", "=")):
                    text += "X"
            yield text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value
