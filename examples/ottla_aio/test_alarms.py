"""The service on asyncio, with a broker whose answers are lost on purpose."""

import asyncio

import alarms
import pytest

from ottla import Broker
from ottla.errors import GroupAuthorizationFailed


def test_what_is_too_hot_raises_an_alarm(ottla_broker: Broker, ottla_topic: str) -> None:
    servers, out = ottla_broker.bootstrap_servers, f"{ottla_topic}-alarms"
    ottla_broker.create_topic(out)

    async def main() -> list[tuple[str, int]]:
        await alarms.measure(servers, ottla_topic, [("lathe", 60), ("press", 90), ("lathe", 81)])
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            found = group.create_task(alarms.raised(servers, out, 2))
            group.create_task(alarms.watch(servers, ottla_topic, out, 3))
        return found.result()

    assert asyncio.run(main()) == [("press", 90), ("lathe", 81)]


def test_an_alarm_is_raised_once_although_an_answer_was_lost(ottla_broker: Broker, ottla_topic: str) -> None:
    servers, out = ottla_broker.bootstrap_servers, f"{ottla_topic}-alarms"
    ottla_broker.create_topic(out)

    async def main() -> None:
        await alarms.measure(servers, ottla_topic, [("press", 90)])
        with ottla_broker.faults.add("Produce", topic=out, close="after", times=1) as lost:
            await alarms.watch(servers, ottla_topic, out, 1)
            assert lost.hits == 1
        await alarms.measure(servers, ottla_topic, [("lathe", 85)])
        await alarms.watch(servers, ottla_topic, out, 1)
        assert await alarms.raised(servers, out, 2) == [("press", 90), ("lathe", 85)]

    asyncio.run(main())


def test_what_fails_halfway_is_done_again(ottla_broker: Broker, ottla_topic: str) -> None:
    servers, out = ottla_broker.bootstrap_servers, f"{ottla_topic}-alarms"
    ottla_broker.create_topic(out)

    async def main() -> None:
        await alarms.measure(servers, ottla_topic, [("press", 90)])
        refusal = ottla_broker.faults.add("TxnOffsetCommit", error="GROUP_AUTHORIZATION_FAILED", times=1)
        with refusal, pytest.raises(GroupAuthorizationFailed):
            await alarms.watch(servers, ottla_topic, out, 1)
        await alarms.measure(servers, ottla_topic, [("lathe", 85)])
        await alarms.watch(servers, ottla_topic, out, 2)
        assert await alarms.raised(servers, out, 2) == [("press", 90), ("lathe", 85)]

    asyncio.run(main())
