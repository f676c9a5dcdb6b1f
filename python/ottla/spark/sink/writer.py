"""`write.format("ottla")` and `writeStream.format("ottla")`: what Spark calls, and where.

| Spark calls        | where                                                      | so here                            |
|--------------------|------------------------------------------------------------|------------------------------------|
| the constructor    | in a planner, for a stream again in each commit's process  | options and columns are checked    |
| `write`            | once per attempt of a task, in a worker                    | rows are sent; no one sees them    |
| `commit`           | once per job or batch, again when the last answer was lost | they become visible                |
| `abort`            | when a task or `commit` failed; None for tasks that failed | they are dropped, unless decided   |

A stream's writer knows its query only through the tasks' messages: Spark tells no one else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark.sentences import plain_errors
from ottla.spark.sink import commit, rows
from ottla.spark.sink.checkpoint import plan_of
from ottla.spark.sink.options import WriteOptions, parse
from ottla.spark.sink.protocol import Decision, Names, Report, is_decided
from ottla.spark.sink.task import write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Local properties of a streaming task."""
RUNS_REMEMBERED = 64


@dataclass
class Message(WriterCommitMessage):
    """The message that a task hands to the driver."""

    names: Names | None
    report: Report


@plain_errors
class BatchWriter(DataSourceArrowWriter):
    """One `df.write`: a transaction per task, committed when all tasks are through; or with
    delivery=at-least-once none at all.
    """

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.names = Names(options.prefix, uuid.uuid4().hex, "batch")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """One task's rows."""
        name = self.names.of_attempt(_context().taskAttemptId()) if self.options.exactly_once else None
        written = write(self.options, iterator, name)
        return Message(None, Report(False, written.transaction, written.rows))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Makes the rows visible."""
        if self.options.exactly_once:
            trio.run(commit.commit_all, self.options, self.names, _reports(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drops the rows that were written."""
        if self.options.exactly_once:
            trio.run(commit.abort_job, self.options, self.names, _reports(messages))


@plain_errors
class OnceWriter(DataSourceArrowWriter):
    """One `df.write` that has a name and a number, such as that of a micro-batch in `foreachBatch`: repeated with the
    same ones, it changes nothing, by the rules of a stream's batches.
    """

    def __init__(self, options: WriteOptions, name: str, version: int) -> None:
        self.options = options
        self.version = version
        self.names = Names(options.prefix, name, uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """One task's rows; if the batch is decided already, they are read and dropped."""
        context = _context()
        names = self.names
        if context.getLocalProperty(QUERY_ID) is not None:
            # In foreachBatch: one run for all its batches, so that transactional ids are few.
            names = replace(names, run_id=_property(context, RUN_ID))
        return _write(self.options, iterator, names, self.version, context)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decides the batch and makes its rows visible."""
        _end(commit.commit, self.options, messages, self.version)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drops the rows unless they are decided."""
        _end(commit.abort, self.options, messages, self.version)


@plain_errors
class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch of a query."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """One task's rows; if the batch is decided already, they are read and dropped."""
        if not self.options.exactly_once:
            write(self.options, iterator, None)
            return Message(None, Report(False, None))
        context = _context()
        names = Names(self.options.prefix, _property(context, QUERY_ID), _property(context, RUN_ID))
        return _write(self.options, iterator, names, int(_property(context, BATCH_ID)), context)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Decides the batch and makes its rows visible."""
        decide = partial(commit.commit, plan=plan_of(self.options.checkpoint, batchId))
        _end(decide, self.options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Drops the batch's rows unless it is decided."""
        _end(commit.abort, self.options, messages, batchId)


def batch_writer(given: Any, schema: StructType, overwrite: bool) -> BatchWriter | OnceWriter:
    """For `df.write`.

    Raises:
        ValueError: an option, a column or the save mode is wrong.
    """
    if overwrite:
        raise ValueError('Save mode Overwrite not allowed for Kafka topics: rows are appended, use mode("append")')
    options = parse(given)
    rows.check(schema, options)
    return BatchWriter(options) if options.once is None else OnceWriter(options, *options.once)


def stream_writer(given: Any, schema: StructType) -> StreamWriter:
    """For `df.writeStream`.

    Raises:
        ValueError: an option or a column is wrong.
    """
    options = parse(given)
    if options.once is not None:
        raise ValueError("txnAppId and txnVersion are for df.write; a stream knows its query and its batches itself")
    rows.check(schema, options)
    return StreamWriter(options)


def _write(
    options: WriteOptions, iterator: Iterator[pa.RecordBatch], names: Names, batch_id: int, context: TaskContext
) -> Message:
    """One task's rows, in a transaction that is left open; of a batch that is decided already, they are dropped."""
    if is_decided(_decision_at_start(options, names), batch_id):
        # To the end: states of operators before this one are stored only then.
        return Message(names, Report(True, None, rows.counted(iterator, options)))
    written = write(options, iterator, names.of_attempt(context.taskAttemptId()))
    return Message(names, Report(False, written.transaction, written.rows))


def _end(
    end: Callable[..., Any], options: WriteOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int
) -> None:
    names = next((each.names for each in messages if isinstance(each, Message) and each.names), None)
    if names is not None:
        trio.run(end, options, names, batch_id, _reports(messages))


_decisions: dict[tuple[str, str, str], Decision | None] = {}
"""The last decision before a run began to write, for this worker process; later ones are of later batches."""


def _decision_at_start(options: WriteOptions, names: Names) -> Decision | None:
    memory = (options.bootstrap_servers, names.key, names.run_id)
    if memory not in _decisions:
        if len(_decisions) >= RUNS_REMEMBERED:
            _decisions.clear()
        _decisions[memory] = trio.run(commit.look, options, names)
    return _decisions[memory]


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only Spark's tasks write"
    return context


def _property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise RuntimeError(f"Spark gave its task no property {name}, which an exactly-once write needs")
    return value


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[Report]:
    return [each.report for each in messages if isinstance(each, Message)]
