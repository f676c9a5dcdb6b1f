"""Names of files and of tests in comments, docstrings and Markdown: what they name must exist."""

import fnmatch
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.shape import rust_text
from tests.shape.rules import File, python_docs

#: Endings are looked for first, since they are few, and then what stands before them.
ENDING = re.compile(r"\.(?:pyi?|rs|md)\b(?![\w./(-]*[\w/(])(?:::(?P<test>\w+))?")
#: A name, or the end of a path. What is filled in (`{name}.py`, `$NAME.py`, `<name>.py`) is no name.
PATH = re.compile(r"(?<![\w/.$}>*-])(?:[\w*.-]+/)*[\w*-]+$")
#: A test, or a module of tests without its ending.
TEST = re.compile(r"test_\w+\b(?!\.\w|[*{])")
PATH_MAX = 200
NO_WORD_BEFORE = tuple("_.:*/$}>-")

#: Names in prose that nothing here has, and why.
ELSEWHERE = {
    "lz4_Frame_format.md": "of the LZ4 project",
    "python/ottla/broker/api/kNN_*.py": "NN is the key of an API",
    "test_a_payment_is_written_once": "a reader's own",
    "test_bad_weather": "a reader's own",
    "test_orders_are_written": "a reader's own",
    "test_records_wait_for_a_full_disk": "a reader's own",
}


class Tree:
    """The names that there are."""

    def __init__(self, files: Iterable[File]) -> None:
        #: The ends of all paths.
        self._ends: set[str] = set()
        #: Functions and classes by the ends of their files' paths.
        self._defined: dict[str, set[str]] = defaultdict(set)
        self._tests: set[str] = set()
        for file in files:
            steps = file.path.parts
            ends = {"/".join(steps[start:]) for start in range(len(steps))}
            self._ends |= ends
            if steps[0] == "tests" and file.path.suffix == ".py":
                names = set(re.findall(r"\b(?:def|class) (\w+)", file.text))
                self._tests |= {file.path.stem, *names}
                for end in ends:
                    self._defined[end] |= names

    def has_file(self, name: str) -> bool:
        name = re.sub(r"^(\.{1,2}/)+", "", name)
        return name in self._ends or ("*" in name and any(fnmatch.fnmatch(end, name) for end in self._ends))

    def has_test(self, name: str, file: str | None = None) -> bool:
        return name in (self._tests if file is None else self._defined[file])

    def unknown(self, text: str) -> Iterator[str]:
        """The names in a text that nothing has."""
        for ending in ENDING.finditer(text):
            path = PATH.search(text, max(0, ending.start() - PATH_MAX), ending.start())
            if path is None:
                continue
            name = path.group() + ending.group().partition("::")[0]
            if name not in ELSEWHERE and not self.has_file(name):
                yield name
            elif ending["test"] and not self.has_test(ending["test"], name):
                yield f"{name}::{ending['test']}"
        for test in TEST.finditer(text):
            before = text[test.start() - 1 : test.start()]
            if before.isalnum() or before in NO_WORD_BEFORE or test.group() in ELSEWHERE:
                continue
            if not self.has_test(test.group()):
                yield test.group()


def stale(file: File, tree: Tree) -> Iterator[str]:
    """Names in a file's prose that nothing has."""
    # Nearly no file has any, and telling prose from code takes longest.
    if any(tree.unknown(file.text)):
        for line, text in prose(file):
            for name in tree.unknown(text):
                yield f"{file.path}:{line} {name}"


def prose(file: File) -> Iterator[tuple[int, str]]:
    """The texts that are written for people, with the lines where they begin."""
    match file.path.suffix:
        case ".md":
            yield from enumerate(file.text.splitlines(), 1)
        case ".rs":
            for part in rust_text.parts(file.text):
                if part.kind in ("line", "block"):
                    yield file.text.count("\n", 0, part.start) + 1, file.text[part.start : part.stop]
        case _:
            yield from python_docs(file.text)
            for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
                if token.type == tokenize.COMMENT:
                    yield token.start[0], token.string
