"""Exactly once: who decides what, as values. No I/O, no clock.

A task writes its rows in a transaction of its own and leaves it open. When all tasks of a batch are through, the
driver appends one record to the topic `__ottla_sink`: this batch is decided, and these are its transactions. That
record is the commit point. Then each of them is committed. A driver that died before the record left nothing that
readers of committed records see: the batch is written again. One that died after it left a list, which the next driver
commits, and whose batch is not written again.

Spark promises little of a batch that is replayed: the same query, the same number, the same input; neither the same
number of tasks nor the same rows per task. So nothing here compares tasks. Three rules hold everything together:

1. Nobody but the driver ends another one's transaction, and only after it fenced the decision's producer (from then on
   no older driver's decision can land) and read the decision.
2. A batch that is decided is done, if it is the same batch. A checkpoint that was rolled back has other rows under the
   same number: they would be dropped. So a decision has what Spark wrote down of the batch before it ran it (`plan`),
   and how many rows it had for each topic: a replay has the same plan, and where that cannot be seen, the same numbers
   of rows.
3. No two attempts that may live at the same time share a transactional id: it has the run and the number of the
   attempt, which no two attempts of a run share. That number is taken modulo 8,192, so that the ids are bounded.

Visibility is not atomic across tasks: a reader may see one task's rows a moment before another's.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla.client import TopicPartition
from ottla.spark.given import SINK_TOPIC
from ottla.spark.sink.task import Transaction

TOPIC = SINK_TOPIC
ATTEMPTS = 8192
RUN_DIGITS = 8
VERSION = 1


class CheckpointRolledBack(Exception):
    """The sink has rows that the query's checkpoint does not know of: of later batches, or others of this one."""


class DecisionMissing(Exception):
    """A task skipped a batch as decided, and the decision is not there any more."""


class TransactionLost(Exception):
    """Rows of a batch that was decided are not committed and cannot be."""


