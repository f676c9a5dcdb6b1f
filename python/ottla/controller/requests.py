"""The requests that tell brokers of a change, gathered so that each gets one request of a kind: content only, nothing
is sent.

The three requests are in the versions of inter-broker protocol 2.7, whoever the receiver is: LeaderAndIsr 4,
UpdateMetadata 6, StopReplica 3; a broker gets them in that order. Each bears the controller's epoch and the epoch of
the broker it is meant for, so that a broker refuses what an old controller says, and what was meant for its former
life.

Brokers that were removed before their sessions ended are named in UpdateMetadata on, for as long as a session lasts.
Kafka's brokers take them for alive, as those whose session lives; Ottla's are told for how long they are away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, NamedTuple

import trio

from ottla.controller.model import Broker, Cluster, Partition
from ottla.kafka import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, PROTOCOLS, TopicPartition
from ottla.slices import in_slices
from ottla.wire.k04_leader_and_isr import (
    LEADER_AND_ISR,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.k05_stop_replica import (
    STOP_REPLICA,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.k06_update_metadata import (
    UPDATE_METADATA,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.wire.schema import Api

VERSIONS = {LEADER_AND_ISR.key: 4, STOP_REPLICA.key: 3, UPDATE_METADATA.key: 6}
"""By API key; fixed by `inter.broker.protocol.version` 2.7, not negotiated."""


class ControlRequest(NamedTuple):
    """One request for one broker. `broker_epoch` says which life of the broker it is for."""

    broker: int
    broker_epoch: int
    api: Api[Any, Any]
    version: int
    message: Any


class RequestBatch:
    """Collects, then `requests()` once. Later additions for the same replica replace earlier ones."""

    def __init__(self, cluster: Cluster, controller_id: int, controller_epoch: int, listener: str) -> None:
        self._cluster = cluster
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._listener = listener
        self._roles: dict[int, dict[str, dict[int, LeaderAndIsrPartitionState]]] = {}
        self._stops: dict[int, dict[str, dict[int, StopReplicaPartitionState]]] = {}
        self._metadata: dict[str, dict[int, UpdateMetadataPartitionState]] = {}
        self._metadata_brokers: set[int] = set()
        self._none: list[int] = []
        self._lists: dict[tuple[int, ...], list[int]] = {}

    def roles(
        self, name: TopicPartition, partition: Partition, brokers: Iterable[int], *, is_new: bool = False
    ) -> None:
        """LeaderAndIsr for one partition to these brokers; everybody's metadata follows."""
        state = partition.state
        assert state is not None, f"{name} has no state to tell of"
        known = self._lists
        role = LeaderAndIsrPartitionState(
            partition_index=name.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=known.get(state.isr) or self._list(state.isr),
            zk_version=partition.version,
            replicas=known.get(partition.replicas) or self._list(partition.replicas),
            adding_replicas=self._list(partition.adding) if partition.adding else self._none,
            removing_replicas=self._list(partition.removing) if partition.removing else self._none,
            is_new=is_new,
        )
        for broker in brokers:
            self._roles.setdefault(broker, {}).setdefault(name.topic, {})[name.partition] = role
        self.metadata(name, partition)
        self._metadata_brokers.update(self._cluster.brokers)

    def metadata(self, name: TopicPartition, partition: Partition, *, deleted: bool = False) -> None:
        """One partition's part of UpdateMetadata. A partition that never had a leader is not told of."""
        state = partition.state
        if state is None:
            return
        known, offline = self._lists, self._cluster.offline(name, partition.replicas)
        self._metadata.setdefault(name.topic, {})[name.partition] = UpdateMetadataPartitionState(
            partition_index=name.partition,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if deleted else state.leader,
            leader_epoch=0 if deleted else state.leader_epoch,
            isr=known.get(state.isr) or self._list(state.isr),
            zk_version=0 if deleted else partition.version,
            replicas=known.get(partition.replicas) or self._list(partition.replicas),
            offline_replicas=self._list(tuple(offline)) if offline else self._none,
        )

    def roles_of(
        self, name: TopicPartition, *, only: Collection[int] | None = None, also: Collection[int] = ()
    ) -> None:
        """The roles of a partition's replicas whose brokers live and stay, and of its leader (or of `only` those
        brokers'), and of `also`. Nothing if it has none or is going away.
        """
        partition = self._cluster.get(name)
        if partition is None or partition.state is None or self._cluster.is_deleting(name.topic):
            return
        leaving = self._cluster.leaving - {partition.state.leader, *also}
        brokers = [
            broker
            for broker in partition.replicas
            if broker in self._cluster.brokers and broker not in leaving and (only is None or broker in only)
        ]
        untold = self._cluster.untold.get(name)
        if untold is None:
            self.roles(name, partition, brokers)
            return
        self.roles(name, partition, [broker for broker in brokers if broker in untold], is_new=True)
        self.roles(name, partition, [broker for broker in brokers if broker not in untold])
        untold.difference_update(brokers)
        if not untold:
            del self._cluster.untold[name]

    def metadata_of(self, name: TopicPartition) -> None:
        """A partition's metadata, if it is known."""
        partition = self._cluster.get(name)
        if partition is not None:
            self.metadata(name, partition, deleted=self._cluster.is_deleting(name.topic))

    def _list(self, brokers: tuple[int, ...]) -> list[int]:
        """One list for all rows that say the same: the collector would look through several for each partition."""
        return self._lists.setdefault(brokers, list(brokers))

    def metadata_to(self, brokers: Iterable[int]) -> None:
        """UpdateMetadata, with the partitions that were added if any, and always all brokers, to these brokers."""
        self._metadata_brokers.update(brokers)

    def stop(self, name: TopicPartition, brokers: Iterable[int], leader_epoch: int, *, delete: bool = False) -> None:
        """StopReplica for one partition to these brokers."""
        for broker in brokers:
            self._stops.setdefault(broker, {}).setdefault(name.topic, {})[name.partition] = StopReplicaPartitionState(
                partition_index=name.partition, leader_epoch=leader_epoch, delete_partition=delete
            )

    def delete(self, name: TopicPartition, broker: int) -> None:
        """StopReplica that deletes a replica of a topic being deleted."""
        self.stop(name, [broker], EPOCH_DURING_DELETE, delete=True)

    async def requests(self) -> AsyncIterator[ControlRequest]:
        """The requests to send, in order, each request whole. Brokers that are gone get nothing: what they have to know
        they are told at their return.

        Others are served while a request is made. The cluster is the same for all of them: it changes with the
        controller's events alone, of which this is a part.
        """
        brokers = self._cluster.brokers
        for broker, roles in self._roles.items():
            if broker in brokers:
                yield self._request(broker, LEADER_AND_ISR, await self._leader_and_isr(broker, roles))
        told = sorted(self._metadata_brokers & brokers.keys())
        if told:
            topics = [
                UpdateMetadataTopicState(topic_name=topic, partition_states=list(partitions.values()))
                async for topic, partitions in in_slices(self._metadata.items())
            ]
            live = self._named_brokers()
            for broker in told:
                update = UpdateMetadataRequest(
                    controller_id=self._controller_id,
                    controller_epoch=self._controller_epoch,
                    broker_epoch=brokers[broker].epoch,
                    topic_states=topics,
                    live_brokers=live,
                )
                yield self._request(broker, UPDATE_METADATA, update)
        for broker, stops in self._stops.items():
            if broker in brokers:
                yield self._request(broker, STOP_REPLICA, await self._stop_replica(broker, stops))

    def _request(self, broker: int, api: Api[Any, Any], message: Any) -> ControlRequest:
        return ControlRequest(broker, self._cluster.brokers[broker].epoch, api, VERSIONS[api.key], message)

    async def _leader_and_isr(
        self, broker: int, topics: dict[str, dict[int, LeaderAndIsrPartitionState]]
    ) -> LeaderAndIsrRequest:
        leaders: set[int] = set()
        states = []
        async for topic, roles in in_slices(topics.items()):
            leaders.update(role.leader for role in roles.values())
            states.append(LeaderAndIsrTopicState(topic_name=topic, partition_states=list(roles.values())))
        live = []
        for leader in sorted(leaders & self._cluster.brokers.keys()):
            endpoint = self._cluster.brokers[leader].endpoint(self._listener)
            if endpoint is not None:
                live.append(LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port))
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=self._cluster.brokers[broker].epoch,
            topic_states=states,
            live_leaders=live,
        )

    async def _stop_replica(
        self, broker: int, topics: dict[str, dict[int, StopReplicaPartitionState]]
    ) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=self._cluster.brokers[broker].epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=topic, partition_states=list(stops.values()))
                async for topic, stops in in_slices(topics.items())
            ],
        )

    def _named_brokers(self) -> list[UpdateMetadataBroker]:
        now_s = trio.current_time()
        alive = [_named(broker, 0) for broker in self._cluster.brokers.values()]
        return alive + [
            _named(broker, max(1, int((until_s - now_s) * 1000))) for broker, until_s in self._cluster.away.values()
        ]


def _named(broker: Broker, away_ms: int) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=PROTOCOLS.get(endpoint.protocol, 0),
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
        away_ms=away_ms,
    )
