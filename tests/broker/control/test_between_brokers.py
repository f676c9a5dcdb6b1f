"""Requests of brokers to the controller, at a broker of one: AlterIsr and ControlledShutdown, in every version."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.errors import (
    BrokerNotAvailable,
    NotController,
    StaleBrokerEpoch,
    StaleControllerEpoch,
)
from ottla.replication.replicas import Replicas
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from ottla.wire.k07_controlled_shutdown import CONTROLLED_SHUTDOWN, ControlledShutdownRequest
from ottla.wire.k56_alter_isr import (
    ALTER_ISR,
    AlterIsrRequest,
    AlterIsrRequestPartition,
    AlterIsrRequestTopic,
    AlterIsrResponsePartition,
)
from tests.support.client import Client

pytestmark = pytest.mark.trio
BETWEEN = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN, ALTER_ISR)


@asynccontextmanager
async def started(path: Path, **settings: str) -> AsyncIterator[Broker]:
    given = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    async with Broker.start(BrokerConfig(given)) as broker:
        yield broker


async def ask(broker: Broker, api: Any, request: Any, version: int, listener: int = 0) -> Any:
    def run() -> Any:
        with Client.connect("127.0.0.1", broker.addresses.listening[listener].port, "other") as client:
            return client.call(api, request, version)

    return await trio.to_thread.run_sync(run)


async def create(broker: Broker, partitions: int) -> None:
    def run() -> None:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "other") as client:
            client.create("t", partitions)

    await trio.to_thread.run_sync(run)


def isr(broker: Broker, *rows: AlterIsrRequestPartition, epoch: int | None = None) -> AlterIsrRequest:
    of = broker.registration.epoch if epoch is None else epoch
    return AlterIsrRequest(broker.id, of, [AlterIsrRequestTopic("t", list(rows))])


async def test_an_isr_that_holds_is_answered_and_others_refused(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        await create(broker, 2)
        me = broker.id
        asked = isr(
            broker,
            AlterIsrRequestPartition(0, 0, [me, me + 1], 0),
            AlterIsrRequestPartition(0, 0, [me], 0),
            AlterIsrRequestPartition(1, -1, [me], 0),
            AlterIsrRequestPartition(7, 0, [me], 0),
        )
        answer = await ask(broker, ALTER_ISR, asked, 0)
        (topic,) = answer.topics
        assert (answer.error_code, topic.name) == (0, "t")
        assert sorted(topic.partitions, key=lambda row: row.partition_index) == [
            AlterIsrResponsePartition(0, 0, me, 0, [me], 0),  # of two rows the last counts
            AlterIsrResponsePartition(1, 74),
            AlterIsrResponsePartition(7, 3),
        ]
        answer = await ask(broker, ALTER_ISR, isr(broker, epoch=3), 0)
        assert (answer.error_code, answer.topics) == (StaleBrokerEpoch.code, [])


async def test_a_request_of_many_rows_is_answered_row_by_row(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        await create(broker, 3)
        rows = [AlterIsrRequestPartition(number, 0, [broker.id], 0) for number in range(20_000)]
        answer = await ask(broker, ALTER_ISR, isr(broker, *rows), 0)
        codes = {row.partition_index: row.error_code for row in answer.topics[0].partitions}
        assert codes == {number: 0 if number < 3 else 3 for number in range(20_000)}


@pytest.mark.parametrize("version", CONTROLLED_SHUTDOWN.versions)
async def test_a_broker_shuts_down_in_every_version(tmp_path: Path, version: int) -> None:
    async with started(tmp_path) as broker:
        await create(broker, 1)
        answer = await ask(broker, CONTROLLED_SHUTDOWN, ControlledShutdownRequest(broker.id + 1), version)
        assert answer.error_code == BrokerNotAvailable.code
        assert broker.controller.cluster is not None
        assert broker.controller.cluster.leaving == set()
        answer = await ask(broker, CONTROLLED_SHUTDOWN, ControlledShutdownRequest(broker.id), version)
        assert (answer.error_code, answer.remaining_partitions) == (0, [])
        assert broker.controller.cluster.leaving == {broker.id}
        if version >= 2:
            former = ControlledShutdownRequest(broker.id, broker.registration.epoch - 1)
            answer = await ask(broker, CONTROLLED_SHUTDOWN, former, version)
            assert answer.error_code == StaleBrokerEpoch.code


async def test_only_the_controller_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path) as broker:
        monkeypatch.setattr(broker.controller, "_term", None)
        assert (await ask(broker, ALTER_ISR, isr(broker), 0)).error_code == NotController.code
        answer = await ask(broker, CONTROLLED_SHUTDOWN, ControlledShutdownRequest(broker.id), 3)
        assert answer.error_code == StaleControllerEpoch.code
        monkeypatch.undo()


async def test_they_are_heard_on_listeners_for_brokers_only(tmp_path: Path) -> None:
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter_broker_listener_name": "INSIDE",
    }
    async with started(tmp_path, **listeners) as broker:
        names = [endpoint.name for endpoint in broker.addresses.listening]
        for api in BETWEEN:
            assert broker.advertised[api.key] is api
            for version in api.versions:
                with pytest.raises((EOFError, OSError)):
                    await ask(broker, api, api.request(), version, names.index("PLAINTEXT"))
        answer = await ask(broker, ALTER_ISR, isr(broker), 0, names.index("INSIDE"))
        assert answer.error_code == 0


async def test_a_cluster_may_go_from_one_listener_between_brokers_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are heard, and followers are known, on the former and on the next, and not where clients are."""
    followers: list[int] = []
    monkeypatch.setattr(Replicas, "fetches_on", lambda replicas, connection, replica: followers.append(replica))
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0,NEXT://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,NEXT:PLAINTEXT",
        "inter_broker_listener_name": "NEXT",
        "inter_broker_accepted_listener_names": "inside,NEXT",
    }
    async with started(tmp_path, **listeners) as broker:
        await create(broker, 1)
        former, following = broker.id + 1, broker.id + 2
        names = [endpoint.name for endpoint in broker.addresses.listening]
        for name, replica in (("PLAINTEXT", 0), ("INSIDE", former), ("NEXT", following)):
            fetch = FetchRequest(replica_id=replica, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
            assert (await ask(broker, FETCH, fetch, 11, names.index(name))).error_code == 0
        assert followers == [former, following]
        for name in ("INSIDE", "NEXT"):
            assert (await ask(broker, ALTER_ISR, isr(broker), 0, names.index(name))).error_code == 0
        with pytest.raises((EOFError, OSError)):
            await ask(broker, ALTER_ISR, isr(broker), 0, names.index("PLAINTEXT"))
