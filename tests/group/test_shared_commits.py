"""One group's error is not another's: commits of a turn share a batch, and each gets what it would have got alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import MessageTooLarge, UnknownServerError
from tests.replication.internal import opened
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


async def outcomes(path: Path, values: Sequence[Any], mistaken: int | None = None, **options: Any) -> list[int]:
    """The errors of appends of one turn, one of each value; max.message.bytes is 1 MiB. Whoever waits for the append
    with the number `mistaken` raises when it is told.
    """
    async with opened(path, in_turns=True, **options) as here:
        await here.apply(0, 0)
        told: dict[int, int] = {}
        for number, value in enumerate(values):

            def appended(error: int, _: int, number: int = number) -> None:
                assert number not in told
                told[number] = error
                assert number != mistaken, "a mistake"

            here.topic.append_shared(0, 0, [(b"key", value)], appended)
        here.turn.end()
        await comes_true("all answers", lambda: len(told) == len(values))
        return [told[number] for number in range(len(values))]


async def test_two_that_are_each_allowed_are_not_refused_together(tmp_path: Path) -> None:
    assert await outcomes(tmp_path, [b"x" * 60_000, b"x" * 1_000_000]) == [0, 0]


async def test_one_that_is_too_large_is_refused_alone(tmp_path: Path) -> None:
    values = [b"x" * 100, b"x" * 1_200_000, b"x" * 100]
    assert await outcomes(tmp_path, values) == [0, MessageTooLarge.code, 0]


async def test_one_that_cannot_be_encoded_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await outcomes(tmp_path, [b"before", "not bytes", b"after"]) == [0, UnknownServerError.code, 0]
    assert "an append to __consumer_offsets-0 failed" in caplog.text


@pytest.mark.parametrize("other", [b"small", b"x" * 2_000], ids=["together", "alone"])
async def test_one_whose_client_cannot_be_told_is_no_concern_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: bytes
) -> None:
    # With acks of 1 each is told while the next is still to be appended.
    settings = {"message.max.bytes": "1000"}
    answers = await outcomes(tmp_path, [b"before", b"mistaken", other, b"after"], 1, required_acks=1, **settings)
    assert answers == [0, 0, 0 if other == b"small" else MessageTooLarge.code, 0]
    assert caplog.text.count("failed; others are served on") == 1
