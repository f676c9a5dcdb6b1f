"""Names in prose are told from what only looks like names, and stale ones are found."""

from pathlib import PurePosixPath

import pytest

from tests.shape.names import Tree, stale
from tests.shape.rules import File

TREE = [
    File(PurePosixPath("rust/log/mod.rs"), ""),
    File(PurePosixPath("python/ottla/log/segment.py"), ""),
    File(PurePosixPath("tests/log/test_rules.py"), "def test_times() -> None: ...\nclass Stand: ...\n"),
]


def unknown(text: str) -> list[str]:
    return list(Tree(TREE).unknown(text))


@pytest.mark.parametrize(
    "text",
    [
        "see `rust/log/mod.rs` and segment.py, log/segment.py.",
        "(tests/log/test_rules.py::test_times)",
        "test_rules, test_times",
        "test_rules.py::Stand",
        "[rules](../tests/log/test_rules.py)",
        "tests/log/test_*.py",
        "rust/log/mod.rs:17",
        "{name}.py, $NAME.py, <name>.py, test_{name}.py, test_{name}",
        "self.py(), latest_x, a.test_x, --test_x, test_rules*",
        "a.pyc, a.rst, a.mdx, a.py/b",
    ],
)
def test_names_that_exist(text: str) -> None:
    assert unknown(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see rust/log.rs", "rust/log.rs"),
        ("`other/segment.py`", "other/segment.py"),
        ("[old](old.md)", "old.md"),
        ("it is in gone.rs.", "gone.rs"),
        ("gone.rs:17", "gone.rs"),
        ("tests/log/other_*.py", "tests/log/other_*.py"),
        ("tests/log/test_rules.py::test_space", "tests/log/test_rules.py::test_space"),
        ("It is test_space.", "test_space"),
    ],
)
def test_names_that_do_not(text: str, name: str) -> None:
    assert unknown(text) == [name]


@pytest.mark.parametrize(
    ("file", "text", "places"),
    [
        ("a.py", '"""See gone.py."""\n\nname = "gone.py"  # as gone.rs\n', ["a.py:1 gone.py", "a.py:3 gone.rs"]),
        ("a.rs", '//! See gone.rs.\nlet a = "gone.rs";\n/* gone.md */', ["a.rs:1 gone.rs", "a.rs:3 gone.md"]),
        ("a.md", "One.\n\n`gone.py`\n", ["a.md:3 gone.py"]),
    ],
)
def test_only_prose_is_meant(file: str, text: str, places: list[str]) -> None:
    assert list(stale(File(PurePosixPath(file), text), Tree(TREE))) == places
