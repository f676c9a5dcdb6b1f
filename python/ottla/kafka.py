"""Words of Kafka that every room uses: a partition's name, the names of internal topics, numbers for what is not known.

Keys of APIs and their versions are in `ottla.wire`, error codes in `ottla.errors`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class TopicPartition(NamedTuple):
    """One partition; printed as Kafka does: `topic-0`. Equal to the plain tuple that native code gives."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


#: Holds what groups have committed, and their members.
OFFSETS_TOPIC: Final = "__consumer_offsets"
#: Holds the states of transactions.
TRANSACTIONS_TOPIC: Final = "__transaction_state"
#: Only brokers write to them.
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})

#: In place of a leader epoch or a producer epoch: none is known, or the sender did not say.
NO_EPOCH: Final = -1
#: In place of a broker's number: the partition has no leader.
NO_LEADER: Final = -1
