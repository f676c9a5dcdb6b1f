"""What a group has committed, and what it is about to: in the log but not safe yet, or in a transaction that is open.

Values and times in, values out. A commit is *pending* from its append until the log answers; it becomes visible only
then. Commits of a transaction become visible with its COMMIT marker. Where both kinds meet on a partition, the record
that comes later in the log wins, as it will when the log is read again (so does Kafka).

Each pending commit is kept until its own answer. Kafka keeps the youngest alone, so that its failure takes an older one
with it: that is acknowledged, and nobody sees it until the log is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.group.records import NO_TIMESTAMP, CommittedOffset
from ottla.kafka import TopicPartition

Commits = Mapping[TopicPartition, CommittedOffset]


class Placed(NamedTuple):
    """A commit and the offset of the batch that holds it in the log."""

    log_offset: int
    committed: CommittedOffset


class Pending(dict[TopicPartition, list[CommittedOffset]]):
    """Commits whose appends have not been answered, in the order of the appends."""

    def add(self, commits: Commits) -> None:
        for partition, commit in commits.items():
            self.setdefault(partition, []).append(commit)

    def take(self, partition: TopicPartition, commit: CommittedOffset) -> bool:
        """The append of `commit` is answered. Whether the commit still counts: its partition may have been removed."""
        waiting = self.get(partition, [])
        for at, one in enumerate(waiting):
            if one is commit:
                del waiting[at]
                if not waiting:
                    del self[partition]
                return True
        return False


class Transaction:
    """The commits of one producer's transaction that is open: those in the log, and those whose appends have not been
    answered.
    """

    __slots__ = ("pending", "placed")

    def __init__(self) -> None:
        self.placed: dict[TopicPartition, Placed] = {}
        self.pending = Pending()

    @property
    def is_empty(self) -> bool:
        return not (self.placed or self.pending)

    @property
    def partitions(self) -> set[TopicPartition]:
        return self.placed.keys() | self.pending.keys()


class GroupOffsets:
    """The offsets of one group."""

    __slots__ = ("committed", "open_transactions", "pending")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Placed] = {}
        self.pending = Pending()
        #: by producer id
        self.open_transactions: dict[int, Transaction] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.committed or self.pending or self.open_transactions)

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        placed = self.committed.get(partition)
        return placed.committed if placed is not None else None

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether the offset may be about to change (KIP-447)."""
        return partition in self.pending or any(
            partition in transaction.placed or partition in transaction.pending
            for transaction in self.open_transactions.values()
        )

    # --- commits of consumers ---

    def prepare(self, commits: Commits) -> None:
        """They are being appended."""
        self.pending.add(commits)

    def appended(self, commits: Commits, log_offset: int) -> None:
        """They are safe, in the batch at `log_offset`."""
        for partition, commit in commits.items():
            if self.pending.take(partition, commit):
                _place(self.committed, partition, Placed(log_offset, commit))

    def failed(self, commits: Commits) -> None:
        """They could not be made safe."""
        for partition, commit in commits.items():
            self.pending.take(partition, commit)

    # --- commits of transactions (KIP-98) ---

    def prepare_transactional(self, producer_id: int, commits: Commits) -> None:
        self.open_transactions.setdefault(producer_id, Transaction()).pending.add(commits)

    def appended_transactional(self, producer_id: int, commits: Commits, log_offset: int) -> None:
        transaction = self.open_transactions.get(producer_id)
        if transaction is None:
            return
        for partition, commit in commits.items():
            if transaction.pending.take(partition, commit):
                _place(transaction.placed, partition, Placed(log_offset, commit))

    def failed_transactional(self, producer_id: int, commits: Commits) -> None:
        transaction = self.open_transactions.get(producer_id)
        if transaction is None:
            return
        for partition, commit in commits.items():
            transaction.pending.take(partition, commit)
        if transaction.is_empty:
            del self.open_transactions[producer_id]

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """The transaction's marker is in the log."""
        transaction = self.open_transactions.pop(producer_id, None)
        if transaction is None or not is_commit:
            return
        for partition, placed in transaction.placed.items():
            _place(self.committed, partition, placed)

    # --- removal ---

    @property
    def partitions(self) -> set[TopicPartition]:
        """All partitions of which anything is known."""
        known = self.committed.keys() | self.pending.keys()
        return known.union(*(transaction.partitions for transaction in self.open_transactions.values()))

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forgets all about `partitions`; returns those of which the log has (or gets) an offset: they need a
        tombstone.
        """
        gone = dict.fromkeys(partitions)
        for transaction in self.open_transactions.values():
            # Whichever has fewer is gone through: a group may have many transactions, and lose many partitions.
            for commits in (transaction.placed, transaction.pending):
                for partition in gone.keys() & commits.keys():
                    del commits[partition]
        removed = []
        for partition in gone:
            known = self.pending.pop(partition, None), self.committed.pop(partition, None)
            if known != (None, None):
                removed.append(partition)
        for producer_id in [producer for producer, one in self.open_transactions.items() if one.is_empty]:
            del self.open_transactions[producer_id]
        return removed

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        *,
        since_ms: int | None = None,
        in_use: Callable[[str], bool] | Collection[str] = (),
    ) -> list[TopicPartition]:
        """The partitions whose offsets' time is over.

        Time counts from `since_ms`, or where that is None from each commit. Topics `in_use` are kept, and so are
        partitions with a commit on its way. A commit with an expiry of its own goes by that alone.
        """
        used = in_use if callable(in_use) else in_use.__contains__
        due = []
        for partition, (_, commit) in self.committed.items():
            topic, _ = partition
            if used(topic) or partition in self.pending:
                continue
            if commit.expire_timestamp_ms != NO_TIMESTAMP:
                is_due = now_ms >= commit.expire_timestamp_ms
            else:
                is_due = now_ms - (commit.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms
            if is_due:
                due.append(partition)
        return due


def _place(into: dict[TopicPartition, Placed], partition: TopicPartition, placed: Placed) -> None:
    """The record that comes later in the log wins; of those in one batch, the one that is told of later."""
    known = into.get(partition)
    if known is None or known.log_offset <= placed.log_offset:
        into[partition] = placed
