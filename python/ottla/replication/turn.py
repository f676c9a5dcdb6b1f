"""What the Produces of one turn share: one write for each partition, and one move of its high watermark.

A turn of the hub brings dozens of small batches for one partition. `log.append` checks each and gives it its offsets,
but leaves the write to the end of the turn. Nobody sees the batches before that, and nothing is acknowledged: the
answers are put off until then too, and leave with the turn's others. So are those of what the hub appended itself
(`leases.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import KafkaError, StorageError
from ottla.net.guard import failed
from ottla.replication.delayed import ProduceResult

if TYPE_CHECKING:
    from ottla.replication.leases import Leases
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

#: A request's partitions: topic, number, and whether it has records for it.
Asked: TypeAlias = tuple[tuple[str, int, bool], ...]


#: Who goes on when the turn ends: `done(results)` is called, with errors in them by then for what could not be written.
PutOff: TypeAlias = tuple[Callable[[list[ProduceResult]], object], Asked, list[ProduceResult]]


#: From which offset on a partition could not be written, and why; and that by topic and number.
Failed: TypeAlias = tuple[int, KafkaError]
Lost: TypeAlias = dict[tuple[str, int], Failed]


class Turn:
    """The appends since the last `end`, and who waits for it. Handlers that run inside the hub's turn use it."""

    def __init__(self, replicas: Replicas, leases: Leases) -> None:
        #: Partitions that were appended to, as keys.
        self.appended: dict[Partition, None] = {}
        self._replicas = replicas
        self._leases = leases
        self._write_leased = leases.write
        self._put_off: list[PutOff] = []
        #: Calls `done(results)` of (done, asked, results) at the end of the turn.
        self.put_off = self._put_off.append

    def end(self) -> None:
        """Writes what was appended, and lets everybody go on."""
        leased = self._write_leased()
        if not self._put_off and not leased:
            return
        appended, put_off = tuple(self.appended), tuple(self._put_off)
        self.appended.clear()
        self._put_off.clear()
        lost: Lost = {}
        for partition, flush_due, unwritten in leased:
            self._written(partition, flush_due, unwritten, lost)
        for partition in appended:
            try:
                _, flush_due, unwritten = partition.log.write_staged()
            except BaseException as error:
                failed(f"the write of {partition} at the end of a turn", error)
                # Nobody knows what of it was written.
                lost[partition.topic, partition.index] = (0, StorageError(f"{partition} could not be written"))
                continue
            self._written(partition, flush_due, unwritten, lost)
        if leased:
            self._leases.answer(lost)
        for done, asked, results in put_off:
            if lost:
                _take_back(lost, asked, results)
            try:
                done(results)
            except BaseException as error:
                # Its request is dropped without an answer, which closes that connection and no other.
                failed("the answer to a Produce at the end of its turn", error)

    def _written(self, partition: Partition, flush_due: bool, unwritten: Failed | None, lost: Lost) -> None:
        if unwritten is not None:
            lost[partition.topic, partition.index] = unwritten
        try:
            partition.advance_high_watermark()
            if flush_due:
                self._replicas.flush(partition)
            if unwritten is not None and isinstance(unwritten[1], StorageError):
                self._replicas.storage_error(partition, unwritten[1])
        except BaseException as error:
            failed(f"the end of a turn for {partition}", error)


def _take_back(lost: Lost, asked: Asked, results: list[ProduceResult]) -> None:
    for index, ((topic, number, _), result) in enumerate(zip(asked, results, strict=True)):
        unwritten = lost.get((topic, number))
        # Tuples are errors already. A duplicate was written by an earlier turn, so its offset is lower.
        if unwritten is not None and not isinstance(result, tuple) and result.base_offset >= unwritten[0]:
            results[index] = (unwritten[1].code, -1, -1, -1)
