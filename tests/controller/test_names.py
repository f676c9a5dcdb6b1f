from __future__ import annotations

import pytest

from ottla.controller import check_name, collisions
from ottla.errors import InvalidTopic


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "__consumer_offsets", "x" * 249, "...", "-"])
def test_names_that_are_good(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a,b", "名"])
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(InvalidTopic):
        check_name(name)


def test_a_dot_and_an_underscore_collide() -> None:
    assert collisions("a.b", ["a_b", "a.c", "a.b"]) == ["a_b"]
    assert collisions("a_b_c", ["a.b_c", "a_b.c", "ab.c"]) == ["a.b_c", "a_b.c"]
    assert collisions("ab", ["a.b", "a_b"]) == []
