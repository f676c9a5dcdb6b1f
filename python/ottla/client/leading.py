"""Whether the brokers that Metadata names as leaders say so themselves.

Metadata is what the controller says. A broker that it takes for a partition's leader, and that does not lead it, serves
nobody, and no answer of Metadata shows that: the leader lives, and all replicas are in sync. So each is asked for what
only a leader answers, where its partitions begin (ListOffsets, which any release of Kafka has). Who has just become or
ceased to be a leader may hear of it later than others: what says no is asked again a moment later, by newer metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeAlias

import trio

from ottla.client.cluster import Cluster
from ottla.client.topics import Topic
from ottla.errors import (
    BrokerNotAvailable,
    KafkaError,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    ProtocolError,
    error,
)
from ottla.kafka import CONSUMER, EARLIEST, TopicPartition
from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

#: Sends a request to a broker. Raises what a connection raises, also for a broker that is not there.
Ask: TypeAlias = "Callable[[int, ListOffsetsRequest], Awaitable[ListOffsetsResponse]]"
#: Who leads these partitions by newer metadata; what is not there any more or has no leader is left out.
Look: TypeAlias = "Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]"

#: How often a leader that says no is asked, and how long apart.
LOOKS = 3
APART_S = 0.3
#: A broker that is silent for so long is not waited for: what others say is worth seeing still.
SILENT_S = 5.0

#: A leader says so whose high watermark is not up to date yet (KIP-207); the other error is that of older versions.
_LEADS = frozenset({0, OffsetNotAvailable.code, LeaderNotAvailable.code})


async def not_led(
    leaders: Mapping[TopicPartition, int], ask: Ask, look: Look, *, silent_s: float = SILENT_S
) -> dict[TopicPartition, str]:
    """What is wrong with each partition whose leader does not say that it leads it, in words that follow its name.

    Every leader gets one request with all of its partitions, all at once. Who does not answer within `silent_s` is
    asked no more. Raises what `look` raises.
    """
    wrong: dict[TopicPartition, str] = {}
    asked = dict(leaders)
    for number in range(LOOKS):
        if number:
            await trio.sleep(APART_S)
            asked = dict(await look(list(asked)))
        codes: dict[TopicPartition, int] = {}
        async with trio.open_nursery() as nursery:
            for leader in sorted(set(asked.values())):
                led = [partition for partition, each in asked.items() if each == leader]
                nursery.start_soon(_ask, leader, led, ask, silent_s, codes, wrong)
        refused = {partition: leader for partition, leader in asked.items() if codes.get(partition, 0) not in _LEADS}
        if not refused:
            return wrong
        asked = refused
    return wrong | {partition: _words(leader, codes[partition]) for partition, leader in asked.items()}


async def _ask(
    leader: int,
    led: Collection[TopicPartition],
    ask: Ask,
    silent_s: float,
    codes: dict[TopicPartition, int],
    wrong: dict[TopicPartition, str],
) -> None:
    try:
        with trio.fail_after(silent_s):
            answer = await ask(leader, _request(led))
    except (OSError, ProtocolError, KafkaError, trio.TooSlowError) as problem:
        is_silent = isinstance(problem, (trio.TooSlowError, TimeoutError))
        words = "does not answer" if is_silent else f"cannot be asked: {problem}"
        wrong.update(dict.fromkeys(led, f"its leader {leader} {words}"))
        return
    for topic in answer.topics:
        for row in topic.partitions:
            codes[TopicPartition(topic.name, row.partition_index)] = row.error_code


def _request(led: Collection[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in led:
        row = ListOffsetsPartition(partition_index=index, timestamp=EARLIEST, max_num_offsets=1)
        topics.setdefault(topic, []).append(row)
    rows = [ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()]
    return ListOffsetsRequest(replica_id=CONSUMER, topics=rows)


def _words(leader: int, code: int) -> str:
    if code == NotLeaderOrFollower.code:
        return f"its leader {leader} says that it does not lead it"
    return f"its leader {leader} says {error(code).name}"


async def not_led_of(cluster: Cluster, topics: Collection[Topic]) -> dict[TopicPartition, str]:
    """The same of topics that the cluster was just asked about, except for partitions without a leader."""

    async def ask(leader: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        address = cluster.metadata.brokers.get(leader)
        if address is None:
            raise BrokerNotAvailable("it is not there")
        return await (await cluster.connection(address)).call(LIST_OFFSETS, request, timeout_ms=cluster.timeout_ms)

    async def look(partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        await cluster.refresh({partition.topic for partition in partitions})
        return {
            partition: cluster.metadata.leaders[partition]
            for partition in partitions
            if partition in cluster.metadata.leaders
        }

    leaders = {
        TopicPartition(topic.name, partition.number): partition.leader
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
    }
    return await not_led(leaders, ask, look, silent_s=min(SILENT_S, cluster.timeout_ms / 1000))
