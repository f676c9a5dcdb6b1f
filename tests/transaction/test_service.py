"""The rounds in which the coordinator looks at things again: a mistake about one partition costs no other its turn."""

import pytest
import trio

from ottla.transaction.service import Transactions
from ottla.transaction.shard import Shard


class Coordinator:
    def __init__(self) -> None:
        self.shards = {index: Shard(index, 0) for index in range(3)}


class Visited(Transactions):
    """Only what `_every` needs."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()  # type: ignore[assignment]


@pytest.mark.trio
async def test_a_partition_that_fails_keeps_no_other_from_its_turn(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    visits: list[int] = []

    def visit(shard: Shard) -> None:
        visits.append(shard.index)
        if shard.index == 1:
            raise RuntimeError("a mistake")

    with trio.move_on_after(2.5):
        await Visited()._every(1000, visit)
    assert visits == [0, 1, 2, 0, 1, 2]
    assert "the transactions of partition 1 failed" in caplog.text
