"""Whether leaders say that they lead: what is asked, how often, and what is made of the answers."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from ottla.client.leading import LOOKS, SILENT_S, not_led
from ottla.errors import NotLeaderOrFollower, OffsetNotAvailable, StorageError
from ottla.kafka import TopicPartition
from ottla.wire.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

pytestmark = pytest.mark.trio

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@dataclass
class Brokers:
    """Which error each says of a partition, and who leads when Metadata is asked again."""

    errors: Callable[[int, TopicPartition], int] = lambda leader, partition: 0
    later: Callable[[], Mapping[TopicPartition, int]] = dict
    asked: list[tuple[int, set[TopicPartition]]] = field(default_factory=list)

    async def ask(self, leader: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        named = {
            TopicPartition(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
        }
        self.asked.append((leader, named))
        rows: dict[str, list[ListOffsetsPartitionResponse]] = {}
        for each in named:
            row = ListOffsetsPartitionResponse(partition_index=each.partition, error_code=self.errors(leader, each))
            rows.setdefault(each.topic, []).append(row)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=topic, partitions=partitions) for topic, partitions in rows.items()]
        )

    async def look(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {partition: leader for partition, leader in self.later().items() if partition in partitions}

    async def wrong(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
        return await not_led(leaders, self.ask, self.look)


async def test_each_leader_is_asked_once_for_all_that_it_leads() -> None:
    brokers = Brokers()
    assert await brokers.wrong({T0: 1, T1: 2, U0: 1}) == {}
    assert sorted(brokers.asked) == [(1, {T0, U0}), (2, {T1})]


async def test_who_says_no_is_named(autojump_clock: trio.testing.MockClock) -> None:
    codes = {(2, T1): NotLeaderOrFollower.code, (1, U0): StorageError.code}
    brokers = Brokers(lambda *asked: codes.get(asked, 0), lambda: {T0: 1, T1: 2, U0: 1})
    assert await brokers.wrong({T0: 1, T1: 2, U0: 1}) == {
        T1: "its leader 2 says that it does not lead it",
        U0: "its leader 1 says KAFKA_STORAGE_ERROR",
    }
    assert len(brokers.asked) == 2 * LOOKS
    assert (1, {T0, U0}) not in brokers.asked[2:], "who says yes is not asked again"


async def test_a_leader_that_changed_meanwhile_is_no_trouble(autojump_clock: trio.testing.MockClock) -> None:
    brokers = Brokers(lambda leader, _: NotLeaderOrFollower.code if leader == 1 else 0, lambda: {T0: 2})
    assert await brokers.wrong({T0: 1, T1: 1}) == {}, "and one whose topic is gone is none"
    assert brokers.asked[1:] == [(2, {T0})]


async def test_a_leader_without_a_high_watermark_leads(autojump_clock: trio.testing.MockClock) -> None:
    assert await Brokers(lambda *_: OffsetNotAvailable.code).wrong({T0: 1}) == {}


async def test_who_is_silent_is_not_waited_for_long(autojump_clock: trio.testing.MockClock) -> None:
    class Silent(Brokers):
        async def ask(self, leader: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
            if leader == 2:
                await trio.sleep_forever()
            if leader == 3:
                raise OSError("nobody is there")
            return await super().ask(leader, request)

    brokers = Silent(lambda *_: NotLeaderOrFollower.code, lambda: {U0: 1})
    begin = trio.current_time()
    assert await brokers.wrong({T0: 2, T1: 3, U0: 1}) == {
        T0: "its leader 2 does not answer",
        T1: "its leader 3 cannot be asked: nobody is there",
        U0: "its leader 1 says that it does not lead it",
    }
    assert trio.current_time() - begin < 2 * SILENT_S
