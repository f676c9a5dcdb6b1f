"""The fetcher and its quota (rust/py/replication.rs)."""

from collections.abc import Callable, Sequence
from typing import Any, Self, final

from ottla._core._log import Log
from ottla._core._net import Completions

@final
class ReplicationQuota:
    """How many bytes of throttled partitions a broker may send as a leader, or fetch as a follower, in a second
    (KIP-73). Safe from any thread.

    What was not used for `sample_s` seconds is lost, and all of it after `samples` times as long without use. Without a
    limit nobody waits.
    """

    def __new__(cls, samples: int, sample_s: int) -> Self: ...
    def limit(self, bytes_per_second_max: int | None) -> None:
        """A new limit begins anew: what went under another one does not count."""
    def throttle(self, topic: str, partitions: set[int] | None) -> None:
        """From now on these partitions of the topic are throttled and no others of it; None: all that it has."""
    @property
    def is_used(self) -> bool: ...  # whether any partition is throttled; costs nothing
    def is_throttled(self, topic: str, partition: int) -> bool: ...
    @property
    def is_exceeded(self) -> bool: ...  # more went than may: throttled partitions have to wait
    @property
    def until_room_ms(self) -> int: ...  # how long, if nothing is recorded; 0 if it is not exceeded
    def record(self, bytes: int) -> None:
        """Bytes of throttled partitions went."""
    @property
    def bytes(self) -> int: ...  # that were ever recorded

@final
class LargeAnswers:
    """Places for answers that are larger than a fetcher's `response_bytes_max`; there is at least one. A fetcher that
    finds none free waits, and its leader with it.
    """

    def __new__(cls, places: int) -> Self: ...

@final
class PartitionToFetch:
    """One partition that a fetcher is given: what it fetches goes into `log`, as long as `leader_epoch` is the newest
    that leader and log know.
    """

    def __new__(cls, topic: str, partition: int, log: Log, *, leader_epoch: int) -> Self: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def log(self) -> Log: ...
    @property
    def leader_epoch(self) -> int: ...

@final
class Fetcher:
    """A thread that fetches partitions from one leader and appends them to their logs. Safe from any thread.

    Times and sizes are those of Kafka's settings `replica.fetch.*` and `replica.socket.*`. `fetch_version`: 12, or 11
    for a leader that cannot tell where logs diverge. `batch_bytes_max`: the largest batch that a leader may have.
    `receive_buffer_bytes`: -1 for what the system gives. `greeting` begins a conversation on each new connection, on
    the fetcher's thread: `tls` is a TlsClient, or None for plain text; `next` is given the answer before (None at
    first) and returns the next request with its size; in the end the seconds after which another connection is used, or
    None for ever. A Completion(token) with None follows whenever there are events and were none before, again and again
    (`Server.listen_to`).

    All fetchers of a broker share its `quota` and its places for `large` answers. While the quota is exceeded,
    throttled partitions that lag behind their leader's high watermark are left out.

    Memory: one answer, so at most `response_bytes_max` + 512 bytes for each partition, and `batch_bytes_max` more while
    it has one of the places; the allocation may be up to twice that while an answer comes in.
    """

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        replica_id: int,
        client_id: str,
        fetch_version: int,
        wait_max_ms: int,
        bytes_min: int,
        response_bytes_max: int,
        partition_bytes_max: int,
        batch_bytes_max: int,
        backoff_ms: int,
        socket_timeout_ms: int,
        receive_buffer_bytes: int,
        quota: ReplicationQuota,
        large: LargeAnswers,
        completions: Completions,
        token: int,
        greeting: Callable[[], Any] | None = None,
    ) -> Self: ...
    def add(self, partitions: Sequence[PartitionToFetch], *, is_move: bool = False, is_agreed: bool = False) -> None:
        """Fetches these partitions, each from its log's end on, until an event pauses it.
        `is_move`: a reassignment adds these replicas, and what they fetch counts as `reassignment_bytes_in`, too.
        `is_agreed`: these logs are known to agree with the leader's, though their epochs do not tell. The leader is not
        asked to compare epochs, and batches may be of newer epochs than the leader's.

        One that is there already gets the new log and epoch; one that is paused is resumed. What an earlier epoch has
        asked for is not appended any more, but an append that is under way is not waited for (`remove` waits).
        """
    def remove(self, partitions: list[tuple[str, int]]) -> None:
        """When it returns nothing is appended to them, and nothing will be; their events are gone. It may wait for a
        disk.
        """
    def events(self) -> list[FetcherEvent]:
        """Those since the last call: the newest of each partition, and before them the newest that have none."""
    def figures(self) -> FetcherFigures: ...
    # What metrics want of the figures, without a row for each partition.
    @property
    def requests(self) -> int: ...
    @property
    def lag_max(self) -> int: ...  # 0 if no lag is known
    def close(self) -> None:
        """Ends the thread. When it returns nothing is appended any more. May wait for a disk, never for the leader."""

@final
class FetcherEvent:
    """What a fetcher wants decided, or logged. All kinds but the last three have paused the partition.

    * "diverged": the leader ends `epoch` at `offset`, and our log has something else there (KIP-595).
    * "out_of_range": the leader has nothing at `offset`, which is our log's end.
    * "fenced": another leader epoch, at the leader (`code` 74) or in our log (`code` 6, `epoch`).
    * "storage": our log cannot be written to.
    * "newer_epoch": a batch is of a newer leader epoch, `epoch`, than the leader's.
    * "corrupt": records that our log does not take: a wrong checksum, other offsets than those that come next, or a
      batch larger than a segment (`code` 18).
    * "panic": a mistake of ours. With a topic: while that partition's records were appended, and it is paused.
    * "delayed": the leader cannot serve the partition (`code`). It is asked again after `backoff_ms`; told once until
      the code changes.
    * "connection": the leader is not reached, or its answer as a whole is wrong. Tried again after `backoff_ms`; told
      once until the reason changes.
    """

    @property
    def topic(self) -> str: ...  # "" where it is about the whole fetcher
    @property
    def partition(self) -> int: ...  # -1 there
    @property
    def leader_epoch(self) -> int: ...  # with which the partition was added: another one is old news
    @property
    def kind(self) -> str: ...
    @property
    def code(self) -> int: ...  # 0: none; -1: Kafka has no code for it
    @property
    def epoch(self) -> int: ...  # -1 where the kind has none
    @property
    def offset(self) -> int: ...  # -1 where the kind has none
    @property
    def message(self) -> str: ...

@final
class FetcherFigures:
    @property
    def partitions(self) -> int: ...  # that are not paused
    @property
    def requests(self) -> int: ...  # that were answered
    @property
    def bytes(self) -> int: ...  # of all answers
    @property
    def buffer_bytes(self) -> int: ...  # memory for an answer
    @property
    def lags(self) -> list[PartitionLag]: ...

@final
class PartitionLag:
    """How far the log of a partition is behind its leader's."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    # The leader's high watermark minus our log's end, at least 0; -1 before the first answer.
    @property
    def lag(self) -> int: ...
