"""Producer ids, never given twice: taken from the tree in blocks of 1000 and handed out one by one.

A block is claimed by a conditional write of `/latest_producer_id_block`. What is left of it when the broker stops is
lost; ids are 63 bits wide. If the answer to a claim was lost, the block may be ours or another's and is left alone: the
next one is claimed. (Kafka: ProducerIdManager; KIP-98.)
"""

from __future__ import annotations

import logging

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import BadVersion, ConnectionLoss, Tree, ensure_one
from ottla.coordination.znodes import MalformedNode, ProducerIdBlock
from ottla.errors import UnknownServerError
from ottla.logging_setup import Repeated

logger = logging.getLogger(__name__)

BLOCK_SIZE = 1000
ID_MAX = 2**63 - 1


class ProducerIds:
    """The producer ids of one broker."""

    def __init__(self, tree: Tree, broker_id: int) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._next = 0
        self._last = -1
        self._claiming = trio.Lock()
        self._troubles = Repeated(logger)

    def take(self) -> int | None:
        """The next id of the block at hand; None if it is used up, then `next` claims another."""
        if self._next > self._last:
            return None
        taken = self._next
        self._next += 1
        return taken

    async def next(self) -> int:
        """An id that no producer of this cluster ever had. Raises a TreeError if the tree cannot be reached, and
        UnknownServerError if what it says of ids cannot be understood.
        """
        while True:
            taken = self.take()
            if taken is not None:
                return taken
            async with self._claiming:
                if self._next > self._last:
                    block = await self._claim()
                    self._next, self._last = block.first, block.last

    def _last_claimed(self, data: bytes) -> int:
        """Raises UnknownServerError: who guesses may give an id that a producer has. Kafka does the same."""
        try:
            return ProducerIdBlock.decode(data).last
        except MalformedNode as error:
            message = f"no producer ids can be given before somebody puts the node right: {error}"
            self._troubles.log(logging.ERROR, "block", "%s", message)
            raise UnknownServerError(message) from error

    async def _claim(self) -> ProducerIdBlock:
        await ensure_one(self._tree, znodes.PRODUCER_ID_BLOCK)
        while True:
            node = await self._tree.get(znodes.PRODUCER_ID_BLOCK)
            first = self._last_claimed(node.data) + 1 if node.data else 0
            if first > ID_MAX - BLOCK_SIZE:
                raise UnknownServerError("all producer ids have been given out")
            block = ProducerIdBlock(self._broker_id, first, first + BLOCK_SIZE - 1)
            try:
                await self._tree.set(znodes.PRODUCER_ID_BLOCK, block.encode(), node.stat.version)
            except BadVersion:
                continue
            except ConnectionLoss:
                await self._tree.wait_connected()
                continue
            logger.info("producer ids %d to %d are ours", block.first, block.last)
            return block
