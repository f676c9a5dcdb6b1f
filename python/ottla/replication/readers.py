"""Kinds of readers of a partition. Each may see a different part of it (Kafka's FetchIsolation)."""

from __future__ import annotations

from enum import Enum


class Reader(Enum):
    """A kind of reader. `Partition.bound` says how far it may see."""

    #: Another broker, or a replica of this one: it sees the whole log.
    REPLICA = "replica"
    #: A consumer with isolation level read_uncommitted: it sees what all replicas in sync have.
    CONSUMER = "consumer"
    #: A consumer with isolation level read_committed: it sees that as far as no transaction is open.
    COMMITTED = "committed"
