"""What follows an append on a leader: the high watermark, a flush that is due, and an answer once the records are safe:
below the high watermark and, where there is one replica or a flush is due, on disk.

Produces, the records of coordinators and the markers of transactions all promise this, so the rules stand here once. A
Produce has several appends, which share its deadline and the write of its turn (`turn.py`): it uses the functions for
each. Every other append is one alone: `SafeAppends`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import KafkaError, NotEnoughReplicas, RequestTimedOut, StorageError, UnknownServerError
from ottla.net.guard import failed

if TYPE_CHECKING:
    from ottla._core import AppendInfo
    from ottla.net import Server
    from ottla.replication.delayed import Deadlines
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas


def appended(
    replicas: Replicas, partition: Partition, info: AppendInfo, done: Callable[[int], None] | None = None
) -> None:
    """An append alone is written: moves the high watermark, and has the log flushed if that is due. `done` is called as
    by `when_safe`. (`Turn` does the rest once for all appends of a turn.)
    """
    partition.appended()
    if (done is not None and partition.wait_durable(info.last_offset, done)) or info.flush_due:
        replicas.flush(partition)


def when_safe(replicas: Replicas, partition: Partition, info: AppendInfo, done: Callable[[int], None]) -> None:
    """Calls `done(error code)` once what was appended in a turn that has ended is safe, or will not be under this
    leader; perhaps before this returns. See `Partition.wait_durable`.
    """
    if partition.wait_durable(info.last_offset, done):
        replicas.flush(partition)


def when_flushed(replicas: Replicas, partition: Partition, info: AppendInfo, done: Callable[[int], None]) -> None:
    """The same, but other replicas are not waited for. See `Partition.wait_flushed`."""
    if partition.wait_flushed(info.last_offset, done):
        replicas.flush(partition)


class SafeAppends:
    """Appends single batches. All methods are called from the loop's thread."""

    def __init__(self, replicas: Replicas, server: Server, deadlines: Deadlines) -> None:
        self._replicas = replicas
        self._server = server
        self._deadlines = deadlines

    def append(
        self,
        partition: Partition,
        start: Callable[[int], AppendInfo | None],
        answer: Callable[[int, int], object],
        timeout_ms: int,
        *,
        is_safe_at_once: bool = False,
    ) -> None:
        """Appends with `start` (see `Server.submit`), and calls `answer(error code, last offset)` once, perhaps before
        this returns. The offset is -1 where nothing was appended, and where nobody knows yet at the deadline.

        `is_safe_at_once`: it is enough that the batch is in the log here, as with acks=1.
        """
        if not partition.has_enough_replicas and not is_safe_at_once:
            answer(NotEnoughReplicas.code, -1)
            return None
        append = _SafeAppend(self._replicas, partition, answer, is_safe_at_once)
        try:
            info = self._server.submit(start, append.reported)
        except KafkaError as refused:
            return append.refused(refused)
        except BaseException as error:
            failed(f"an append to {partition}", error)
            return append.refused(UnknownServerError(str(partition)))
        if info is not None:
            append.appended(info)
        if not append.done:
            self._deadlines.add(timeout_ms, append)
        return None


class _SafeAppend:
    """One append, which is answered once: when it is safe, when it fails, or at its deadline."""

    __slots__ = ("_answer", "_is_safe_at_once", "_partition", "_replicas", "done")
    purgatory = "Produce"

    def __init__(
        self,
        replicas: Replicas,
        partition: Partition,
        answer: Callable[[int, int], object],
        is_safe_at_once: bool,
    ) -> None:
        self._is_safe_at_once = is_safe_at_once
        self._replicas = replicas
        self._partition = partition
        self._answer = answer
        self.done = False

    def reported(self, info: AppendInfo | None, error: BaseException | None) -> None:
        """An I/O thread did it."""
        if info is not None:
            self.appended(info)
        elif isinstance(error, KafkaError):
            self.refused(error)
        else:
            assert error is not None
            failed(f"an append to {self._partition}", error)
            self.refused(UnknownServerError(str(self._partition)))

    def refused(self, error: KafkaError) -> None:
        if isinstance(error, StorageError):
            self._replicas.storage_error(self._partition, error)
        self._settle(error.code, -1)

    def appended(self, info: AppendInfo) -> None:
        def safe(error: int) -> None:
            self._settle(error, info.last_offset)

        if not self._is_safe_at_once:
            return appended(self._replicas, self._partition, info, safe)
        appended(self._replicas, self._partition, info)
        return when_flushed(self._replicas, self._partition, info, safe)

    def expire(self) -> None:
        self._settle(RequestTimedOut.code, -1)

    def _settle(self, error: int, last_offset: int) -> None:
        if not self.done:
            self.done = True
            # The deadline keeps this object for seconds, but not the request that it answers.
            answer, self._answer = self._answer, _nobody
            answer(error, last_offset)


def _nobody(error: int, last_offset: int) -> None:
    """Who has been answered."""
