"""The types that settings have, and how their text is read, checked and written.

Settings arrive as text (`server.properties`, `--set`, AlterConfigs, znodes) and leave as text (DescribeConfigs), so
each type is a pair of functions between text and a Python value. Both follow Kafka's ConfigDef, because a file that
Kafka takes must be taken here and mean the same: numbers are Java's (no underscores, 32 and 64 bits, `1.0E10` when
written), lists are split at commas with the white space around them, booleans are `true` and `false` in any case.

Everything here is cheap to import: it is on the way of every start.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple, TypeAlias

Value: TypeAlias = bool | int | float | str | list[str] | None
"""What a setting's text means. Passwords and class names are `str`; None is a setting that is not set."""


class ConfigError(ValueError):
    """A setting that cannot be taken as it is. `str(error)` is one sentence for the user: which, why, and what is
    possible.

    name: the setting's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class UnknownSetting(ConfigError):
    """No setting has this name."""


class InvalidValue(ConfigError):
    """The setting exists and cannot have this value; the message says what it can have."""


class Type(Enum):
    """The type of a setting, by Kafka's name, with the number that DescribeConfigs v3 gives it (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @property
    def label(self) -> str:
        """The name in lower case, as documentation writes it."""
        return self.name.lower()


class Range(NamedTuple):
    """Numbers from `least` to `most`, both included; None is no bound on that side."""

    least: float | None
    most: float | None

    def admits(self, value: Value) -> bool:
        """Whether the value is one of them. None (not set) always is."""
        if value is None:
            return True
        if not isinstance(value, (int, float)):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        if self.least is None:
            return f"at most {self.most}"
        return f"at least {self.least}" if self.most is None else f"between {self.least} and {self.most}"


class OneOf(NamedTuple):
    """One of a few words; for a list, each element is one of them."""

    words: tuple[str, ...]

    def admits(self, value: Value) -> bool:
        """Whether the value (or all of a list's elements) are among the words. None (not set) always is."""
        if value is None:
            return True
        return all(word in self.words for word in (value if isinstance(value, list) else [value]))

    def __str__(self) -> str:
        return "one of " + ", ".join(self.words)


class Throttled(NamedTuple):
    """Replicas to throttle: `*` for all, or a list of PARTITION:BROKER pairs."""

    def admits(self, value: Value) -> bool:
        """Whether the list is `*` alone or pairs of numbers alone."""
        items = value if isinstance(value, list) else []
        # Kafka takes empty items too, as a comma at the end leaves one; and longer numbers, of which it makes nothing.
        return items == ["*"] or all(re.fullmatch(r"([0-9]{1,10}:[0-9]{1,10})?", item) for item in items)

    def __str__(self) -> str:
        return "* for all replicas, or PARTITION:BROKER,PARTITION:BROKER,..."


class Version(NamedTuple):
    """A version of Kafka's protocol or record format: one of `names`, or a release, whose last one is meant
    (kafka.api.ApiVersion).
    """

    names: tuple[str, ...]

    def admits(self, value: Value) -> bool:
        """Whether the text names one of them; a patch release such as 2.7.1 is its minor release."""
        return isinstance(value, str) and self.full(value) is not None

    def full(self, version: str) -> str | None:
        """The full name that is meant by a version, e.g. 2.7-IV2 by 2.7; None if there is none."""
        kept = ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])
        return next((name for name in reversed(self.names) if kept in (name, name.partition("-")[0])), None)

    def __str__(self) -> str:
        releases = dict.fromkeys(name.partition("-")[0] for name in self.names)
        return f"one of {', '.join(releases)}, or more exactly, such as {self.names[-1]}"


Valid: TypeAlias = Range | OneOf | Throttled | Version | None

# Compiled when first used (re keeps them), for most starts parse nothing.
_INTEGER = r"[+-]?[0-9]+"
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_COMMA = r"\s*,\s*"


def parse(name: str, type: Type, text: str) -> Value:
    """The value that `text` stands for.

    Raises InvalidValue, whose message names the setting, the text and what the type takes. Range checks come after
    this.
    """
    text = text.strip()
    if type is Type.BOOLEAN:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise InvalidValue(name, f"{name}={text}: true or false is needed")
    if type in _BITS:
        bits = _BITS[type]
        bound = 1 << (bits - 1)
        if not re.fullmatch(_INTEGER, text) or not -bound <= (number := int(text)) < bound:
            raise InvalidValue(
                name, f"{name}={text}: a whole number of {bits} bits is needed ({-bound} to {bound - 1})"
            )
        return number
    if type is Type.DOUBLE:
        try:
            value = float(text.rstrip("dDfF") if "_" not in text else "")
        except ValueError:
            value = float("nan")
        if value != value:
            raise InvalidValue(name, f"{name}={text}: a number is needed, such as 0.5 or 1e9")
        return value
    if type is Type.LIST:
        return re.split(_COMMA, text) if text else []
    return text


def check(name: str, value: Value, valid: Valid) -> None:
    """Raises InvalidValue, saying what is possible, unless `valid` admits the value."""
    if valid is not None and not valid.admits(value):
        shown = ",".join(value) if isinstance(value, list) else value
        raise InvalidValue(name, f"{name}={shown}: it must be {valid}")


def write(value: Value) -> str | None:
    """The text of a value as Kafka writes it in DescribeConfigs. None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(value: float) -> str:
    """Java's Double.toString: plain between 10^-3 and 10^7, else `digits.digitsEexponent`, always with a digit behind
    the point.
    """
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # The fewest digits that mean this number, as repr finds them, with the point behind the first.
    sign = "-" if value < 0 else ""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(digits) - len(fraction) - 1
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{exponent}"
