"""One group's error is not another's: commits of a turn share a batch, and each gets what it would have got alone."""

from pathlib import Path

import pytest

from ottla.errors import MessageTooLarge
from tests.replication.internal import opened
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


async def outcomes(path: Path, *sizes: int) -> list[int]:
    """The errors of appends of one turn, of so many bytes each; max.message.bytes is 1 MiB."""
    async with opened(path, in_turns=True) as here:
        await here.apply(0, 0)
        told: dict[int, int] = {}
        for number, size in enumerate(sizes):
            records = [(b"key", b"x" * size)]
            here.topic.append_in_turn(0, 0, records, lambda error, _, number=number: told.__setitem__(number, error))
        here.turn.end()
        await comes_true("all answers", lambda: len(told) == len(sizes))
        return [told[number] for number in range(len(sizes))]


async def test_two_that_are_each_allowed_are_not_refused_together(tmp_path: Path) -> None:
    assert await outcomes(tmp_path, 60_000, 1_000_000) == [0, 0]


async def test_one_that_is_too_large_is_refused_alone(tmp_path: Path) -> None:
    assert await outcomes(tmp_path, 100, 1_200_000, 100) == [0, MessageTooLarge.code, 0]
