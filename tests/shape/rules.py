"""The rules of shape: each gives the places of one file that break it, as lines that can be shown."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from tests.shape import rust_text

COLUMNS_MAX = 120
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
#: A long file may grow to the next hundred, so that not each of its changes is one of the list.
FILE_LINES_STEP = 100

FENCE = re.compile(r"\s*(```|~~~)")
#: Lines that nobody can break: rows of tables, pictures, and addresses that are longer than a line.
UNBREAKABLE = re.compile(r"\s*(\||!\[|\S+$)")
DEFINITION = re.compile(r"( *)(?:async def |def |class |@)")
#: A string that begins its line; one that begins a line of arguments is read as well, which harms nobody.
DOCSTRING = re.compile(r'^[ \t]*[rR]?"""(.*?)"""', re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*(?:from (?P<module>\S+) )?import (?P<names>\([^)]*\)|[^\n]*)", re.MULTILINE)
EMPTY_FIRST = re.compile(r"(What|Whether)\b")


class File(NamedTuple):
    path: PurePosixPath
    text: str


def columns(file: File) -> Iterator[str]:
    """Lines of Rust and of Markdown that are too long; `ruff` looks after Python's."""
    is_code = False
    for number, line in enumerate(file.text.splitlines(), 1):
        if file.path.suffix == ".md":
            is_code ^= bool(FENCE.match(line))
            if is_code or UNBREAKABLE.match(line):
                continue
        if len(line) > COLUMNS_MAX:
            yield f"{file.path}:{number}"


def long_functions(file: File) -> Iterator[str]:
    """Functions that one does not see at once."""
    for name, line, lines in functions(file):
        if lines > FUNCTION_LINES_MAX:
            yield f"{file.path}:{line} {name}, {lines} lines"


def functions(file: File) -> Iterator[rust_text.Function]:
    """Without their decorators, attributes and doc comments, which are no part of what they do."""
    if file.path.suffix == ".rs":
        yield from rust_text.functions(file.text)
    elif may_be_long(file.text):
        for node in ast.walk(ast.parse(file.text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                yield rust_text.Function(node.name, node.lineno, node.end_lineno - node.lineno + 1)


def may_be_long(source: str) -> bool:
    """True if a long function of Python is possible: few files have one, and parsing all of them takes seconds.

    A function ends before the next definition that is not deeper than it, strings aside.
    """
    begun: list[tuple[int, int]] = []
    is_string = False
    lines = source.splitlines()
    for number, line in enumerate(lines):
        found = None if is_string else DEFINITION.match(line)
        is_string ^= line.count('"""') % 2 == 1
        if found:
            while begun and begun[-1][0] >= len(found[1]):
                if number - begun.pop()[1] > FUNCTION_LINES_MAX:
                    return True
            begun.append((len(found[1]), number))
    return any(len(lines) - number > FUNCTION_LINES_MAX for _, number in begun)


def long_file(file: File) -> int:
    """Lines of a long file, rounded up to a step; 0 for others."""
    lines = file.text.count("\n")
    return -(-lines // FILE_LINES_STEP) * FILE_LINES_STEP if lines > FILE_LINES_MAX else 0


def empty_first_words(file: File) -> Iterator[str]:
    """Doc comments whose first word tells nothing: "What it has read" instead of "The records that it has read"."""
    docs = rust_docs(file.text) if file.path.suffix == ".rs" else python_docs(file.text)
    for line, text in docs:
        if EMPTY_FIRST.match(text):
            yield f"{file.path}:{line} {text.splitlines()[0]}"


def python_docs(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, and the strings below constants and fields, with the lines where they begin."""
    for found in DOCSTRING.finditer(source):
        yield source.count("\n", 0, found.start(1)) + 1, found[1].lstrip()


def rust_docs(source: str) -> Iterator[tuple[int, str]]:
    """Blocks of `///` and `//!`, with the lines where they begin."""
    former = -1
    for part in rust_text.parts(source):
        text = source[part.start : part.stop]
        if part.kind == "line" and text.startswith(("///", "//!")):
            line = source.count("\n", 0, part.start) + 1
            if line != former + 1:
                yield line, text[3:].lstrip()
            former = line


def imports_of_tests(file: File) -> Iterator[str]:
    """Imports of a test module, or of its names: what several use stands in a file beside them or in tests/support."""
    if file.path.suffix == ".py":
        for found in IMPORT.finditer(file.text):
            module, names = found["module"] or "", found["names"]
            # What another library calls test_... is not meant.
            is_ours = not module or module.startswith((".", "tests"))
            if re.search(r"\btest_", f"{module} {names}" if is_ours else module):
                yield f"{file.path}:{file.text.count(chr(10), 0, found.start('names')) + 1}"
