from __future__ import annotations

import pytest

from ottla.controller import CollidingNames, check_name
from ottla.errors import InvalidTopic


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "__consumer_offsets", "x" * 249, "...", "-"])
def test_names_that_are_good(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a,b", "名"])
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(InvalidTopic):
        check_name(name)


def test_a_dot_and_an_underscore_collide() -> None:
    assert CollidingNames(["a_b", "a.c", "a.b"]).colliding_with("a.b") == ["a_b"]
    assert CollidingNames(["a.b_c", "a_b.c", "ab.c"]).colliding_with("a_b_c") == ["a.b_c", "a_b.c"]
    assert CollidingNames(["a.b", "a_b"]).colliding_with("ab") == []
