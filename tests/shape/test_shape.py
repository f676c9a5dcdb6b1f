"""The tree keeps its shape: what is too long or says too little becomes less, and names and links lead somewhere."""

import pytest

from tests.shape import allowed, links, names
from tests.shape.rules import File


@pytest.fixture(scope="module")
def tree() -> list[File]:
    return allowed.files()


def test_exceptions_only_shrink(tree: list[File]) -> None:
    problems = allowed.problems(allowed.counted(tree), allowed.read())
    assert not problems, "\n" + "\n".join(problems)


def test_the_list_is_as_the_command_writes_it() -> None:
    assert allowed.LIST.read_text() == allowed.written(allowed.read())


def test_what_prose_names_exists(tree: list[File]) -> None:
    known = names.Tree(tree)
    found = [place for file in tree for place in names.stale(file, known)]
    assert not found, "nothing has these names: " + ", ".join(found)


def test_names_from_elsewhere_are_in_use(tree: list[File]) -> None:
    others = "\n".join(file.text for file in tree if file.path.parts[:2] != ("tests", "shape"))
    assert [name for name in names.ELSEWHERE if name not in others] == []


def test_every_page_is_reached_from_the_first(tree: list[File]) -> None:
    reached, broken = links.walk(allowed.ROOT)
    assert not broken, "these links lead nowhere"
    pages = {str(file.path) for file in tree if file.path.suffix == ".md"}
    assert not pages - reached, f"no page that one comes to from {links.FIRST} has a link to these"
