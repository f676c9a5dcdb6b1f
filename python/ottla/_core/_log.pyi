"""The log (rust/py/log); for users, in `ottla.log`."""

import os
from collections.abc import Sequence
from typing import Any, Final, Self, final

from typing_extensions import Buffer

from ottla._core._cleaner import Cleanable
from ottla._core._net import Completions
from ottla._core._produce import ProduceRequest
from ottla._core._records import BatchInfo
from ottla._core._traffic import TopicTraffic
from ottla.errors import KafkaError

# Lets this process have as many open files as it may: the soft limit becomes the hard one.
def raise_descriptor_limit() -> None: ...

# Creates an empty file if there is none. It is for its owner alone, and for the group and others if the folder is open
# to them.
def create_file(path: str | os.PathLike[str]) -> None: ...
def keep_space(path: str | os.PathLike[str], bytes_ahead: int) -> None: ...  # of the disk, behind the end of the file
def verify_log(path: str | os.PathLike[str]) -> LogReport: ...
def repair_log(path: str | os.PathLike[str], config: LogConfig) -> tuple[int, int]: ...
def scan_segment(
    path: str | os.PathLike[str], position: int, batches_max: int
) -> tuple[list[BatchInfo], str | None]: ...
def read_index(data: Buffer, base_offset: int, kind: str) -> list[tuple[int, int]]: ...
def read_transaction_index(data: Buffer) -> tuple[list[AbortedTransaction], int | None]:
    """The entries of a `.txnindex`, and the position of the first that cannot be read."""

def read_producer_snapshot(data: Buffer) -> list[ProducerStateEntry]:
    """The producers of a `.snapshot`, by id. Raises ValueError for what is none, and for a damaged one."""

@final
class LogDamage:
    """One thing that is wrong in a partition's folder."""

    @property
    def path(self) -> str: ...
    @property
    def position(self) -> int: ...  # in bytes from the start of the file
    @property
    def problem(self) -> str: ...

