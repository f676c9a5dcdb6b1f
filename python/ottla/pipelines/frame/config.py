"""A pipeline's configuration: a TOML file, checked against the pipeline's own `Config`, a `msgspec.Struct`.

What is wrong is said with the key as it stands in the file, e.g. `source.topics: Expected `array`, got `str``.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from ottla.config.nearest import hint

T = TypeVar("T", bound=msgspec.Struct)
Positive = Annotated[int, msgspec.Meta(ge=1)]
PATH = re.compile(r" - at `\$\.?(.*?)`$")
UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`")


class PipelineError(Exception):
    """A pipeline cannot run or go on; the message says why and what to do."""


class ConfigInvalid(PipelineError):
    """A configuration file that cannot be used; the message names the key."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where records come from: topics, of the brokers `bootstrap` or in the data directory `path`.

    `options` are any of `spark.read.format("ottla")`, e.g. {"kafka.isolation.level" = "read_committed"}.
    """

    topics: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    bootstrap: str | None = None
    path: str | None = None
    options: dict[str, str] = {}

    def __post_init__(self) -> None:
        if (self.bootstrap is None) == (self.path is None):
            raise ValueError("say where the records are: either bootstrap (brokers) or path (a data directory)")

    def reading(self) -> dict[str, str]:
        """The options for Spark's reader."""
        where = {"path": self.path} if self.path is not None else {"kafka.bootstrap.servers": self.bootstrap or ""}
        return {**where, "subscribe": ",".join(self.topics), **self.options}


def load(path: Path, kind: type[T]) -> T:
    """Reads a file.

    Raises:
        ConfigInvalid: it cannot be read, is no TOML, or a key is unknown, missing or has a wrong value.
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigInvalid(f"{path}: {getattr(problem, 'strerror', None) or problem}") from None
    try:
        return parse(text, kind)
    except ConfigInvalid as problem:
        raise ConfigInvalid(f"{path}: {problem}") from None


def parse(text: str, kind: type[T]) -> T:
    """The same of a text. Raises `ConfigInvalid`."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigInvalid(f"is no TOML: {problem}") from None
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as problem:
        raise ConfigInvalid(_explained(str(problem), kind)) from None


def _explained(message: str, kind: type[msgspec.Struct]) -> str:
    """`$.source.topics` at the end of msgspec's messages becomes `source.topics:` in front."""
    at = PATH.search(message)
    where = at[1] if at else ""
    what = PATH.sub("", message)
    if unknown := UNKNOWN.fullmatch(what):
        key = f"{where}.{unknown[1]}" if where else unknown[1]
        return f"{key}: there is no such key{hint(unknown[1], _keys(kind, where))}"
    if missing := re.fullmatch(r"Object missing required field `(.*?)`", what):
        return f"{where}.{missing[1]} is missing" if where else f"{missing[1]} is missing"
    if what.startswith("Invalid enum value") and (choices := _choices(kind, where)):
        what += f"; it is one of {', '.join(choices)}"
    return f"{where}: {what}" if where else what


def _choices(kind: Any, where: str) -> list[str]:
    """The values of the key at a place such as "target.format", if there are only some."""
    table, _, key = where.rpartition(".")
    for name in filter(None, table.split(".")):
        kind = _struct({field.name: field.type for field in msgspec.structs.fields(kind)}.get(name))
        if kind is None:
            return []
    found = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}.get(key)
    return [str(value) for one in (found, *get_args(found)) if get_origin(one) is Literal for value in get_args(one)]


def _struct(found: Any) -> Any:
    """The struct among the types of a field."""
    return next(
        (one for one in (found, *get_args(found)) if isinstance(one, type) and hasattr(one, "__struct_fields__")), None
    )


def _keys(kind: Any, where: str) -> list[str]:
    """The keys of the table at a place such as "source"."""
    for name in filter(None, where.split(".")):
        kind = _struct({field.name: field.type for field in msgspec.structs.fields(kind)}[name])
        if kind is None:
            return []
    return [field.encode_name for field in msgspec.structs.fields(kind)]
