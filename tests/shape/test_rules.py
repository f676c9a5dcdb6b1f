"""The rules of shape find what they are about, and nothing else."""

from pathlib import PurePosixPath

import pytest

from tests.shape import rules
from tests.shape.rules import File


def file(name: str, text: str) -> File:
    return File(PurePosixPath(name), text)


LONG = "word " * 25


def test_columns() -> None:
    assert list(rules.columns(file("a.rs", f"a\n// {LONG}\n// {'x' * 117}\n"))) == ["a.rs:2"]


def test_columns_of_markdown_are_those_of_its_prose() -> None:
    link = "https://" + "x" * 120
    text = f"{LONG}\n| {LONG} |\n{link}\n```\n{LONG}\n```\n- {LONG}\n"
    assert list(rules.columns(file("a.md", text))) == ["a.md:1", "a.md:7"]


def body(lines: int, indent: str = "    ") -> str:
    return f"{indent}pass\n" * lines


@pytest.mark.parametrize(
    "begin", ["def a():\n", "async def a():\n", "@cache\n@other\ndef a():\n", "def a(\n    b,\n):\n"]
)
def test_long_functions_of_python(begin: str) -> None:
    head = begin.count("\n") - begin.count("@")
    assert list(rules.long_functions(file("a.py", begin + body(70 - head)))) == []
    found = list(rules.long_functions(file("a.py", begin + body(71 - head) + "\nb = 1\n")))
    assert found == [f"a.py:{begin.count('@') + 1} a, 71 lines"]


def test_long_functions_are_found_wherever_they_stand() -> None:
    within = f"def a():\n{body(30)}    def b():\n        pass\n{body(50)}"
    assert [each.split()[1] for each in rules.long_functions(file("a.py", within))] == ["a,"]
    of_a_class = f"class A:\n    def a(self):\n{body(40, '        ')}\n    def b(self):\n{body(71, '        ')}"
    assert [each.split()[1] for each in rules.long_functions(file("a.py", of_a_class))] == ["b,"]
    with_text = f'def a():\n{body(40)}    b = """\ndef c():\n    pass\n"""\n{body(40)}'
    assert [each.split()[1] for each in rules.long_functions(file("a.py", with_text))] == ["a,"]


def test_long_functions_of_rust() -> None:
    source = "fn a() {\n" + "    x();\n" * 68 + "}\nfn b() {\n" + "    x();\n" * 69 + "}\n"
    assert list(rules.long_functions(file("a.rs", source))) == ["a.rs:71 b, 71 lines"]


@pytest.mark.parametrize(("lines", "counted"), [(500, 0), (501, 600), (600, 600), (1253, 1300)])
def test_long_files(lines: int, counted: int) -> None:
    assert rules.long_file(file("a.py", "\n" * lines)) == counted


def test_empty_first_words_of_python() -> None:
    source = '"""What is here."""\n\nA = 1\n"""Whether it is."""\nB = "What is it?"\n\n\n'
    source += 'def a():\n    r"""\n    What.\n    """\n'
    found = list(rules.empty_first_words(file("a.py", source)))
    assert [each.split()[0] for each in found] == ["a.py:1", "a.py:4", "a.py:9"]
    assert list(rules.empty_first_words(file("a.py", '"""The whole. What else?"""\n"""Whatever."""\n'))) == []


def test_empty_first_words_of_rust() -> None:
    source = "//! What is here.\n\n/// Of a\n/// What else.\nfn a() {\n    // What not.\n"
    source += '    "\n/// What text\n"\n}\n/// Whether.\n'
    found = list(rules.empty_first_words(file("a.rs", source)))
    assert [each.split()[0] for each in found] == ["a.rs:1", "a.rs:11"]


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("from tests.broker.produce.test_turns import made", True),
        ("    from .test_turns import made", True),
        ("from . import test_turns", True),
        ("from tests.broker import (\n    support,\n    test_turns,\n)", True),
        ("import tests.broker.produce.test_turns", True),
        ("from tests.support.waiting import eventually", False),
        ("from tests import quick", False),
        ("from other import test_client", False),
        ("# from tests.test_turns import made", False),
    ],
)
def test_imports_of_tests(line: str, is_found: bool) -> None:
    assert bool(list(rules.imports_of_tests(file("tests/a/test_b.py", f"{line}\n")))) == is_found
