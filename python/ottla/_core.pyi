"""The Rust side of Ottla. Sections follow the rooms of rust/; each is documented where Python wraps it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar, final

from typing_extensions import Buffer

from ottla.errors import KafkaError
from ottla.wire.schema import Api

_Row = TypeVar("_Row")
_Item = TypeVar("_Item")

@final
class OneAtATime(Generic[_Item]):
    """An iterator for one thread at a time: two that take from it at once would each get some of the items. A thread
    may go on where another one has stopped. `inner` is a generator; `what` begins the error, e.g. "records of t-0".
    """

    def __new__(cls, inner: Iterator[_Item], what: str) -> Self: ...
    def __iter__(self) -> Self: ...
    # RuntimeError: another thread waits for it, too
    def __next__(self) -> _Item: ...
    # ends it, as that of a generator
    def close(self) -> None: ...

__version__: str
DEBUG_BUILD: bool

# --- records ---

def crc32c(data: Buffer) -> int: ...
def validate(batch: Buffer, *, batch_bytes_max: int = ..., decompressed_bytes_max: int = ...) -> BatchInfo: ...
def stamp(batch: Buffer, base_offset: int, leader_epoch: int, append_time_ms: int | None = None) -> bytes: ...
def marker_batch(
    producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes: ...
def encode_batch(
    records: Iterable[tuple[int, Buffer | None, Buffer | None, Sequence[tuple[str | Buffer, Buffer | None]]]],
    *,
    compression: str = "none",
    level: int | None = None,
    base_offset: int = 0,
) -> bytes: ...
def encode_messages(
    records: Iterable[tuple[int, Buffer | None, Buffer | None]],
    *,
    magic: int,
    compression: str = "none",
    base_offset: int = 0,
    append_time_ms: int | None = None,
) -> bytes: ...
def down_convert(data: Buffer, *, magic: int, first_offset: int = 0, bytes_max: int = ...) -> bytes: ...

# payloads, where they end, and what is wrong there: (it is only cut off, position, problem)
def decode_07(data: Buffer, *, message_bytes_max: int) -> tuple[list[bytes], int, tuple[bool, int, str] | None]: ...
def find_07(data: Buffer, start: int, *, message_bytes_max: int) -> int | None: ...
def read_batches(data: Buffer, *, check_crc: bool = True) -> list[BatchInfo]: ...
def decode_columns(
    data: Buffer,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    start_offset: int = 0,
    end_offset: int = ...,
    columns: Sequence[str] | None = None,
    rows_max: int = 50_000,
    bytes_max: int = ...,
    timestamp_unit: str = "us",
    timestamps: str = "error",
    check_crc: bool = True,
    decompressed_bytes_max: int = ...,
) -> list[Columns]: ...

@final
class BatchBuilder:
    def __new__(
        cls,
        *,
        compression: str = "none",
        level: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        base_sequence: int = ...,
        transactional: bool = False,
        control: bool = False,
        append_time_ms: int | None = None,
    ) -> Self: ...
    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str | Buffer, Buffer | None]] = ...,
    ) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def finish(self, *, base_offset: int | None = None, base_sequence: int | None = None) -> bytes: ...
    def clear(self) -> None: ...

_Binary: TypeAlias = tuple[Buffer | None, Buffer | None, Buffer | None, int]
_Fixed: TypeAlias = tuple[Buffer | None, Buffer | None, int]
_Lists: TypeAlias = tuple[Buffer | None, Buffer | None, int, _Binary, _Binary, int]

@final
class RowEncoder:
    def __new__(
        cls,
        *,
        compression: str = "none",
        level: int | None = None,
        producer_id: int = ...,
        producer_epoch: int = ...,
        transactional: bool = False,
        batch_bytes: int,
        record_bytes_max: int,
        memory_bytes: int,
        seed: int = 0,
    ) -> Self: ...
    def add_topic(self, name: str, partition_count: int) -> None: ...
    def append(
        self,
        rows: int,
        start: int,
        *,
        now_ms: int,
        topic: str | _Binary,
        value: _Binary,
        key: _Binary | None = None,
        partition: _Fixed | None = None,
        headers: _Lists | None = None,
        timestamp: _Fixed | None = None,
    ) -> tuple[int, str | None]: ...
    def flush(self) -> None: ...
    def take(self) -> list[tuple[str, int, int, bytes]]: ...

@final
class BatchInfo:
    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def compression(self) -> str: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def is_log_append_time(self) -> bool: ...
    @property
    def base_timestamp_ms(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...

@final
class Record:
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...

@final
class Mirror:
    """Makes batches for a partition of another cluster of what was fetched (rust/records/mirror.rs)."""

    def __new__(
        cls,
        *,
        transactional: bool = False,
        join_bytes: int = ...,
        header: tuple[bytes, bytes] | None = None,
        stops: Sequence[bytes] = ...,
    ) -> Self: ...
    def copy(
        self, data: Buffer, offset: int, aborted: Sequence[tuple[int, int]] = ...
    ) -> tuple[list[tuple[bytes, int, int, int, bool]], int]: ...  # bytes, records, first and last offset, unopened

@final
class RecordReader:
    def __new__(
        cls,
        data: Buffer,
        *,
        start_offset: int = ...,
        with_control: bool = False,
        check_crc: bool = True,
        decompressed_bytes_max: int = ...,
    ) -> Self: ...
    @property
    def position(self) -> int: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def rows(self, kind: type[_Row], topic: str, partition: int) -> list[_Row]: ...

@final
class ColumnBuffer(Buffer):
    def __len__(self) -> int: ...

@final
class Columns:
    @property
    def rows(self) -> int: ...
    @property
    def offset(self) -> ColumnBuffer | None: ...
    @property
    def timestamp(self) -> ColumnBuffer | None: ...
    @property
    def timestamp_type(self) -> ColumnBuffer | None: ...
    @property
    def header_count(self) -> int: ...
    def __len__(self) -> int: ...
    def buffers(self, name: str) -> list[ColumnBuffer | None]: ...
    def null_count(self, name: str) -> int: ...

@final
class ColumnDecoder:
    def __new__(
        cls,
        *,
        start_offset: int = 0,
        end_offset: int = ...,
        columns: Sequence[str] | None = None,
        rows_max: int = 50_000,
        bytes_max: int = ...,
        timestamp_unit: str = "us",
        timestamps: str = "error",
        check_crc: bool = True,
        decompressed_bytes_max: int = ...,
    ) -> Self: ...
    def feed(self, data: Buffer, aborted: Sequence[tuple[int, int]] | None = None) -> None: ...
    def next(self) -> Columns | None: ...
    def finish(self) -> Columns | None: ...
    def seek(self, offset: int) -> None: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def done(self) -> bool: ...

# --- log ---

# Lets this process have as many open files as it may: the soft limit becomes the hard one.
def raise_descriptor_limit() -> None: ...

@final
class TopicTraffic:
    """What went through the topics of one broker, counted by its log directories and its hub."""

    def __new__(cls) -> Self: ...
    def counts(self) -> TrafficCounts: ...

@final
class TrafficCounts:
    by_topic: dict[str, Counts]  # of every topic that has a log
    total: Counts  # of all topics there ever were

@final
class Counts:
    """The hub counts what its requests bring, if it measures; the logs count the rest."""

    records_in: int  # by logs
    bytes_in: int  # by logs
    bytes_out: int
    produce_requests: int  # partitions in them
    fetch_requests: int
    failed_produce_requests: int  # unexpectedly
    failed_fetch_requests: int
    produce_conversions: int  # records; by logs
    fetch_conversions: int
    replication_bytes_in: int  # by logs: what fetchers appended
    replication_bytes_out: int  # to followers
    reassignment_bytes_in: int  # by logs: of those fetched, for replicas that a reassignment adds

# Creates an empty file if there is none. It is for its owner alone, and for the group and others if the folder is open
# to them.
def create_file(path: str | os.PathLike[str]) -> None: ...
def keep_space(path: str | os.PathLike[str], bytes_ahead: int) -> None: ...  # of the disk, behind the end of the file
def verify_log(
    path: str | os.PathLike[str],
) -> tuple[list[tuple[str, int, str]], tuple[int, int, int, int, tuple[int, int] | None]]: ...
def repair_log(path: str | os.PathLike[str], config: LogConfig) -> tuple[int, int]: ...
def scan_segment(
    path: str | os.PathLike[str], position: int, batches_max: int
) -> tuple[list[BatchInfo], str | None]: ...
def read_index(data: Buffer, base_offset: int, kind: str) -> list[tuple[int, int]]: ...
def read_transaction_index(data: Buffer) -> tuple[list[tuple[int, int, int, int]], int | None]: ...
def read_producer_snapshot(data: Buffer) -> list[tuple[int, int, int, int, int, int, int, int]]: ...

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
class Producers:
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, int, int, int, int, int]: ...

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
    high_watermark: int  # set: clamped to start_offset..end_offset; checkpointed by a Rust thread
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
    def producers(self) -> list[tuple[int, int, int, int, int, int]]:
        """Id, epoch, last sequence, last timestamp, coordinator epoch, start of its open transaction or -1; by id."""
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
    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None: ...  # offset, timestamp, epoch
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
    # Of every log; idle producers are forgotten too. Topic, partition and number of segments, and the first error.
    def delete_old_segments(self, now_ms: int) -> tuple[list[tuple[str, int, int]], KafkaError | None]: ...
    def create_future(self, topic: str, partition: int, config: LogConfig) -> Log: ...  # to move it here
    def replace(self, current: Log, future: Log, to: LogDirectory) -> bool: ...  # False: too much is left to copy
    # The next three without the GIL, and not for the loop. What went wrong for each in its place, None where nothing
    # did. Each is (topic, partition, leader epoch).
    def begin_epochs(self, epochs: list[tuple[str, int, int]]) -> list[KafkaError | None]: ...
    # Fences each, then waits for the appends that are queued for it.
    def follow(self, epochs: list[tuple[str, int, int]]) -> list[KafkaError | None]: ...
    # Each (topic, partition, offset, leader epoch); one checkpoint for all.
    def truncate(self, cuts: list[tuple[str, int, int, int]]) -> list[KafkaError | None]: ...
    def start_anew(
        self, cuts: list[tuple[str, int, int, int]]
    ) -> list[KafkaError | None]: ...  # the same, of all of it
    def delete(self, topic: str, partition: int) -> None: ...
    def release(self, topic: str, partition: int) -> None: ...  # closes the log; its folder is the caller's then
    def missing(self) -> list[tuple[str, int]]: ...  # after load_all: those that the checkpoints name, without a folder
    def cleanable(self, now_ms: int) -> list[Cleanable]: ...  # of every compacted log that is not being cleaned
    def checkpoint_recovery_points(self) -> None: ...
    def checkpoint_start_offsets(self) -> None: ...
    def checkpoint_high_watermarks(self) -> None: ...
    def close(self, *, clean: bool = True, threads: int | None = None) -> None: ...

@final
class Cleanable:
    """A compacted log as `LogDirectory.cleanable` found it. Only closed segments count."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def first_dirty_offset(self) -> int: ...  # everything before is clean
    @property
    def first_uncleanable_offset(self) -> int: ...  # from here on nothing may be cleaned yet
    @property
    def clean_bytes(self) -> int: ...
    @property
    def cleanable_bytes(self) -> int: ...
    @property
    def overdue_ms(self) -> int: ...  # beyond max.compaction.lag.ms; 0 if it is not
    @property
    def dirty_ratio_min(self) -> float: ...