@final
class LogReport:
    """The damage of a partition's folder, and how much was looked at."""

    @property
    def damage(self) -> list[LogDamage]: ...
    @property
    def segments(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...

@final
class AbortedTransaction:
    """One entry of a transaction index."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...  # when its marker was written

@final
class ProducerStateEntry:
    """One producer in a snapshot. -1 stands where there was no batch, no marker or is no open transaction."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def first_sequence(self) -> int: ...  # of its last batch, as the next two
    @property
    def last_sequence(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def last_timestamp_ms(self) -> int: ...
    @property
    def coordinator_epoch(self) -> int: ...  # of the last marker that ended a transaction of the producer
    @property
    def transaction_start(self) -> int: ...  # the first offset of its open transaction

@final
class LogConfig:
    """Kafka's topic settings, its names with `_` for `.`, its defaults (2.7). A retention of -1 is no limit."""

    def __new__(
        cls,
        *,
        segment_bytes: int = 1_073_741_824,
        segment_ms: int = 604_800_000,
        segment_jitter_ms: int = 0,
        segment_index_bytes: int = 10_485_760,
        index_interval_bytes: int = 4096,
        flush_messages: int = ...,
        flush_ms: int = ...,
        retention_bytes: int = ...,
        retention_ms: int = 604_800_000,
        max_message_bytes: int = 1_048_588,
        message_format: int = 2,
        compression_type: str = "producer",
        message_timestamp_type: str = "CreateTime",
        message_timestamp_difference_max_ms: int = ...,
        file_delete_delay_ms: int = 60_000,
        cleanup_policy: str = "delete",
        max_compaction_lag_ms: int = ...,
        min_compaction_lag_ms: int = 0,
        min_cleanable_dirty_ratio: float = 0.5,
        delete_retention_ms: int = 86_400_000,
        producer_id_expiration_ms: int = 604_800_000,
        verify_transactions: bool = False,
    ) -> Self: ...

@final
class AppendInfo:
    """What became of an append. Of a duplicate: the offsets that the first append of it got, nothing was written."""

    base_offset: int
    last_offset: int
    append_time_ms: int  # -1: the batch keeps its producer's timestamps
    log_start_offset: int
    is_duplicate: bool
    flush_due: bool  # flush.messages records wait for a flush
    losses: int  # how many writes of turns the log had lost before

@final
class Unwritten:
    """What a log could not write at the end of a turn: what was appended before its loss of that number, with this
    offset or a later one.
    """

    def __new__(cls, offset: int, error: KafkaError, losses: int = ...) -> Self: ...  # of whatever loss
    offset: int
    error: KafkaError
    losses: int
    def has(self, info: AppendInfo) -> bool: ...

@final
class Written:
    """What the end of a turn did with a log."""

    owner: Any  # what the lease was granted with; None of `Log.write_staged`
    flush_due: bool
    unwritten: Unwritten | None

@final
class LogFigures:
    start_offset: int
    end_offset: int
    segments: int
    size_bytes: int

@final
class FileSlice:
    """A range of a segment's bytes; it holds its file, so it stays readable when the segment leaves the log."""

    @property
    def path(self) -> str: ...
    @property
    def position(self) -> int: ...
    @property
    def length(self) -> int: ...
    def read(self) -> bytes: ...

@final
class ReadInfo:
    """What a fetch gets: batches from the one that contains the offset on, the last perhaps cut; none is read yet."""

    @property
    def slice(self) -> FileSlice | None: ...
    @property
    def length(self) -> int: ...
    @property
    def segment(self) -> int: ...  # base offset of the segment that was looked at
    @property
    def position(self) -> int: ...  # position in it: what a waiting fetch counts new bytes from
    @property
    def goes_on(self) -> bool: ...  # a later segment has more of what may be read: the slice gets no longer
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...

@final
class TimestampMatch:
    """The record that a search by time found."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...  # its own, or that of its append where the topic's records have that
    @property
    def leader_epoch(self) -> int: ...  # of its batch; -1 if unknown

@final
class ActiveProducer:
    """A producer that a log remembers. -1 stands where there was no batch, no marker or is no open transaction."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def last_timestamp_ms(self) -> int: ...
    @property
    def coordinator_epoch(self) -> int: ...  # of the last marker that ended a transaction of the producer
    @property
    def transaction_start(self) -> int: ...  # the first offset of its open transaction

@final
class Producers:
    def __iter__(self) -> Self: ...
    def __next__(self) -> ActiveProducer: ...

@final
class Reader:
    """A kind of reader of a log (Kafka's FetchIsolation). `Log.bound` says how far it may see."""

    #: Another broker, or a replica of this one: it sees the whole log.
    REPLICA: Final[Reader]
    #: A consumer with isolation level read_uncommitted: it sees what all replicas in sync have.
    CONSUMER: Final[Reader]
    #: A consumer with isolation level read_committed: it sees that as far as no transaction is open.
    COMMITTED: Final[Reader]
    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...

@final
class Log:
    """One partition's log. Safe from any thread. Errors are those of `ottla.errors`; a broken disk is StorageError."""

    @staticmethod
    def open_to_read(path: str | os.PathLike[str]) -> Log: ...
    @staticmethod
    def open_to_append(path: str | os.PathLike[str], config: LogConfig) -> Log: ...
    @property
    def directory(self) -> str: ...
    @property
    def is_future(self) -> bool: ...  # a copy on its way between data directories
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    @property
    def settled_offset(
        self,
    ) -> int: ...  # below it nothing waits for a flush that is due; 2^63-1: none is
    high_watermark: int  # set: clamped to start_offset..end_offset; checkpointed by a Rust thread
    def raise_high_watermark(self, offset: int) -> bool: ...  # if it is lower; True if it was
    def advance_high_watermark(self) -> bool: ...  # to the log end offset; True if it was lower
    def watch_high_watermark(self, token: int) -> None: ...  # reports (topic, partition) once, at the next move
    @property
    def first_unstable_offset(self) -> int | None: ...
    @property
    def last_stable_offset(self) -> int: ...  # where readers of committed records stop; at most the high watermark
    @property
    def leader_epoch(self) -> int: ...
    @property
    def leader_epochs(self) -> list[tuple[int, int]]: ...  # (epoch, first offset), ascending
    @property
    def size_bytes(self) -> int: ...
    @property
    def figures(self) -> LogFigures: ...
    @property
    def segments(self) -> list[tuple[int, int]]: ...  # (base offset, bytes), ascending
    @property
    def config(self) -> LogConfig: ...
    # None: an I/O thread does it, a Completion(token) with an AppendInfo follows (LogDirectory.report_to). Else it must
    # not be acknowledged before write_staged().
    def append(
        self, request: ProduceRequest, index: int, leader_epoch: int, token: int, guard: int = 0
    ) -> AppendInfo | None: ...
    def _panic_in_append(self) -> None: ...  # on the thread of appends: for tests of a log that is in use
    def write_staged(self, losses: int) -> Written: ...  # ends a turn; `losses` is that of its first append
    def append_marker(  # ends the producer's transaction; None: as `append_records`, never without a token
        self,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        token: int | None = None,
    ) -> AppendInfo | None: ...
    def begin_verification(self, producer_id: int, producer_epoch: int, sequence: int) -> int:
        """The guard with which a transactional batch must be appended if it is the first of its transaction, else 0."""
    def refuse_verification(self, producer_id: int, guard: int) -> None: ...
    def aborted_transactions(self, offset: int, read: ReadInfo) -> list[tuple[int, int]]:
        """(producer id, first offset) of those that have batches in what `read` gave for `offset`."""
    def producers(self) -> list[ActiveProducer]: ...  # by id
    def each_producer(self) -> Producers:
        """The same, made one by one."""
    def append_bytes(self, records: Buffer, leader_epoch: int, *, origin: str = "client") -> AppendInfo: ...
    def append_records(  # a coordinator's own: (key, value) pairs as one batch; None: as `append`
        self,
        records: list[tuple[bytes, bytes | None]],
        leader_epoch: int,
        token: int,
        *,
        compression: str = "none",
        producer_id: int = ...,  # not -1: part of that producer's transaction
        producer_epoch: int = ...,
    ) -> AppendInfo | None: ...
    # What a leader sent, byte for byte; without the GIL. NotLeaderOrFollower: the log is in another epoch.
    # CorruptMessage: a damaged batch, or one of a newer epoch. One that does not continue the log: an error of code -1.
    def append_as_follower(self, records: Buffer, leader_epoch: int) -> AppendInfo: ...
    def read(self, offset: int, bytes_max: int, upper_bound: int = ..., at_least_one: bool = True) -> ReadInfo: ...
    # As `read`, but None if the disk would have to be waited for.
    def read_cached(self, offset: int, bytes_max: int, upper_bound: int, at_least_one: bool) -> ReadInfo | None: ...
    def bound(self, reader: Reader) -> int: ...  # the offset before which the reader may see records
    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampMatch | None:
        """The first record that is at least as young as `timestamp_ms`, None if all are older. It may be one that
        readers do not see yet. Reads from the disk.
        """
    def offsets_before(self, timestamp_ms: int, count_max: int) -> list[int]: ...
    def epoch_end_offset(self, epoch: int) -> tuple[int, int]: ...  # (epoch, end offset), or (-1, -1)
    def epoch_of(self, offset: int) -> int: ...  # -1 if unknown
    def begin_epoch(self, epoch: int) -> None: ...  # leader from now on; appends must name this epoch
    # For the loop. A leader leads on: appends may name any epoch of its term. `begin_epoch` is to follow.
    def lead_on(self, epoch: int) -> None: ...
    def refuse_older(self, epoch: int) -> None: ...  # for the loop: as `fence`, but does not wait for whoever writes
    # Any other role change: when it returns, nothing that names an older epoch will be appended. It waits for whoever
    # is writing. NotLeaderOrFollower: the log is in a newer epoch.
    def fence(self, epoch: int) -> None: ...
    def flush(self) -> int: ...  # blocks (without the GIL); the flushed offset
    def flush_async(self, completions: Completions, token: int) -> None: ...  # value: the flushed offset
    def copy_to(
        self, future: Log, bytes_max: int
    ) -> int: ...  # bytes; 0: it has caught up; it is not cleaned from now on
    def end_move(self) -> None: ...  # it may be cleaned again
    def roll(self) -> None: ...
    # With an epoch: NotLeaderOrFollower if the log is in another one.
    def truncate_to(self, offset: int, leader_epoch: int | None = None) -> bool: ...
    def truncate_fully_and_start_at(self, offset: int, leader_epoch: int | None = None) -> None: ...
    def set_start_offset(self, offset: int) -> bool: ...
    def delete_old_segments(self, now_ms: int) -> int: ...
    def expire_producers(self, now_ms: int) -> int: ...
    @property
    def cleaned_offset(self) -> int | None: ...  # everything before is compacted; None: it never was
    @property
    def uncleanable(self) -> str | None: ...  # why the log is not compacted any more
    def update_config(self, config: LogConfig) -> None: ...
    def close(self, *, flush: bool = True) -> None: ...

@final
class LogEnd:
    """Where the log of a partition is to end. NotLeaderOrFollower if it is not in `leader_epoch` any more."""

    def __new__(cls, topic: str, partition: int, offset: int, *, leader_epoch: int) -> Self: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...

@final
class DeletedSegments:
    """The segments of one log that retention has deleted."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def count(self) -> int: ...

@final
class LogDirectory:
    """A data directory, locked. Between `open` and `close(clean=True)` it counts as not stopped cleanly."""

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        traffic: TopicTraffic | None = None,
        high_watermark_checkpoint_interval_ms: int = 200,
    ) -> LogDirectory: ...
    @property
    def path(self) -> str: ...
    def report_to(self, completions: Completions) -> None: ...  # until then every Log.append runs at once
    def report_failure_to(self, completions: Completions, token: int) -> None: ...  # once, when (or if) it fails
    def fail_when_full(self) -> None: ...  # a disk without space takes it out of use, instead of failing requests
    @staticmethod
    def is_locked(path: str | os.PathLike[str]) -> bool: ...  # by another process, or by this one
    @property
    def was_clean(self) -> bool: ...
    @property
    def failure(self) -> str | None: ...  # why the directory is out of use (a failed fsync, ...)
    @property
    def other_folders(self) -> list[str]: ...  # folders that are no partition's: Kafka would not start
    def take_leftovers(self) -> list[tuple[str, str]]: ...  # what load_all and load could not remove, and why
    def load_all(
        self, configs: dict[str, LogConfig], default: LogConfig, *, threads: int | None = None
    ) -> tuple[list[Log], list[tuple[str, int, KafkaError]]]: ...  # configs by topic; what could not be opened
    def load(self, topic: str, partition: int, config: LogConfig) -> Log: ...
    def create(self, topic: str, partitions: list[int], config: LogConfig) -> list[Log]: ...
    # Of every log; idle producers are forgotten too. The second part is the first error.
    def delete_old_segments(self, now_ms: int) -> tuple[list[DeletedSegments], KafkaError | None]: ...
    def create_future(self, topic: str, partition: int, config: LogConfig) -> Log: ...  # to move it here
    def replace(self, current: Log, future: Log, to: LogDirectory) -> bool: ...  # False: too much is left to copy
    # The next four without the GIL, and not for the loop.
    def begin_epochs(self, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], KafkaError]:
        """`Log.begin_epoch` for many: the leader epoch of each (topic, partition). Returns what failed."""
    def follow(self, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], KafkaError]:
        """`Log.fence` for many: the leader epoch of each (topic, partition). When it returns, the appends that were
        queued for them are over. Returns what failed.
        """
    def truncate(self, ends: Sequence[LogEnd]) -> list[KafkaError | None]:
        """`Log.truncate_to` for many, with one checkpoint. Returns for each what kept it from happening."""
    def start_anew(self, ends: Sequence[LogEnd]) -> list[KafkaError | None]:
        """`Log.truncate_fully_and_start_at` for many, with one checkpoint. Returns for each what kept it from
        happening.
        """
    def delete(self, topic: str, partition: int) -> None: ...
    def release(self, topic: str, partition: int) -> None: ...  # closes the log; its folder is the caller's then
    def missing(self) -> list[tuple[str, int]]: ...  # after load_all: those that the checkpoints name, without a folder
    def cleanable(self, now_ms: int) -> list[Cleanable]: ...  # of every compacted log that is not being cleaned
    def checkpoint_recovery_points(self) -> None: ...
    def checkpoint_start_offsets(self) -> None: ...
    def checkpoint_high_watermarks(self) -> None: ...
    def close(self, *, clean: bool = True, threads: int | None = None) -> None: ...

# For each log and timestamp, on a thread: what `offset_for_timestamp` returns, or an error code.
def find_times(completions: Completions, token: int, wanted: Sequence[tuple[Log, int]]) -> None: ...
