"""The declarations of Kafka's messages say in words what they mean, beside what they mean.

Held here, of each file in `ottla/wire` that declares an API: each of its classes of messages has a docstring, and each
field has a comment `#: ...` right above it, but for the fields in `PLAIN`. Neither begins with "What" or "Whether".
That the words are true is for people to hold: a test sees no more than that there are some.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla import wire

FILES = sorted(Path(wire.__path__[0]).glob("k[0-9]*_*.py"))

#: Fields that are the same thing in every message, which their name says, or `ottla.wire.schema` for all of them. Where
#: one of them is more than that (null asks for all topics), it has words nevertheless.
PLAIN = frozenset(
    {
        "error_code",
        "error_message",
        "group_id",
        "host",
        "name",
        "partition",
        "partition_id",
        "partition_index",
        "partition_indexes",
        "partitions",
        "port",
        "responses",
        "results",
        "throttle_time_ms",
        "topic",
        "topic_name",
        "topics",
    }
)
EMPTY_FIRST = re.compile(r"(What|Whether)\b")


class Field(NamedTuple):
    cls: str
    name: str
    words: str
    """The comment right above it; "" without one."""


@cache
def classes(file: Path) -> dict[str, str]:
    """The docstrings of the messages of a file, by class; "" without one."""
    return {cls.name: ast.get_docstring(cls) or "" for cls in _messages(file)}


@cache
def fields(file: Path) -> tuple[Field, ...]:
    lines = file.read_text().splitlines()
    return tuple(
        Field(cls.name, row.target.id, _above(lines, row.lineno - 1))
        for cls in _messages(file)
        for row in cls.body
        if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name)
    )


def _messages(file: Path) -> Iterator[ast.ClassDef]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) for base in node.bases):
            yield node


def _above(lines: list[str], index: int) -> str:
    first = index
    while lines[first - 1].lstrip().startswith("#: "):
        first -= 1
    return " ".join(line.strip().removeprefix("#: ") for line in lines[first:index])


def test_all_declarations_are_looked_at() -> None:
    """Otherwise the others would pass for want of anything to read."""
    assert len(FILES) == len(wire.KEYS)
    for file, key in zip(FILES, wire.KEYS, strict=True):
        api = wire.api(key)
        assert {api.request.__name__, api.response.__name__} <= classes(file).keys()
        for cls in (api.request, api.response):
            declared = [row.name for row in fields(file) if row.cls == cls.__name__]
            assert declared == list(cls.__struct_fields__)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_message_says_what_one_of_it_is(file: Path) -> None:
    silent = [f"{file.name}: {name}" for name, words in classes(file).items() if not words]
    assert not silent, f"no docstring: {', '.join(silent)}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_field_says_what_it_means(file: Path) -> None:
    silent = [f"{file.name}: {row.cls}.{row.name}" for row in fields(file) if not row.words and row.name not in PLAIN]
    assert not silent, f"no `#: ...` right above: {', '.join(silent)}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_words_begin_with_their_subject(file: Path) -> None:
    told = [*classes(file).items(), *((f"{row.cls}.{row.name}", row.words) for row in fields(file))]
    empty = [f"{file.name}: {name}" for name, words in told if EMPTY_FIRST.match(words)]
    assert not empty, f"name the subject first: {', '.join(empty)}"


def test_plain_names_are_names_of_fields() -> None:
    """So that the list loses what nothing is called any more."""
    assert {row.name for file in FILES for row in fields(file)} >= PLAIN
