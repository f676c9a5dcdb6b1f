"""One partition of `__transaction_state` as its coordinator knows it. No I/O.

A shard is made at every election and thrown away at the next change of role: whoever holds an old one finds `current`
false and stops. Its epoch is the partition's leader epoch, which markers carry as the coordinator epoch.
"""

from __future__ import annotations

import sys

from ottla.kafka import TopicPartition
from ottla.transaction.records import decode_key, decode_value
from ottla.transaction.transaction import PREPARED, Transaction, Transition


class Shard:
    """The transactional ids of one partition, under one leader epoch."""

    __slots__ = ("current", "epoch", "index", "loading", "transactions")

    def __init__(self, index: int, epoch: int) -> None:
        self.index = index
        self.epoch = epoch
        self.transactions: dict[str, Transaction] = {}
        #: Until the log has been read, nothing is answered from here.
        self.loading = True
        #: False once this broker has lost the partition, or leads it under a later epoch.
        self.current = True

    def replay(self, key: bytes | memoryview | None, value: bytes | memoryview | None) -> None:
        """One record of the log; the last one of an id counts. Raises CorruptMessage."""
        transactional_id = decode_key(key)
        if value is None:
            self.transactions.pop(transactional_id, None)
        else:
            record = decode_value(value)
            self.transactions[transactional_id] = Transaction.loaded(transactional_id, _compact(record))

    def prepared(self) -> list[Transaction]:
        """Those whose end was decided but perhaps not carried out: their markers are written (again)."""
        return [each for each in self.transactions.values() if each.state in PREPARED and each.pending is None]

    def forget(self, transaction: Transaction) -> None:
        """Its tombstone is in the log."""
        if self.transactions.get(transaction.transactional_id) is transaction:
            del self.transactions[transaction.transactional_id]


def _compact(record: Transition) -> Transition:
    """Thousands of transactions name the same few topics: one string for each."""
    named = (TopicPartition(sys.intern(topic), index) for topic, index in record.partitions)
    return record._replace(partitions=frozenset(named))
