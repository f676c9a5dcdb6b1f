"""A Fetch in a session in which nothing is new costs the same with a few partitions and with many (KIP-227), of a
consumer and of a follower.
"""

from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from ottla.replication.roles import PartitionState
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client
from tests.support.loop_steps import Steps, counted

pytestmark = pytest.mark.trio

#: More than a session has that is lent to the hub: Python has them rest.
FEW, MANY = 110, 400
CONSUMER, FOLLOWER = -1, 2
#: Fetches of which the cheapest counts: beside others something else may have been done.
TIMES = 5


async def cost_of_a_quiet_fetch(broker: Broker, steps: Steps, replica_id: int, topic: str, partitions: int) -> int:
    """Lines of Python, and rows handed to C."""
    port = broker.addresses.listening[0].port
    rows = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(partitions)]

    def fetch(client: Client, session_id: int, epoch: int, topics: list[FetchTopic]) -> tuple[int, int]:
        """The session, and how many partitions were answered."""
        asked = FetchRequest(replica_id=replica_id, session_id=session_id, session_epoch=epoch, topics=topics)
        answer = client.call(FETCH, asked, 11)
        assert answer.error_code == 0
        return answer.session_id, sum(len(each.partition_responses) for each in answer.responses)

    costs = []
    client = await trio.to_thread.run_sync(lambda: Client.connect("127.0.0.1", port, "quiet"))
    with client:
        session_id, count = await trio.to_thread.run_sync(fetch, client, 0, 0, [FetchTopic(topic, rows)])
        assert (session_id > 0, count) == (True, partitions)
        for epoch in range(1, 2 + TIMES):
            await trio.testing.wait_all_tasks_blocked()
            before = steps.lines + steps.rows
            assert await trio.to_thread.run_sync(fetch, client, session_id, epoch, []) == (session_id, 0)
            await trio.testing.wait_all_tasks_blocked()
            costs.append(steps.lines + steps.rows - before)
    # The first one has all partitions rest.
    return min(costs[1:])


@pytest.mark.parametrize("replica_id", [CONSUMER, FOLLOWER])
async def test_it_costs_the_same_with_many_partitions(tmp_path: Path, replica_id: int) -> None:
    settings = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "1",
        "auto.leader.rebalance.enable": "false",
        # The follower of this test fetches seldom.
        "replica.lag.time.max.ms": "600000",
        "controlled.shutdown.enable": "false",
    }
    with counted() as steps:
        async with Broker.start(BrokerConfig(settings)) as broker:
            costs = []
            for topic, partitions in (("few", FEW), ("many", MANY)):
                await create_topic(broker.tree, NewTopic(topic, partitions, 1))
                await broker.metadata.wait_until(lambda topic=topic: topic in broker.metadata.topics)  # type: ignore[misc]
                state = PartitionState(1, 1, 1, (1, FOLLOWER), (1, FOLLOWER), 1)
                await broker.replicas.apply(topic, dict.fromkeys(range(partitions), state))
                costs.append(await cost_of_a_quiet_fetch(broker, steps, replica_id, topic, partitions))
    few, many = costs
    assert many <= few * 1.2
