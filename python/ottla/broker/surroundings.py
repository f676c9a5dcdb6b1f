"""The cluster view for parts of a broker that see only themselves: replicas that may have lost records
(`ottla.replication.unclean_start`), and a controller that is elected here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.controller.model import Broker
from ottla.coordination import znodes
from ottla.coordination.tree import ConnectionLoss, NoNode, SessionExpired
from ottla.coordination.znodes import Endpoint
from ottla.kafka import NO_EPOCH, PartitionKey
from ottla.replication.questions import ANY_EPOCH, EpochEnd, Questions
from ottla.replication.unclean_start import Known, end_of
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions

if TYPE_CHECKING:
    from ottla.broker.failing_directories import FailingDirectories
    from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache
    from ottla.coordination.tree import Tree
    from ottla.errors import KafkaError
    from ottla.peers import Peers
    from ottla.replication.log_manager import LogManager

#: A replica that is not in sync may lead.
UNCLEAN: Final = 1
#: The first with that kind of election, of the inter-broker protocol 2.4.
ELECT_LEADERS_VERSION: Final = 1
ELECTION_MS: Final = 10_000


class Surroundings:
    """As this broker's metadata, settings, logs and peers have it."""

    def __init__(
        self,
        broker_id: int,
        tree: Tree,
        *,
        metadata: MetadataCache,
        logs: LogManager,
        peers: Peers,
        failing_directories: FailingDirectories,
    ) -> None:
        self._broker_id = broker_id
        self._tree = tree
        self._metadata = metadata
        self._logs = logs
        self._failing_directories = failing_directories
        self._peers = peers
        self._questions = Questions(broker_id, peers)

    def known(self, key: PartitionKey) -> Known | None:
        topic, index = key
        partition = self._metadata.topics.get(topic, {}).get(index)
        return None if partition is None else Known(partition.leader, partition.isr)

    def is_alive(self, broker: int) -> bool:
        return broker in self._metadata.brokers

    def named(self) -> Iterator[tuple[Broker, float | None]]:
        """The brokers that clients are told of, with the time until when if they are away."""
        for broker in self._metadata.brokers.values():
            yield _registered(broker), None
        for broker, until_s in self._metadata.away.values():
            yield _registered(broker), until_s

    def may_be_unclean(self, topic: str) -> bool:
        return self._logs.topic_config(topic).get_bool("unclean.leader.election.enable")

    def is_offline(self, key: PartitionKey) -> bool:
        return key in self._logs.failures

    def end_of(self, key: PartitionKey, epoch: int = ANY_EPOCH) -> EpochEnd | None:
        log = self._logs.logs.get(key)
        if log is None:
            return None
        if epoch == ANY_EPOCH:
            return end_of(log.leader_epochs, log.end_offset)
        return EpochEnd(*log.epoch_end_offset(epoch))

    async def ends_at(
        self, broker: int, keys: Collection[PartitionKey]
    ) -> Mapping[PartitionKey, EpochEnd | KafkaError]:
        return await self.epoch_ends(broker, dict.fromkeys(keys, ANY_EPOCH))

    async def epoch_ends(
        self, broker: int, epochs: Mapping[PartitionKey, int]
    ) -> Mapping[PartitionKey, EpochEnd | KafkaError]:
        """Where leader epochs end in another broker's logs of partitions that nobody leads. Raises OSError,
        ProtocolError.
        """
        return await self._questions.epoch_ends(broker, {key: (NO_EPOCH, epoch) for key, epoch in epochs.items()})

    def ask_again(self) -> None:
        self._failing_directories.ask_again()

    async def register_anew(self) -> None:
        # `Registration.watch` makes it anew.
        with contextlib.suppress(NoNode, ConnectionLoss, SessionExpired):
            await self._tree.delete(znodes.broker_path(self._broker_id))

    async def elect_most(self, keys: Collection[PartitionKey]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in keys:
            topics.setdefault(topic, []).append(index)
        wanted = [TopicPartitions(topic, indexes) for topic, indexes in topics.items()]
        request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted, timeout_ms=ELECTION_MS)
        await self._peers.call(self._metadata.controller_id, ELECT_LEADERS, request, ELECT_LEADERS_VERSION)


def _registered(broker: BrokerMetadata) -> Broker:
    """As its registration told of it, without an epoch."""
    endpoints = (
        Endpoint(name, *address, broker.protocols.get(name, "PLAINTEXT")) for name, address in broker.endpoints.items()
    )
    return Broker(broker.broker_id, NO_EPOCH, tuple(endpoints), broker.rack)
