"""What the Produces of one turn share: one write for each partition, and one move of its high watermark.

A turn of the hub brings dozens of small batches for one partition. `log.append` checks each and gives it its offsets,
but leaves the write to the end of the turn. Nobody sees the batches before that, and nothing is acknowledged: the
answers are put off until then too, and leave with the turn's others. So are those of what the hub appended itself
(`leases.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla._core import Unwritten
from ottla.errors import StorageError
from ottla.kafka import PartitionKey
from ottla.net.guard import failed
from ottla.replication.leased_produces import LeasedProduce

if TYPE_CHECKING:
    from ottla._core import Unacknowledged, Written
    from ottla.replication.delayed import Deadlines
    from ottla.replication.leases import Leases
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

#: What the partitions of a turn could not write.
Lost: TypeAlias = dict[PartitionKey, Unwritten]

#: Goes on when the turn ends, and is told what could not be written.
AtEnd: TypeAlias = Callable[[Lost], object]


class Turn:
    """The appends since the last `end`, and who waits for it. Handlers that run inside the hub's turn use it.

    is_open: The hub has handed out a request since the last `end`, so it will come to the next one by itself. A task
    that appends outside of the hub's turns calls `end` itself.
    """

    def __init__(self, replicas: Replicas, leases: Leases, deadlines: Deadlines) -> None:
        self.is_open = False
        #: Partitions that were appended to, and what the `AppendInfo` of the first append says of losses.
        self.appended: dict[Partition, int] = {}
        self._replicas = replicas
        self._leases = leases
        self._deadlines = deadlines
        self._write_leased = leases.write
        leases.hand_over_to(self._wait)
        self._waiting: list[AtEnd] = []
        #: Calls an `AtEnd` at the end of the turn, once.
        self.at_end = self._waiting.append

    def end(self) -> None:
        """Writes what was appended, and lets everybody go on."""
        self.is_open = False
        leased = self._write_leased()
        if not self._waiting and not leased:
            return
        appended, waiting = tuple(self.appended.items()), tuple(self._waiting)
        self.appended.clear()
        self._waiting.clear()
        lost: Lost = {}
        for written in leased:
            self._written(written.owner, written, lost)
        for partition, losses in appended:
            try:
                written = partition.log.write_staged(losses)
            except BaseException as error:
                failed(f"the write of {partition} at the end of a turn", error)
                # Nobody knows what of it was written.
                whole = Unwritten(0, StorageError(f"{partition} could not be written"))
                lost[partition.topic, partition.index] = whole
                continue
            self._written(partition, written, lost)
        if leased:
            self._answer_leased()
        for go_on in waiting:
            try:
                go_on(lost)
            except BaseException as error:
                # Its request is dropped without an answer, which closes that connection and no other.
                failed("the answer to a Produce at the end of its turn", error)

    def _answer_leased(self) -> None:
        for unacknowledged in self._leases.answer():
            self._wait(unacknowledged)

    def _wait(self, unacknowledged: Unacknowledged) -> None:
        try:
            LeasedProduce(unacknowledged).begin(self._replicas, self._deadlines)
        except BaseException as error:
            failed("a Produce whose lease has ended", error)

    def _written(self, partition: Partition, written: Written, lost: Lost) -> None:
        unwritten = written.unwritten
        if unwritten is not None:
            lost[partition.topic, partition.index] = unwritten
        try:
            partition.appended()
            if written.flush_due:
                self._replicas.flush(partition)
            if unwritten is not None and isinstance(unwritten.error, StorageError):
                self._replicas.storage_error(partition, unwritten.error)
        except BaseException as mistake:
            failed(f"the end of a turn for {partition}", mistake)
