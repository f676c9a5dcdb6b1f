"""Work on many partitions, between which the loop's other tasks have their turns."""

from __future__ import annotations

from typing import Final

import trio

#: At some 10 us for each partition, others wait for about a millisecond.
PARTITIONS_PER_TURN: Final = 100


class Pace:
    """`await pace.turn()` between partitions: others have the loop after every `PARTITIONS_PER_TURN` of them."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    async def turn(self) -> None:
        self._count += 1
        if self._count % PARTITIONS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
