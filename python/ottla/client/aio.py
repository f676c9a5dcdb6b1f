"""`ottla.client` for asyncio: the same classes and methods.

    from ottla.client.aio import Cluster, Consumer

    async with Cluster("127.0.0.1:9092") as cluster, Consumer(cluster, group="billing") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

The client under trio does the work, in the thread of the asyncio loop; `guest` and `aio_facade` say how. Each object
belongs to the loop in which its `Cluster` was opened, and is used within the cluster's block. What a call waits for
ends when its task is cancelled, and the task goes on when it has ended: no record is lost by it, and none is given
twice.

`aio.pyi` has the signatures: `python -m ottla.client.aio_stub` writes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from ottla.client import (
    acl_admin,
    admin,
    batches,
    cluster,
    cluster_admin,
    consumer,
    groups,
    producer,
    transaction_admin,
    transactional,
    user_admin,
)
from ottla.client.aio_facade import Home, facade, outward, stands_for
from ottla.client.guest import hold

RECORDS_PER_TURN = 256
"""After so many records that needed no waiting the loop's other tasks have a turn."""


@stands_for(cluster.Cluster)
class Cluster(facade(cluster.Cluster)):  # type: ignore[misc]
    async def __aenter__(self) -> Self:
        home = self._home
        if home.guest is not None:
            raise RuntimeError("the cluster is open already")
        home.guest = hold()
        try:
            await super().__aenter__()
        except BaseException:
            await self._let_go()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._home.guest is None:
            return
        self._home.here()
        try:
            await super().__aexit__(kind, problem, trace)
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        guest, self._home.guest = self._home.guest, None
        await guest.let_go()


@stands_for(consumer.Consumer)
class Consumer(facade(consumer.Consumer)):  # type: ignore[misc]
    async def poll(self, wait_ms: int | None = None) -> list[consumer.Record]:
        inner = self._inner
        return await self._home.call(partial(inner.poll, wait_ms), late=inner._hand.take)

    def __aiter__(self) -> AsyncIterator[consumer.Record]:
        return _Records(self._home, self._inner)


class _Records:
    """The iterator of records, which are given from the consumer's hand without a switch between loops."""

    def __init__(self, home: Home, inner: consumer.Consumer) -> None:
        self._home = home
        self._inner = inner
        self._hand = inner._hand
        self._left = RECORDS_PER_TURN

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> consumer.Record:
        self._left -= 1
        if not self._left:
            self._left = RECORDS_PER_TURN
            await asyncio.sleep(0)
        hand = self._hand
        while hand.at >= len(hand.records):
            await self._home.call(self._fill)
        hand.at += 1
        return hand.records[hand.at - 1]

    async def _fill(self) -> None:
        self._hand.take(await self._inner.poll())


Receipt = facade(batches.Receipt)


@stands_for(producer.Producer)
class Producer(facade(producer.Producer)):  # type: ignore[misc]
    #: How many records may still be taken before the loop's other tasks have a turn.
    _left = RECORDS_PER_TURN

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: producer.Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        inner = self._open_inner()
        time_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        if inner._put(topic, value, key, headers, time_ms, partition) is None:
            await self._home.call(partial(inner._put_soon, topic, value, key, headers, time_ms, partition))
        self._left -= 1
        if not self._left:
            self._left = RECORDS_PER_TURN
            await asyncio.sleep(0)

    async def send_with_receipt(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: producer.Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Any:
        inner = self._open_inner()
        self._left -= 1
        if not self._left:
            self._left = RECORDS_PER_TURN
            await asyncio.sleep(0)
        time_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        batch = inner._put(topic, value, key, headers, time_ms, partition)
        if batch is not None:
            return outward(batches.Receipt(batch, time_ms), self._home)
        options = {"key": key, "headers": headers, "timestamp_ms": time_ms, "partition": partition}
        return outward(await self._home.call(partial(inner.send_with_receipt, topic, value, **options)), self._home)

    async def send_and_wait(self, topic: str, value: bytes | None, **options: Any) -> batches.Delivered:
        receipt = await self.send_with_receipt(topic, value, **options)
        found: batches.Delivered = await receipt.wait()
        return found

    def _open_inner(self) -> producer.Producer:
        """The producer under trio. Raises RuntimeError: it is not open here, so nobody would send what it takes."""
        self._home.here()
        if self._block is None or not self._block.is_open:
            raise RuntimeError("a producer takes records in its block: async with Producer(...) as producer")
        found: producer.Producer = self._inner
        return found


@stands_for(transactional.TransactionalProducer)
class TransactionalProducer(facade(transactional.TransactionalProducer)):  # type: ignore[misc]
    send = Producer.send
    send_with_receipt = Producer.send_with_receipt
    send_and_wait = Producer.send_and_wait

    def _open_inner(self) -> producer.Producer:
        found = super()._open_inner()
        self._inner._check_open()
        return found


ClusterAdmin = facade(cluster_admin.ClusterAdmin)
Groups = facade(groups.Groups)
TransactionAdmin = facade(transaction_admin.TransactionAdmin)
AclAdmin = facade(acl_admin.AclAdmin)
UserAdmin = facade(user_admin.UserAdmin)
Admin = facade(admin.Admin)

__all__ = [
    "AclAdmin",
    "Admin",
    "Cluster",
    "ClusterAdmin",
    "Consumer",
    "Groups",
    "Producer",
    "Receipt",
    "TransactionAdmin",
    "TransactionalProducer",
    "UserAdmin",
]
