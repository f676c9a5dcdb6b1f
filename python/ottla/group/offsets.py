"""What a group has committed, and what it is about to: in the log but not safe yet, or in a transaction that is open.

Values and times in, values out. A commit is *pending* from its append until the log answers; it becomes visible only
then. Commits of a transaction become visible with its COMMIT marker. Where both kinds meet on a partition, the record
that comes later in the log wins, as it will when the log is read again (so does Kafka).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.group.records import NO_TIMESTAMP, CommittedOffset
from ottla.kafka import TopicPartition

Commits = Mapping[TopicPartition, CommittedOffset]

#: The place of a record whose append has not been answered.
NOT_APPENDED = -1


class Placed(NamedTuple):
    """A commit and the offset of the batch that holds it in the log."""

    log_offset: int
    committed: CommittedOffset


class GroupOffsets:
    """The offsets of one group."""

    __slots__ = ("committed", "open_transactions", "pending")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Placed] = {}
        self.pending: dict[TopicPartition, CommittedOffset] = {}
        #: by producer id
        self.open_transactions: dict[int, dict[TopicPartition, Placed]] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.committed or self.pending or self.open_transactions)

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        placed = self.committed.get(partition)
        return placed.committed if placed is not None else None

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether the offset may be about to change (KIP-447)."""
        return partition in self.pending or any(
            partition in transaction for transaction in self.open_transactions.values()
        )

    # --- commits of consumers ---

    def prepare(self, commits: Commits) -> None:
        """They are being appended."""
        self.pending.update(commits)

    def appended(self, commits: Commits, log_offset: int) -> None:
        """They are safe, in the batch at `log_offset`."""
        pending, committed = self.pending, self.committed
        for partition, commit in commits.items():
            staged = pending.get(partition)
            if staged is None:
                continue  # its offsets were removed meanwhile
            if staged is commit:
                del pending[partition]
            known = committed.get(partition)
            # Equal: an earlier commit in the same batch.
            if known is None or known.log_offset <= log_offset:
                committed[partition] = Placed(log_offset, commit)

    def failed(self, commits: Commits) -> None:
        """They could not be made safe."""
        for partition, commit in commits.items():
            if self.pending.get(partition) is commit:
                del self.pending[partition]

    # --- commits of transactions (KIP-98) ---

    def prepare_transactional(self, producer_id: int, commits: Commits) -> None:
        transaction = self.open_transactions.setdefault(producer_id, {})
        for partition, commit in commits.items():
            transaction[partition] = Placed(NOT_APPENDED, commit)

    def appended_transactional(self, producer_id: int, commits: Commits, log_offset: int) -> None:
        transaction = self.open_transactions.get(producer_id)
        if transaction is None:
            return
        for partition, commit in commits.items():
            staged = transaction.get(partition)
            if staged is not None and staged.committed is commit:
                transaction[partition] = Placed(log_offset, commit)

    def failed_transactional(self, producer_id: int, commits: Commits) -> None:
        transaction = self.open_transactions.get(producer_id)
        if transaction is None:
            return
        for partition, commit in commits.items():
            staged = transaction.get(partition)
            if staged is not None and staged.committed is commit:
                del transaction[partition]
        if not transaction:
            del self.open_transactions[producer_id]

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """The transaction's marker is in the log."""
        transaction = self.open_transactions.pop(producer_id, None)
        if transaction is None or not is_commit:
            return
        for partition, placed in transaction.items():
            known = self.committed.get(partition)
            if known is None or known.log_offset < placed.log_offset:
                self.committed[partition] = placed

    # --- removal ---

    @property
    def partitions(self) -> set[TopicPartition]:
        """All partitions of which anything is known."""
        known = self.committed.keys() | self.pending.keys()
        return known.union(*self.open_transactions.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forgets all about `partitions`; returns those of which the log has (or gets) an offset: they need a
        tombstone.
        """
        gone = dict.fromkeys(partitions)
        for transaction in self.open_transactions.values():
            # Whichever has fewer is gone through: a group may have many transactions, and lose many partitions.
            for partition in gone.keys() & transaction.keys():
                del transaction[partition]
        removed = []
        for partition in gone:
            known = self.pending.pop(partition, None), self.committed.pop(partition, None)
            if known != (None, None):
                removed.append(partition)
        for producer_id in [producer for producer, transaction in self.open_transactions.items() if not transaction]:
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
