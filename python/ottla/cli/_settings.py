"""NAME=VALUE options, texts with escapes, and options that exclude each other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import click

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
"""The largest numbers that fields of Kafka's requests can hold."""


class Finite(click.FloatRange):
    """A number between two others; neither `nan` nor `inf`, which Python would take."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """The number."""
        number: float = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number", parameter, context)
        return number


def pairs(settings: Iterable[str], option: str = "--set") -> list[tuple[str, str]]:
    """NAME=VALUE options in their order. Raises click.BadParameter for one without `=`."""
    result = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{setting!r} is not NAME=VALUE", param_hint=option)
        result.append((name.strip(), value))
    return result


def assignments(settings: Iterable[str], option: str = "--set") -> dict[str, str]:
    """NAME=VALUE options as a dictionary. Raises click.BadParameter for one without `=`, and for two values of one
    name.
    """
    result: dict[str, str] = {}
    for name, value in pairs(settings, option):
        if result.setdefault(name, value) != value:
            raise click.BadParameter(f"{name} is given twice: {result[name]} and {value}", param_hint=option)
    return result


def at_most_one(given: Mapping[str, bool]) -> None:
    """Raises click.UsageError if more than one of these options was given. Names are as users write them."""
    names = [name for name, was_given in given.items() if was_given]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} contradict each other: leave {_all_but_one(names)} out")


def _all_but_one(names: list[str]) -> str:
    return "one" if len(names) == 2 else "all but one"


def on_command_line(name: str) -> bool:
    """Whether the user gave the parameter `name` to the running command. What the environment says gives way."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def unescaped(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A callback of options: `\\t` on the command line means a tab; also `\\n`, `\\r`, `\\0`, `\\\\`, and `\\x7c` for
    the byte of this number, as `as_bytes` gives it.
    """
    if text is None or "\\" not in text:
        return text
    parts = iter(text)
    result = ""
    for letter in parts:
        if letter == "\\":
            escaped = next(parts, "")
            if escaped == "x":
                digits = next(parts, "") + next(parts, "")
                if not re.fullmatch("[0-9a-fA-F]{2}", digits):
                    raise click.BadParameter(
                        f"\\x{digits} is no byte; two digits follow, as in \\x7c", context, parameter
                    )
                result += bytes.fromhex(digits).decode(errors="surrogateescape")
                continue
            if escaped not in _ESCAPES:
                raise click.BadParameter(
                    f"\\{escaped} means nothing; there are \\t, \\n, \\r, \\0, \\x7c, and \\\\ for a backslash",
                    context,
                    parameter,
                )
            letter = _ESCAPES[escaped]
        result += letter
    return result


def as_bytes(text: str) -> bytes:
    """The bytes that stood on the command line; they need not be UTF-8."""
    return text.encode(errors="surrogateescape")


def zookeeper_servers(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A callback of options: HOST:PORT,... with a chroot or without. Raises click.BadParameter for anything else."""
    if text is not None:
        from ottla.config.zookeeper import ZooKeeperServers

        try:
            ZooKeeperServers.parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from None
    return text


def not_empty(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A callback of options: an empty text, such as that of a variable that is not set, would mean the default."""
    if text == "":
        raise click.BadParameter("it is empty", context, parameter)
    return text
