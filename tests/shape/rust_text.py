"""Rust, as far as its shape needs it: where comments, strings and functions begin and end."""

import re
from collections.abc import Iterator
from typing import NamedTuple

#: Whatever may hide a brace or a quote from who only looks for them, longest first. Block comments nest, so only their
#: beginning is here. A quote that begins no char begins a lifetime.
TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*)
    |(?P<raw>\b(?:b|c)?r(?P<hashes>\#*)".*?"(?P=hashes))
    |(?P<string>\b[bc]?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
    |(?P<char>\bb?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'|'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])')""",
    re.DOTALL | re.VERBOSE,
)
BLOCK = re.compile(r"/\*|\*/")
FUNCTION = re.compile(r"\bfn\s+(?:r#)?(\$?\w+)")


class Part(NamedTuple):
    """A comment or a literal."""

    kind: str
    start: int
    stop: int


class Function(NamedTuple):
    name: str
    #: The line of the word `fn`, from 1.
    line: int
    lines: int


def parts(source: str) -> Iterator[Part]:
    """The comments and literals, in their order."""
    at = 0
    while found := TOKEN.search(source, at):
        kind, start, at = found.lastgroup or "", found.start(), found.end()
        if found["raw"] is not None:
            kind = "raw"
        if kind == "block":
            at = _end_of_block(source, at)
        yield Part(kind, start, at)


def _end_of_block(source: str, at: int) -> int:
    depth = 1
    while depth:
        found = BLOCK.search(source, at)
        if found is None:
            return len(source)
        depth += 1 if found.group() == "/*" else -1
        at = found.end()
    return at


def bare(source: str) -> str:
    """The source with blanks in place of comments and literals: each other character keeps its place and line."""
    pieces, at = [], 0
    for part in parts(source):
        pieces += [source[at : part.start], re.sub(r"[^\n]", " ", source[part.start : part.stop])]
        at = part.stop
    return "".join([*pieces, source[at:]])


def functions(source: str) -> Iterator[Function]:
    """The functions that have a body, those within others too."""
    code = bare(source)
    for found in FUNCTION.finditer(code):
        begin = _body(code, found.end())
        if begin is not None:
            line = code.count("\n", 0, found.start()) + 1
            yield Function(found[1], line, code.count("\n", found.start(), _closing(code, begin)) + 1)


def _body(code: str, at: int) -> int | None:
    """Where the brace of a body opens; None where a signature ends without one."""
    depth = 0
    while at < len(code):
        match code[at]:
            case "(" | "[":
                depth += 1
            case ")" | "]":
                depth -= 1
            case ";" if depth == 0:
                return None
            # A constant between angle brackets: Fixed<{ N + 1 }>.
            case "{" if depth or code[:at].rstrip().endswith("<"):
                at = _closing(code, at)
            case "{":
                return at
        at += 1
    return None


def _closing(code: str, at: int) -> int:
    """Where the brace that opens at `at` is closed."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(code, at):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.start()
    return len(code)
