"""Fetches that wait while access rules change: each reads again, and is answered with what its client may have now.

Kafka looks at a client's rights when a Fetch comes, and not again before its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.replication.replicas import Replicas


class WaitingReaders:
    """The Fetches that wait for the partitions of one broker."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._changed = trio.Event()

    def rules_changed(self) -> None:
        """Other rules hold from now on."""
        self._changed.set()

    async def run(self) -> None:
        """Has the Fetches read again after each change, until cancelled. Many changes at once are one."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            slices = Slices(own=True)
            for partition in list(self._replicas.partitions.values()):
                partition.waiting_fetches.look_again(partition)
                await slices.row()
