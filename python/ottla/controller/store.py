"""The controller's writes to the tree, each fenced by its epoch.

A controller that was paused may believe that it still is one. Therefore every write is a `multi` whose first operation
checks that `/controller_epoch` has the version which this controller's election gave it: a zombie's write changes
nothing and raises `ControllerMoved`. (Kafka: KafkaZkClient.wrapRequestWithControllerEpochCheck, KAFKA-6082.)

A write whose answer was lost is looked up: if the tree holds what was to be written, it was written.

A state that cannot be understood is left as it is, and its partition alone goes without a controller.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.controller.batches import overlapping
from ottla.coordination import znodes
from ottla.coordination.tree import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Tree,
    TreeError,
    children_or_none,
    in_batches,
)
from ottla.coordination.znodes import MalformedNode, PartitionState
from ottla.kafka import TopicPartition
from ottla.logging_setup import Repeated

logger = logging.getLogger(__name__)


class ControllerMoved(Exception):
    """Another broker was elected; nothing was written."""


class Written(NamedTuple):
    """The outcome of writing a batch of states: those that are in the tree as wanted, and those that someone else had
    changed.
    """

    done: dict[TopicPartition, int]
    """The version of each state's node."""
    found: dict[TopicPartition, tuple[PartitionState, int]]
    """The state that is there instead, with its version: decide again from that."""


class Stored(NamedTuple):
    """A state as the tree has it."""

    state: PartitionState
    version: int
    """Of its node."""
    mzxid: int
    """The transaction that wrote it."""


