"""The channels to all brokers, and what goes through them: roles, metadata, and replicas to stop (Kafka's
ControllerChannelManager).

What is sent is gathered in a `RequestBatch` first, so that each broker gets one request of a kind. Callers write to the
tree before they tell anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import trio

from ottla.controller.channel import Channel, Connect, OnResponse
from ottla.controller.model import Broker, Cluster
from ottla.controller.requests import RequestBatch
from ottla.kafka import TopicPartition
from ottla.slices import in_slices


class Channels:
    """One channel for each registered broker. `on_response` is told of every answer."""

    def __init__(
        self,
        cluster: Cluster,
        nursery: trio.Nursery,
        on_response: OnResponse,
        *,
        broker_id: int,
        epoch: int,
        listener: str,
        connect: Connect,
        timeout_ms: int,
    ) -> None:
        """`broker_id` and `epoch` are those of the controller, which brokers are told."""
        self._cluster = cluster
        self._nursery = nursery
        self._on_response = on_response
        self._broker_id = broker_id
        self._epoch = epoch
        self._listener = listener
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._channels: dict[int, Channel] = {}

    def open(self, broker: Broker) -> None:
        channel = Channel(broker, self._listener, self._connect, self._on_response, self._timeout_ms)
        self._channels[broker.id] = channel
        self._nursery.start_soon(channel.run)

    def update(self, broker: Broker) -> None:
        """The same broker says something else of itself."""
        self._channels[broker.id].update(broker)

    def close(self, broker: int) -> None:
        self._channels.pop(broker).close()

    def waiting(self) -> dict[int, int]:
        """How many requests to each broker are not answered yet."""
        return {broker: len(channel) for broker, channel in self._channels.items()}

    async def all_told(self) -> None:
        """Returns when every broker has answered all that it was sent, or is gone."""
        for channel in tuple(self._channels.values()):
            await channel.told()

    def batch(self) -> RequestBatch:
        """An empty one, to be given to `send`."""
        return RequestBatch(self._cluster, self._broker_id, self._epoch, self._listener)

    async def send(self, batch: RequestBatch) -> None:
        """Sends the requests of a batch. Other tasks are served meanwhile; the next event waits."""
        async for request in batch.requests():
            self._channels[request.broker].send(request)

    async def tell_roles(self, names: Iterable[TopicPartition]) -> None:
        """The roles of partitions to the brokers that hold them, and everybody's metadata."""
        batch = self.batch()
        async for name in in_slices(names):
            batch.roles_of(name)
        await self.send(batch)

    async def tell_metadata(self, names: Iterable[TopicPartition] = ()) -> None:
        """Everybody's metadata of these partitions, and of all brokers."""
        batch = self.batch()
        async for name in in_slices(names):
            batch.metadata_of(name)
        batch.metadata_to(self._cluster.brokers)
        await self.send(batch)

    async def tell_moved(self, leaving: Mapping[TopicPartition, Collection[int]]) -> None:
        """As `tell_roles`; and the brokers that hold a partition no longer are to delete it."""
        batch = self.batch()
        async for name, brokers in in_slices(leaving.items()):
            batch.roles_of(name)
            partition = self._cluster.get(name)
            if brokers and partition is not None and partition.state is not None:
                batch.stop(name, brokers, partition.state.leader_epoch, delete=True)
        await self.send(batch)