class BatchTooLong(Exception):
    """A task's transaction ended before the batch was decided: nothing was committed, the batch may be run again."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names that everything of one run of one query derives from."""

    prefix: str
    query_id: str
    run_id: str

    @property
    def decision(self) -> str:
        """The transactional id of the decision's producer."""
        return f"{self.of_query}decision"

    @property
    def key(self) -> str:
        """Of the query's decisions in `TOPIC`."""
        return f"{self.prefix}-{self.query_id}"

    @property
    def of_query(self) -> str:
        """How the transactional ids of all runs begin."""
        return f"{self.prefix}-{self.query_id}-"

    @property
    def of_run(self) -> str:
        """How those of this run's tasks begin."""
        return f"{self.of_query}{self.run_id.replace('-', '')[:RUN_DIGITS]}-"

    def of_attempt(self, attempt_id: int) -> str:
        """The transactional id of one attempt of one task, by Spark's number of it."""
        return f"{self.of_run}{attempt_id % ATTEMPTS}"


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a batch, to tell it from another one of its number. `rows` has the number of rows for each topic,
    None in decisions of earlier versions; `plan` stands for what the checkpoint says of it, None where that cannot be
    read.
    """

    rows: Mapping[str, int] | None = None
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The last batch of a query that is decided. `done` says that its transactions are committed."""

    batch_id: int
    run_id: str
    transactions: tuple[Transaction, ...]
    contents: Contents = field(default_factory=Contents)
    done: bool = False

    def encode(self) -> bytes:
        """As it lies in the topic."""
        rows = [
            [each.transactional_id, each.producer_id, each.producer_epoch, each.partitions, each.records, each.opened_s]
            for each in self.transactions
        ]
        fields = {"version": VERSION, "batch": self.batch_id, "run": self.run_id, "done": self.done}
        contents = {"rows": self.contents.rows, "plan": self.contents.plan}
        return json.dumps({**fields, **contents, "transactions": rows}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Decision":
        """Raises ValueError: a later version wrote it, or somebody else."""
        try:
            found = json.loads(data)
            if found["version"] != VERSION:
                raise ValueError(f"it has version {found['version']}, this Ottla reads {VERSION}")
            transactions = tuple(
                Transaction(name, producer, epoch, tuple(TopicPartition(*each) for each in partitions), records, opened)
                for name, producer, epoch, partitions, records, opened in found["transactions"]
            )
            contents = Contents(found.get("rows"), found.get("plan"))
            return cls(found["batch"], found["run"], transactions, contents, found["done"])
        except (ValueError, LookupError, TypeError) as problem:
            raise ValueError(f"a decision in the topic {TOPIC} cannot be read: {problem}") from problem


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one task at its end. `skipped`: it found the batch decided and wrote nothing. `rows` has the number
    of its rows for each topic, written or not.
    """

    skipped: bool
    transaction: Transaction | None
    rows: Mapping[str, int] = field(default_factory=dict)


class Step(Enum):
    """The step that a driver is to take with a batch."""

    NOTHING = "nothing is left to do"
    FINISH = "commit the transactions of the decision that is there"
    DECIDE = "check the tasks' transactions, decide, commit them"


def is_decided(decision: Decision | None, batch_id: int) -> bool:
    """True if this batch is decided.

    Raises:
        CheckpointRolledBack: a later one is.
    """
    if decision is None or decision.batch_id < batch_id:
        return False
    if decision.batch_id > batch_id:
        raise CheckpointRolledBack(
            f"batch {batch_id} is to be written, but the sink has committed batch {decision.batch_id} of this query "
            f"already: the checkpoint was rolled back. Restore its newest state, or begin with a new "
            "checkpointLocation (the rows of the batches in between are in the topics already)"
        )
    return True


def next_step(decision: Decision | None, batch_id: int, reports: Sequence[Report]) -> Step:
    """The step of a driver that has fenced all earlier ones and then read `decision`.

    Raises:
        CheckpointRolledBack. DecisionMissing: a task skipped the batch as decided, and it is not.
    """
    if is_decided(decision, batch_id):
        assert decision is not None
        return Step.NOTHING if decision.done else Step.FINISH
    if any(report.skipped for report in reports):
        raise DecisionMissing(
            f"a task found batch {batch_id} decided and wrote nothing, and the decision is not in the topic {TOPIC} "
            "now: was the topic deleted? Nothing was committed; run the query again"
        )
    return Step.DECIDE if any(report.transaction for report in reports) else Step.NOTHING


def contents_of(reports: Iterable[Report], plan: str | None) -> Contents:
    """The contents of a batch, summed over the reports of its tasks."""
    rows: Counter[str] = Counter()
    for report in reports:
        rows.update(report.rows)
    return Contents(dict(rows), plan)


def check_same(decision: Decision, found: Contents, topic: str | None) -> None:
    """Looks whether a batch that comes again is the one that was decided. `topic` is that of all rows, if one is given.

    Raises:
        CheckpointRolledBack: it is another one.
    """
    known = decision.contents
    if known.rows is None or found.rows is None:
        return
    planned = known.plan is not None and found.plan is not None
    is_elsewhere = topic is not None and not set(known.rows) <= {topic}
    if not is_elsewhere and (known.plan == found.plan if planned else known.rows == found.rows):
        return
    raise CheckpointRolledBack(
        f"the sink has committed batch {decision.batch_id} of this query already, with {_in_words(known.rows)}. Now it "
        f"is another batch, with {_in_words(found.rows)}, which were not written: the checkpoint was rolled back or "
        "copied, or the query was changed. Restore the checkpoint's newest state, or begin with a new "
        "checkpointLocation (in foreachBatch with a new txnAppId); the rows that were committed are in the topics. "
        "A copy that is to be a query of its own needs its own transactionalIdPrefix"
    )


def _in_words(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} rows for {topic}" for topic, count in sorted(rows.items())) or "no rows"


def is_successor(names: Names, previous: Decision | None, batch_id: int, reports: Sequence[Report]) -> bool:
    """True if all other runs are over: this is a run's first commit, since `previous`, the decision that it found, is
    of another run. But not if that run has decided the very batch that this run's tasks have written: then this is the
    one that is over.
    """
    if previous is None:
        return True
    is_late = previous.batch_id == batch_id and not all(report.skipped for report in reports)
    return previous.run_id != names.run_id and not is_late


def orphans(names: Names, open_ids: Iterable[str], others: bool) -> list[str]:
    """Of the transactional ids with an open transaction after a commit, those of this query that nobody will ever
    commit: attempts that failed or lost against another one, and with `others` those of all other runs.
    """
    begin = names.of_query if others else names.of_run
    return [each for each in open_ids if each.startswith(begin) and each != names.decision]
