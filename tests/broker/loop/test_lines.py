"""Requests between brokers go on in slices of their own: however many requests of clients go on in slices, none of them
is waited for.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla import slices
from ottla.broker import request_memory
from ottla.broker.broker import Broker
from ottla.slices import LARGE_BYTES, ROWS
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR, LeaderAndIsrPartitionState, LeaderAndIsrRequest
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
from ottla.wire.k56_alter_isr import ALTER_ISR, AlterIsrRequest, AlterIsrRequestPartition, AlterIsrRequestTopic
from ottla.wire.schema import Api, Message
from tests.support.control_requests import BASE, OTHER, ask, leading, started
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio

#: Rows in several slices, and so many that they do not fit in a small request.
MANY = 3 * ROWS


class Closed(slices._Line):
    """A line in which nobody goes on."""

    async def wait(self) -> None:
        await trio.sleep_forever()


@asynccontextmanager
async def without_clients(path: Path) -> AsyncIterator[Broker]:
    """A broker in which requests of clients do not go on after their first slice."""
    async with started(path) as broker:
        slices._requests.set(Closed())
        yield broker
        slices._requests.set(slices._Line())


def roles(broker: Broker, leader: int, epoch: int) -> LeaderAndIsrRequest:
    asked = leading(broker, 1, epoch)
    asked.topic_states[0].partition_states = [
        LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=BASE + 1,
            leader=leader,
            leader_epoch=epoch,
            isr=[leader],
            replicas=[broker.id, OTHER],
            is_new=True,
        )
        for index in range(MANY)
    ]
    return asked


def metadata(broker: Broker) -> UpdateMetadataRequest:
    endpoints = [UpdateMetadataEndpoint(port=9092, host="here", listener="PLAINTEXT", security_protocol=0)]
    return UpdateMetadataRequest(
        controller_id=broker.id,
        controller_epoch=BASE + 1,
        broker_epoch=-1,
        live_brokers=[UpdateMetadataBroker(id=number, endpoints=endpoints) for number in range(MANY)],
        topic_states=[
            UpdateMetadataTopicState(
                topic_name="t",
                partition_states=[
                    UpdateMetadataPartitionState(partition_index=index, leader=1, isr=[1], replicas=[1])
                    for index in range(MANY)
                ],
            )
        ],
    )


def stops(broker: Broker) -> StopReplicaRequest:
    states = [
        StopReplicaPartitionState(partition_index=n, leader_epoch=3, delete_partition=n < 9) for n in range(3 * MANY)
    ]
    return StopReplicaRequest(
        controller_id=broker.id,
        controller_epoch=BASE + 1,
        broker_epoch=-1,
        topic_states=[StopReplicaTopicState(topic_name="t", partition_states=states)],
    )


def changes(broker: Broker) -> AlterIsrRequest:
    rows = [AlterIsrRequestPartition(partition_index=index, new_isr=[1]) for index in range(4 * MANY)]
    return AlterIsrRequest(broker_id=1, broker_epoch=7, topics=[AlterIsrRequestTopic(name="t", partitions=rows)])


async def test_no_client_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Memory for one large request: the next one is decoded when the rows of the last one are freed.
    monkeypatch.setattr(request_memory, "PART", 1 << 60)

    async def answered(api: Api, request: Message, version: int) -> object:
        assert len(api.encode_request(version, request)) > LARGE_BYTES
        with trio.fail_after(PATIENCE_S):
            return await ask(broker, api, request, version)

    async with without_clients(tmp_path) as broker:
        for epoch, leader in enumerate((broker.id, OTHER), start=1):
            answer = await answered(LEADER_AND_ISR, roles(broker, leader, epoch), 4)
            assert {row.error_code for row in answer.partition_errors} == {0}
        for _ in range(2):
            answer = await answered(UPDATE_METADATA, metadata(broker), 6)
            assert answer.error_code == 0
        answer = await answered(STOP_REPLICA, stops(broker), 3)
        assert {row.error_code for row in answer.partition_errors} == {0}
        assert len(answer.partition_errors) == 3 * MANY
        answer = await answered(ALTER_ISR, changes(broker), 0)
        assert answer.error_code != 0
