"""Outside trio the client says where it runs, and what to use instead."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.client import Admin, Cluster
from ottla.client.cluster import Address
from ottla.client.connection import Connection


async def entered(cluster: Cluster) -> None:
    async with cluster:
        pass


async def connected(cluster: Cluster) -> None:
    await Connection.connect(*cluster.bootstrap[0])


BEGINNINGS: list[Callable[[Cluster], Awaitable[object]]] = [
    entered,
    connected,
    lambda cluster: Admin(cluster).list_topics(),
    lambda cluster: Admin(cluster).create_topic("elsewhere", 1),
    lambda cluster: cluster.connection(Address("127.0.0.1", 1)),
    lambda cluster: cluster.any_connection(),
]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_asyncio_is_told_what_to_use(begin: Callable[[Cluster], Awaitable[object]]) -> None:
    async def main() -> None:
        await begin(Cluster("127.0.0.1:1"))

    with pytest.raises(RuntimeError) as raised:
        asyncio.run(main())
    assert (
        str(raised.value) == "ottla.client runs under trio; asyncio has ottla.client.aio, and no loop ottla.client.sync"
    )
