"""Requests that a broker closes the connection for: the client finds out why."""

import pytest
import trio

from ottla.client import Admin, Cluster, Producer
from ottla.client.errors import ConnectionLost
from ottla.errors import MessageTooLarge
from tests.peers.ottla import Brokers


def test_a_request_that_is_too_large_for_the_broker_is_an_error_with_the_reason(brokers: Brokers) -> None:
    """The broker closes the connection without a word. Others go on, in requests that are small enough."""
    broker = brokers(settings={"socket.request.max.bytes": 600_000, "message.max.bytes": 10_000_000})

    async def run() -> None:
        async with Cluster(broker.bootstrap) as cluster, Producer(cluster, linger_ms=0) as producer:
            await Admin(cluster).create_topic("large", 8)
            with pytest.raises(MessageTooLarge, match=r"more than 600,000 bytes \(socket\.request\.max\.bytes\)"):
                await producer.send_and_wait("large", b"x" * 700_000, partition=0)
            for number in range(8):
                await producer.send("large", b"x" * 250_000, partition=number)
            await producer.flush()
            assert producer.acknowledged == 8

    trio.run(run)


def test_who_was_served_is_not_asked_for_a_user(brokers: Brokers) -> None:
    broker = brokers()

    async def run() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await cluster.refresh([])
            address = next(iter(cluster.metadata.brokers.values()))
            await cluster.aclose()
            connection = await cluster.connection(address)  # one that has asked for versions alone
            broker.kill()
            with pytest.raises(ConnectionLost) as lost:
                await cluster.refresh([])
            assert connection.closed
            assert "does this port want" not in str(lost.value)

    trio.run(run)