class FencedTree:
    """The tree in the hands of the controller that was elected with `epoch`, when /controller_epoch got `version`."""

    def __init__(self, tree: Tree, epoch: int, version: int) -> None:
        self.tree = tree
        self.epoch = epoch
        self._check = Check(znodes.CONTROLLER_EPOCH, version)
        self._troubles = Repeated(logger)

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """As Tree.multi; raises ControllerMoved if this controller's time is over."""
        try:
            results = await self.tree.multi([self._check, *operations])
        except (BadVersion, NoNode) as error:
            if error.index == 0:
                raise ControllerMoved(f"epoch {self.epoch} is over") from error
            _shift(error)
            raise
        except TreeError as error:
            _shift(error)
            raise
        return results[1:]

    async def create_states(self, states: Mapping[TopicPartition, PartitionState]) -> Written:
        """Write the first states of partitions, with the nodes above them."""
        operations: list[Operation] = [
            Create(znodes.partitions_path(topic)) for topic in sorted({name.topic for name in states})
        ]
        by_path = {}
        for name, state in states.items():
            path = znodes.state_path(*name)
            by_path[path] = name
            operations += [Create(znodes.partition_path(*name)), Create(path, state.encode())]
        written = Written({}, {})
        for batch in in_batches(operations):
            await self._write(batch, by_path, written)
        return written

    async def set_states(self, states: Mapping[TopicPartition, tuple[PartitionState, int]]) -> Written:
        """Replace states, each on condition of the version that is given with it."""
        by_path = {znodes.state_path(*name): name for name in states}
        operations = [
            Set(znodes.state_path(*name), state.encode(), version) for name, (state, version) in states.items()
        ]
        written = Written({}, {})
        for batch in in_batches(operations):
            await self._write(batch, by_path, written)
        return written

    async def _write(
        self, operations: Sequence[Operation], by_path: Mapping[str, TopicPartition], written: Written
    ) -> None:
        """One multi; if it was refused or its answer lost, look at every node and go on with those still to be
        written.
        """
        while operations:
            try:
                results = await self.multi(operations)
            except (NodeExists, BadVersion, NoNode, ConnectionLoss) as error:
                if isinstance(error, ConnectionLoss):
                    await self.tree.wait_connected()
                left = await self._still_to_write(operations, by_path, written)
                # Where nothing but a topic that was removed has kept the others from being written, they can be.
                if isinstance(error, NoNode) and len(left) == len(operations):
                    raise
                operations = left
            else:
                for operation, result in zip(operations, results, strict=True):
                    name = by_path.get(operation.path)
                    if name is not None:
                        written.done[name] = result.version if isinstance(operation, Set) else 0
                return

    async def _still_to_write(
        self, operations: Sequence[Operation], by_path: Mapping[str, TopicPartition], written: Written
    ) -> list[Operation]:
        nodes = await self.tree.get_many([operation.path for operation in operations])
        left: list[Operation] = []
        for operation, node in zip(operations, nodes, strict=True):
            name = by_path.get(operation.path)
            assert isinstance(operation, Create | Set)
            if node is None:
                # A state to replace that is not there any more: its topic was removed behind our back.
                if isinstance(operation, Create):
                    left.append(operation)
            elif name is None:
                continue
            elif node.data == operation.data:
                written.done[name] = node.stat.version
            elif isinstance(operation, Set) and node.stat.version == operation.version:
                left.append(operation)
            else:
                state = self._decode(operation.path, node.data)
                if state is not None:
                    written.found[name] = (state, node.stat.version)
        return left

    def _decode(self, path: str, data: bytes) -> PartitionState | None:
        try:
            return PartitionState.decode(path, data)
        except MalformedNode as error:
            self._troubles.log(logging.ERROR, (path, data), "a partition is left alone: %s", error)
            return None

    async def read_states(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, Stored]:
        """The states that are in the tree and can be understood."""
        states: dict[TopicPartition, Stored] = {}

        async def read(piece: Sequence[TopicPartition]) -> None:
            paths = [znodes.state_path(*name) for name in piece]
            nodes = await self.tree.get_many(paths)
            for name, path, node in zip(piece, paths, nodes, strict=True):
                if node is not None and (state := self._decode(path, node.data)) is not None:
                    states[name] = Stored(state, node.stat.version, node.stat.mzxid)

        await overlapping(read, names)
        return states

    async def delete_topic(self, topic: str, born: int) -> None:
        """Remove everything about the topic whose node has the czxid `born`; the mark of its deletion goes last, with
        the topic itself.

        Not what has its name afterwards. Somebody may have removed the topic by hand and made it anew; and when an
        answer was lost, the topic may be made anew by the time that we look. A mark that is younger than the other
        topic is for that.
        """
        path, mark = znodes.topic_path(topic), znodes.delete_topic_path(topic)
        stat = await self.tree.exists(path)
        if stat is not None and stat.czxid != born:
            marked = await self.tree.exists(mark)
            if marked is not None and marked.czxid < stat.czxid:
                await self.delete_nodes([mark])
            return
        parent = znodes.partitions_path(topic)
        partitions = await children_or_none(self.tree, parent) or []
        # One after the other in order: a partition's state before the partition.
        below = [path for number in partitions for path in (f"{parent}/{number}/state", f"{parent}/{number}")]
        await self.delete_nodes(below)
        await self._delete(
            [
                Delete(parent),
                Delete(path),
                Delete(znodes.config_path("topics", topic)),
                Delete(mark),
            ],
            None if stat is None else (path, stat.czxid),
        )

    async def delete_nodes(self, paths: Sequence[str]) -> None:
        """Remove nodes without children; those that are gone already do not matter."""
        for batch in in_batches([Delete(path) for path in paths]):
            await self._delete(batch)

    async def _delete(self, operations: Sequence[Operation], born: tuple[str, int] | None = None) -> None:
        """`born`: a node among them, and its `czxid`. If it is gone, so are the others."""
        while operations:
            try:
                await self.multi(operations)
            except (NoNode, ConnectionLoss) as error:
                if isinstance(error, ConnectionLoss):
                    await self.tree.wait_connected()
                    if born is not None:
                        path, czxid = born
                        stat = await self.tree.exists(path)
                        if stat is None or stat.czxid != czxid:
                            return
                nodes = await self.tree.get_many([operation.path for operation in operations])
                operations = [op for op, node in zip(operations, nodes, strict=True) if node is not None]
            else:
                return


def _shift(error: TreeError) -> None:
    """The caller does not count the check."""
    if error.index is not None:
        error.index -= 1
