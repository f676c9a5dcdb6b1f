"""Queries that write exactly once, without Spark: tasks and drivers as Spark calls them, killed where a test says."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import trio

from ottla.client import Admin, Cluster, TransactionAdmin
from ottla.spark.sink import commit
from ottla.spark.sink.options import WriteOptions, parse
from ottla.spark.sink.protocol import Names, Report, is_decided
from ottla.spark.sink.task import write
from tests.spark.committed import values

PARTITIONS = 3


class Killed(BaseException):
    """The driver is gone: it does nothing any more."""


@dataclass
class Run:
    """One run of a query: a driver and its tasks."""

    options: WriteOptions
    names: Names
    attempts: Iterator[int] = field(default_factory=lambda: iter(range(1 << 20)))

    def task(self, batch_id: int, rows: Sequence[str]) -> Report:
        """A task of this batch, as `StreamWriter.write` does it."""
        if is_decided(trio.run(commit.look, self.options, self.names), batch_id):
            return Report(True, None, {self.options.topic or "": len(rows)})
        return self.attempt(rows)

    def attempt(self, rows: Sequence[str]) -> Report:
        """A task that did not look whether its batch is decided, or looked long ago."""
        batches = (pa.record_batch({"value": pa.array(rows[at : at + 40])}) for at in range(0, len(rows), 40))
        written = write(self.options, batches, self.names.of_attempt(next(self.attempts)))
        return Report(False, written.transaction, written.rows)

    def commit(
        self, batch_id: int, reports: Sequence[Report], *, kill_at: str | None = None, plan: str | None = None
    ) -> None:
        """The driver's commit; raises Killed at a named point."""

        async def reached(point: str) -> None:
            if point == kill_at:
                raise Killed(point)

        trio.run(commit.commit, self.options, self.names, batch_id, reports, reached, plan)

    def abort(self, batch_id: int, reports: Sequence[Report]) -> None:
        """The driver's abort."""
        trio.run(commit.abort, self.options, self.names, batch_id, reports)

    def batch(self, batch_id: int, rows: Sequence[str], tasks: int, *, kill_at: str | None = None) -> list[Report]:
        """Rows dealt to tasks, and the commit."""
        reports = [self.task(batch_id, rows[number::tasks]) for number in range(tasks)]
        self.commit(batch_id, reports, kill_at=kill_at)
        return reports


class Query:
    """A query that writes to a topic of its own in this cluster."""

    def __init__(self, bootstrap: str, **options: object) -> None:
        self.id = str(uuid.uuid4())
        self.topic = f"query-{self.id}"
        self.bootstrap = bootstrap
        self.given = {"topic": self.topic, **{name.replace("__", "."): str(value) for name, value in options.items()}}
        self.input: Counter[str] = Counter()

        async def create() -> None:
            async with Cluster(bootstrap) as cluster:
                await Admin(cluster).create_topic(self.topic, PARTITIONS, 1)

        trio.run(create)

    def run(self, bootstrap: str | None = None) -> Run:
        """A new run, perhaps through a proxy."""
        options = parse({"kafka.bootstrap.servers": bootstrap or self.bootstrap, **self.given})
        return Run(options, Names("test", self.id, str(uuid.uuid4())))

    def rows(self, batch_id: int, count: int = 200) -> list[str]:
        """The input of a batch, the same each time."""
        rows = [f"batch {batch_id} row {number}" for number in range(count)]
        self.input |= Counter(rows)
        return rows

    def open_transactions(self) -> list[str]:
        """The query's transactions that are neither committed nor aborted."""

        async def ask() -> list[str]:
            async with Cluster(self.bootstrap) as cluster:
                found = await TransactionAdmin(cluster).list_transactions(states=["Ongoing"])
                return [each.transactional_id for each in found if self.id in each.transactional_id]

        return trio.run(ask)

    def check(self) -> None:
        """Asserts that every row of the input is read once, and that nothing holds readers up."""
        assert values(self.bootstrap, self.topic) == self.input
        assert not self.open_transactions()
