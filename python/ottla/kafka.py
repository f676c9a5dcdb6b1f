"""Words of Kafka that every room uses: a partition's name, the names of internal topics, numbers for what is not known.

Keys of APIs and their versions are in `ottla.wire`, error codes in `ottla.errors`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    """One partition; printed as Kafka does: `topic-0`. Equal to the plain tuple that native code gives."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


#: The key of tables of partitions: a TopicPartition, or the plain tuple that native code gives, which is equal
#: to it.
PartitionKey: TypeAlias = tuple[str, int]

#: Holds what groups have committed, and their members.
OFFSETS_TOPIC: Final = "__consumer_offsets"
#: Holds the states of transactions.
TRANSACTIONS_TOPIC: Final = "__transaction_state"
#: Only brokers write to them.
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})

#: In place of a leader epoch or a producer epoch: none is known, or the sender did not say.
NO_EPOCH: Final = -1
#: In place of a broker's number: there is no leader, or no controller.
NO_LEADER: Final = -1

#: The acks of a Produce that is answered when all in-sync replicas have its records.
ACKS_ALL: Final = -1
#: The words for acks in producers' settings and options, and the acks that they mean.
ACKS: Final = {"0": 0, "1": 1, "all": ACKS_ALL, "-1": ACKS_ALL}

#: In place of a replica's number: a client reads, and not a broker.
CONSUMER: Final = -1
#: In place of a replica's number: a tool reads, which followers answer too.
DEBUGGING: Final = -2
#: Isolation levels of Fetch and ListOffsets: transactions that are open or aborted are read too, or are not.
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
#: In place of a time or an offset: a log's end, and its beginning.
LATEST: Final = -1
EARLIEST: Final = -2

#: The leader and the epoch that a controller gives the partitions of a topic that is being deleted; this epoch
#: overrides any other.
LEADER_DURING_DELETE: Final = -2
EPOCH_DURING_DELETE: Final = -2

#: The user of a connection without authentication.
ANONYMOUS: Final = "ANONYMOUS"
#: The fewest iterations of SCRAM that Kafka's brokers and clients take, with either mechanism (RFC 7677).
SCRAM_ITERATIONS_MIN: Final = 4096

#: How a connection may be secured, with the number that messages give it.
PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

#: Kinds of coordinators, in FindCoordinator: of a consumer group, and of a transactional id.
COORDINATOR_OF_GROUP: Final = 0
COORDINATOR_OF_TRANSACTION: Final = 1

#: The kinds of resources that have settings: those of DescribeConfigs and its like.
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8


class ConfigOperation(IntEnum):
    """The change that IncrementalAlterConfigs (KIP-339) makes to one setting, by its number in messages."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
