"""A consumer whose topic is deleted: an error, after as long as a broker that starts may not know it."""

import pytest
import trio

from ottla.client import EARLIEST, Admin, Cluster, Consumer, TopicPartition
from ottla.errors import UnknownTopicOrPartition
from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S


def test_a_topic_that_is_gone_is_an_error(broker: Broker) -> None:
    async def run() -> None:
        async with Cluster(broker.bootstrap) as cluster, Cluster(broker.bootstrap) as other:
            await Admin(cluster).create_topic("gone", 1)
            consumer = Consumer(cluster, gone_ms=500)
            await consumer.assign({TopicPartition("gone", 0): EARLIEST})
            assert await consumer.poll() == []
            await Admin(other).delete_topic("gone")
            began = trio.current_time()

            async def poll_for_ever() -> None:
                while True:
                    assert await consumer.poll() == []

            with trio.fail_after(PATIENCE_S), pytest.raises(UnknownTopicOrPartition):
                await poll_for_ever()
            assert trio.current_time() - began >= 0.5

    trio.run(run)
