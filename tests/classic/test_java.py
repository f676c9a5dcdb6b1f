"""Java's hashes and orders, judged by Java."""

import random

import pytest

from ottla.classic.java import absolute, hash_code, string_order
from tests.peers.old_clients import VERSIONS, run

TEXTS = ["", "abc", "hällo", "𝄞 clef", "zz top", "polygenelubricants", "key-17"]


@pytest.mark.java
@pytest.mark.parametrize("version", VERSIONS)
def test_keys_have_the_partitions_that_java_gives_them(version: str) -> None:
    random_ = random.Random(17)
    texts = TEXTS + ["".join(random_.choices("abcäöü𝄞xyz0123 -", k=12)).strip() for _ in range(300)]
    lines = run(version, "partitions", "7", stdin="".join(f"{text}\n" for text in texts))
    ours = [f"{absolute(hash_code(text)) % 7} {absolute(hash_code(text.encode())) % 7}" for text in texts]
    assert lines == ours


def test_the_least_int_has_no_positive() -> None:
    assert hash_code("polygenelubricants") == -(1 << 31)
    assert absolute(-(1 << 31)) == 0


def test_hashes_of_numbers() -> None:
    assert [hash_code(value) for value in (0, -1, 1 << 40, True)] == [0, -1, 256, 1231]
    with pytest.raises(TypeError, match="not float"):
        hash_code(1.5)


def test_java_sorts_by_utf_16() -> None:
    assert sorted(["\uffff", "\U0001d11e"], key=string_order) == ["\U0001d11e", "\uffff"]