@final
class CleanReport:
    """What a cleaning did. A map that became full ends it before the offset that was asked for."""

    @property
    def first_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def map_bytes_read(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_written(self) -> int: ...
    @property
    def records_read(self) -> int: ...
    @property
    def records_written(self) -> int: ...
    @property
    def records_keyless(self) -> int: ...
    @property
    def segments_read(self) -> int: ...
    @property
    def segments_written(self) -> int: ...
    @property
    def map_keys(self) -> int: ...
    @property
    def map_utilization(self) -> float: ...
    @property
    def map_seconds(self) -> float: ...
    @property
    def seconds(self) -> float: ...

@final
class LogCleaner:
    """Threads that compact logs. Memory is for each of them, `bytes_per_second` for all together."""

    def __new__(
        cls, threads: int, *, map_bytes: int, map_load_factor: float, io_bytes: int, bytes_per_second: float
    ) -> Self: ...
    def clean(  # a Completion(token) follows, with a CleanReport, or None if it was stopped
        self, directory: LogDirectory, candidate: Cleanable, completions: Completions, token: int
    ) -> None: ...
    def stop(self) -> None: ...

# --- replication ---

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
class Fetcher:
    """A thread that fetches partitions from one leader and appends them to their logs. Safe from any thread.

    Times and sizes are those of Kafka's settings `replica.fetch.*` and `replica.socket.*`. `fetch_version`: 12, or 11
    for a leader that cannot tell where logs diverge. `batch_bytes_max`: the largest batch that a leader may have.
    `receive_buffer_bytes`: -1 for what the system gives. A Completion(token) with None follows whenever there are
    events and were none before, again and again (`Server.listen_to`).

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
    ) -> Self: ...
    def add(
        self, partitions: list[tuple[str, int, Log, int]], *, is_move: bool = False, is_agreed: bool = False
    ) -> None:
        """Topic, partition, log, leader epoch: fetches them, each from its log's end on, until an event pauses it.
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
    # The leader's high watermark minus our log's end, at least 0; -1 before the first answer.
    @property
    def lags(self) -> list[tuple[str, int, int]]: ...

# --- wire ---

@final
class Schema:
    def __new__(
        cls, declaration: tuple[object, ...], versions: tuple[int, int], flexible_from: int, items_max: int = ...
    ) -> Self: ...
    def encode(self, version: int, message: object) -> bytes: ...
    def decode(self, version: int, buffer: Buffer, start: int = 0) -> Any: ...
    def encoding(self, version: int, message: object, items: int) -> Encoding: ...
    def decoding(self, version: int, buffer: Buffer, items: int) -> Decoding: ...

@final
class Decoding:
    @property
    def message(self) -> Any: ...
    # of all arrays together, known before the first one is made
    @property
    def items_count(self) -> int: ...
    def go_on(self) -> bool: ...

@final
class Encoding:
    @property
    def bytes(self) -> bytes: ...
    @property
    def is_done(self) -> bool: ...
    def go_on(self) -> bool: ...

@final
class ProducedPartition:
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def error_code(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def log_append_time_ms(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def record_errors(self) -> list[tuple[int, str | None]]: ...
    @property
    def error_message(self) -> str | None: ...

@final
class ProduceResponse:
    @property
    def throttle_time_ms(self) -> int: ...
    @property
    def partitions(self) -> list[ProducedPartition]: ...

@final
class FetchedPartition:
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def diverging_epoch(self) -> tuple[int, int] | None: ...
    @property
    def current_leader(self) -> tuple[int, int] | None: ...
    @property
    def aborted_transactions(self) -> list[tuple[int, int]] | None: ...
    @property
    def preferred_read_replica(self) -> int: ...
    @property
    def records(self) -> memoryview | None: ...

@final
class FetchResponse:
    @property
    def throttle_time_ms(self) -> int: ...
    @property
    def error_code(self) -> int: ...
    @property
    def session_id(self) -> int: ...
    @property
    def partitions(self) -> list[FetchedPartition]: ...

def encode_produce_request(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    partitions: Sequence[tuple[str, int, Buffer | None]],
) -> bytes:
    """The body for (topic, partition, records), in this order; neighbours of one topic share its entry."""

def decode_produce_response(buffer: Buffer, version: int, start: int = 0) -> ProduceResponse: ...
def encode_fetch_request(
    version: int,
    partitions: Sequence[tuple[str, int, int, int, int, int, int]],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = ...,
    forgotten: Sequence[tuple[str, int]] = ...,
    replica_id: int = ...,
    rack_id: str = "",
    cluster_id: str | None = None,
) -> bytes:
    """The body. A partition is (topic, partition, fetch offset, bytes max, current leader epoch, last fetched epoch,
    log start offset), -1 for what is unknown; what a version lacks is left out. Forgotten are (topic, partition) pairs.
    """

def decode_fetch_response(buffer: Buffer, version: int, start: int = 0) -> FetchResponse:
    """The response whose body begins at byte `start`; its records are views of the buffer, and keep it alive."""

def request_frame(
    api_key: int, api_version: int, is_flexible: bool, correlation_id: int, client_id: str | None, body: Buffer
) -> bytes: ...
def parse_response_header(api_key: int, is_flexible: bool, frame: Buffer) -> tuple[int, int]: ...
def request_header_version(api_key: int, api_version: int, is_flexible: bool) -> int: ...
def response_header_version(api_key: int, is_flexible: bool) -> int: ...

# --- net ---

@final
class Distribution:
    """How often something was measured, and its quantiles 0.5, 0.75, 0.95, 0.98, 0.99 and 0.999."""

    @property
    def count(self) -> int: ...
    @property
    def quantiles(self) -> list[float]: ...

@final
class ApiFigures:
    """What the requests of one API cost. Key -1 is Fetch of consumers, -2 of followers."""

    @property
    def key(self) -> int: ...
    @property
    def versions(self) -> list[tuple[int, int]]: ...  # version, requests
    @property
    def total_us(self) -> Distribution: ...  # until the answer was sent; the others are its parts
    @property
    def request_queue_us(self) -> Distribution: ...
    @property
    def local_us(self) -> Distribution: ...
    @property
    def remote_us(self) -> Distribution: ...
    @property
    def response_queue_us(self) -> Distribution: ...
    @property
    def response_send_us(self) -> Distribution: ...
    @property
    def size_bytes(self) -> Distribution: ...
    @property
    def throttle_ms(self) -> Distribution: ...
    @property
    def errors(self) -> list[tuple[int, int]]: ...  # code (0 too), how often it stood in an answer

@final
class Hub:
    def __new__(
        cls,
        *,
        supported: Mapping[int, Api[Any, Any]],
        frame_bytes_max: int = 104_857_600,
        queued_bytes_max: int = 268_435_456,
        percent_per_ip_max: int = 50,
        output_bytes_max: int = 1_048_576,
        waiting_requests_max: int = 1000,
        waiting_bytes_max: int = 16_777_216,
        connections_max: int = 2_147_483_647,
        connections_per_ip_max: int = 2_147_483_647,
        connections_per_ip_overrides: dict[str, int] | None = None,
        idle_ms: int | None = ...,
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> Self: ...
    def fileno(self) -> int: ...
    def listen(self, host: str, port: int, name: str) -> int: ...
    # connections that come to the listener from now on may speak only when `let_speak` says so
    def greet(self, name: str, greeting_ms: int | None) -> None: ...
    # before the answer to the request that told who the client is
    def let_speak(self, connection: int) -> None: ...
    # closes the connection at once; what waits there is not answered
    def end_session(self, connection: int, reason: str) -> None: ...
    def stop_listening(self, name: str) -> None: ...
    def next(self) -> Request | Completion | Disconnected | Served | None: ...  # None: the turn is over
    # The first event of a turn; None: the time is over, or a signal came, or what is watched beside is ready
    def wait(self, timeout_s: float) -> Request | Completion | Disconnected | Served | None: ...
    def watch_beside(self, fd: int | None) -> None: ...
    # Until it ends, plain Produces and Fetches of the partition are served without becoming a Request
    def lease(self, topic: str, partition: int, log: Log, terms: Terms, owner: Any) -> Lease: ...
    @property
    def waiting_fetches(self) -> int: ...  # under leases
    def limit_leased_fetches(self, bytes_max: int, serves_racks: bool) -> None: ...
    def write_leased(self) -> list[Written]: ...  # what this thread appended under leases in its turn
    def answer_leased(self) -> None: ...  # what `write_leased` wrote, or could not write
    def limit_connection_rate(
        self,
        per_second_max: int | None,
        *,
        samples: int,  # windows that are counted, each of `window_ms`
        window_ms: int,
        protected: str | None,  # the listener for brokers: this bound and that of all connections do not stop it
    ) -> None: ...
    def limit_listener(
        self, name: str, connections_max: int, per_second_max: int | None, *, samples: int, window_ms: int
    ) -> None: ...
    # Listeners that clients do not use: their connections have a reserve of memory, and only there a connection is
    # taken for a broker's because it says so. With none it is taken for one everywhere, but has no reserve.
    def reserve_for(self, listeners: list[str]) -> None: ...
    def limit_connections(
        self, connections_max: int, connections_per_ip_max: int, connections_per_ip_overrides: dict[str, int]
    ) -> None: ...
    def stop_accepting(self) -> None: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...
    @property
    def completions(self) -> Completions: ...
    @property
    def connections(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...
    @property
    def pooled_bytes(self) -> int: ...
    @property
    def accepted_total(self) -> int: ...
    @property
    def turns_total(self) -> int: ...
    @property
    def cold_reads_total(self) -> int: ...
    # From now on requests are measured, and counted for the topics that they name.
    def measure(self, traffic: TopicTraffic) -> None: ...
    # What each API costs, since `measure`.
    def measured(self) -> list[ApiFigures]: ...
    # Counts the error codes of an answer to this API that was not made by reply_produce or reply_fetch.
    def note_errors(self, key: int, codes: list[int]) -> None: ...
    # How long it has been measured, and for how much of that turns ran.
    @property
    def busy_us(self) -> tuple[int, int]: ...
    def listener_connections(self) -> list[tuple[str, int]]: ...

# Exports its body as a buffer, for which there is no method before Python 3.12.
@final
class Request(Buffer):
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def connection_id(self) -> int: ...
    @property
    def local_address(self) -> tuple[str, int]: ...
    @property
    def peer_address(self) -> tuple[str, int]: ...
    @property
    def listener(self) -> str: ...
    @property
    def is_waiting(self) -> bool: ...
    def __len__(self) -> int: ...
    def reply(self, body: Buffer) -> None: ...
    # with what is encoded, which is taken out of it: it has no bytes afterwards
    def reply_encoded(self, encoding: Encoding) -> None: ...
    # memory for its answer, `bytes` in all: whether it is there; None: a completion with this token will tell.
    # False: nobody waits for the answer any more
    def reserve(self, bytes: int, token: int) -> bool | None: ...
    def skip(self) -> None: ...
    def close(self, reason: str | None = None) -> None: ...
    def appended(self) -> None: ...
    def produce(self) -> ProduceRequest: ...
    # those of the next partitions of a Produce; reply_produce has those of the last
    def put_results(self, results: Sequence[AppendInfo | ProduceRow]) -> None: ...
    def reply_produce(
        self,
        results: Sequence[AppendInfo | ProduceRow],  # a list; Sequence because a list's type is invariant
    ) -> None: ...
    def limit(
        self,
        throttle_ms: Callable[[], int],  # asked once, by the answer or `take_throttle`: how long to mute the connection
        is_named: bool,  # the answer begins with its throttle time
    ) -> None: ...
    def take_throttle(self) -> int: ...  # asks what `limit` was given; for a Fetch, which is answered otherwise then
    def fetch(self) -> FetchRequest: ...
    def reply_fetch(
        self,
        rows: list[FetchRow],
        *,
        of: list[PartitionToRead]
        | None = None,  # whose rows they are; None: of the request's partitions, from the first on
        throttle_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
    ) -> None: ...

@final
class ProduceRow:
    """One partition's part of the answer to a Produce where no append gives it: an error, or that there was nothing to
    append. `append_time_ms` -1: the records keep their own times. `record_errors`: the index in its batch of each
    record that was refused (KIP-467), and why.
    """

    def __new__(
        cls,
        error_code: int = 0,
        *,
        base_offset: int = ...,
        append_time_ms: int = ...,
        log_start_offset: int = ...,
        record_errors: Sequence[tuple[int, str | None]] = ...,
        message: str | None = None,
    ) -> ProduceRow: ...
    @property
    def error_code(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def append_time_ms(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def record_errors(self) -> list[tuple[int, str | None]]: ...
    @property
    def message(self) -> str | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class ProduceRequest:
    @property
    def acks(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def transactional_id(self) -> str | None: ...
    @property
    def is_transactional(self) -> bool: ...  # a batch in it belongs to a transaction
    # (topic, partition, has records)
    @property
    def partitions(self) -> tuple[tuple[str, int, bool], ...]: ...
    # the same, from `start` up to `stop`
    def some_partitions(self, start: int, stop: int) -> tuple[tuple[str, int, bool], ...]: ...
    def __len__(self) -> int: ...
    # its transactional batches are of more than one producer, or of one in more than one epoch
    def has_several_producers(self) -> bool: ...
    # producer id, epoch and first sequence number of a partition's batch if it belongs to a transaction
    def transactional_producer(self, index: int) -> tuple[int, int, int] | None: ...
    def records_bytes(self, index: int) -> bytes | None: ...

@final
class FetchRequest:
    @property
    def replica_id(self) -> int: ...
    # whether it is another broker's: what it says of itself is believed only on listeners that brokers use
    @property
    def is_follower(self) -> bool: ...
    @property
    def max_wait_ms(self) -> int: ...
    @property
    def min_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def isolation_level(self) -> int: ...
    @property
    def session_id(self) -> int: ...
    @property
    def session_epoch(self) -> int: ...
    @property
    def rack_id(self) -> str: ...
    @property
    def cluster_id(self) -> str | None: ...
    # Each partition is there once: where the request names it first, with what it asks of it last.
    def __len__(self) -> int: ...
    @property
    def partitions(self) -> tuple[PartitionToRead, ...]: ...  # kept; of many, `piece` makes a few at a time
    def piece(self, start: int, stop: int) -> list[PartitionToRead]: ...
    # (topic, partition)
    @property
    def forgotten(self) -> tuple[tuple[str, int], ...]: ...
    def read(
        self, log: Log, partition: PartitionToRead, bytes_left: int, at_least_one: bool, token: int
    ) -> FetchRow | None:
        """What the asker gets of a partition now. None if the disk would have to be waited for: then an I/O thread
        reads, and a Completion(token) with a FetchRow follows.
        """

@final
class PartitionToRead:
    """One partition of a Fetch: where it is to be read, and what the asker knows of it."""

    def __new__(
        cls,
        key: tuple[str, int],
        offset: int,
        bytes_max: int,
        *,
        leader_epoch: int = ...,
        last_fetched_epoch: int = ...,
        log_start_offset: int = ...,
    ) -> PartitionToRead: ...
    @property
    def key(self) -> tuple[str, int]: ...  # (topic, partition)
    @property
    def offset(self) -> int: ...
    @property
    def bytes_max(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...  # -1: not told, as the next two
    @property
    def last_fetched_epoch(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...

@final
class FetchRow:
    """One partition's part of the answer to a Fetch. On error there is nothing but the error code."""

    def __new__(
        cls,
        error_code: int = 0,
        *,
        high_watermark: int = ...,
        last_stable_offset: int = ...,
        log_start_offset: int = ...,
        aborted_transactions: list[tuple[int, int]] | None = None,
        records: ReadInfo | FileSlice | bytes | None = None,
        diverging_epoch: tuple[int, int] | None = None,
        preferred_read_replica: int = ...,
    ) -> FetchRow: ...
    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def aborted_transactions(self) -> list[tuple[int, int]] | None: ...  # producer id, first offset
    @property
    def diverging_epoch(self) -> tuple[int, int] | None: ...  # epoch, end offset
    @property
    def preferred_read_replica(self) -> int: ...  # the broker to read from; -1: this one
    @property
    def length(self) -> int: ...  # bytes of records
    @property
    def goes_on(self) -> bool: ...  # as of a ReadInfo
    @property
    def has_more(self) -> bool: ...  # records, or a diverging epoch
    def converted(self, records: ConvertedRecords) -> FetchRow: ...  # the same row with these records

@final
class ConvertedRecords:
    @property
    def length(self) -> int: ...

# For each log and timestamp, on a thread: what `offset_for_timestamp` returns, or an error code.
def find_times(completions: Completions, token: int, wanted: Sequence[tuple[Log, int]]) -> None: ...

# fetched: each with its log, the offset where its reader stops, and whether it may be converted
# bytes_left: what may yet be read for the answer, where a row has nothing that its reader can have
# value: per element None (as it is), records, False (has to be converted and may not be), or an error code
def convert_fetched(
    completions: Completions,
    token: int,
    fetched: Sequence[tuple[FetchRow, PartitionToRead, Log, int, bool]],
    magic: int,
    bytes_left: int,
) -> None: ...

@final
class Completions:
    def push(self, token: int, value: Any) -> None: ...

@final
class Completion:
    @property
    def token(self) -> int: ...
    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> BaseException | None: ...

@final
class Served:
    """All requests of a turn were handed out: answers that are given now leave with the turn's others."""

@final
class Terms:
    """What was decided about a partition: `ottla.replication.lease.Terms` has the meanings."""

    def __new__(
        cls,
        *,
        leader_epoch: int,
        is_alone: bool,
        acknowledges_all: bool,
        everyone_may_read: bool,
        everyone_may_write: bool,
    ) -> Self: ...

@final
class Lease:
    def end(self) -> None: ...  # Fetches that wait under it are answered
    def advanced(self) -> None: ...  # the high watermark moved
    def watch(self, is_watched: bool) -> None: ...  # somebody waits for the high watermark: Python ends such turns

@final
class Disconnected:
    @property
    def connection_id(self) -> int: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def peer_address(self) -> tuple[str, int]: ...
    @property
    def listener(self) -> str: ...

# --- coordinators ---

def decode_batches(data: Buffer) -> list[tuple[BatchInfo, list[tuple[int, bytes | None, bytes | None]]]]:
    """The whole batches of a buffer, each with its records as (offset, key, value); control records too."""

# --- client ---

def java_hash(utf_16: Buffer) -> int:
    """Java's `String.hashCode()` of a text in UTF-16, big-endian."""

def murmur2(data: Buffer) -> int: ...
