"""Who answers at a broker's address may be anything: each is one error that says what came, from where, what to do.

`NO_BROKERS` are those that do not become a broker by waiting: a client that has not reached any broker says so at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from ottla.classic import SimpleConsumer
from ottla.client import (
    EARLIEST,
    LATEST,
    Admin,
    BlockingConnection,
    Cluster,
    Consumer,
    NotABroker,
    Producer,
    TopicPartition,
    TransactionalProducer,
)
from ottla.client.offsets import list_offsets
from ottla.errors import CoordinatorNotAvailable, KafkaError, RemoteProtocolError
from ottla.wire.k00_produce import PRODUCE, PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.wire.k01_fetch import FETCH, FetchableTopicResponse, FetchResponse
from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.k03_metadata import METADATA, MetadataResponse, MetadataResponseBroker
from ottla.wire.k09_offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribeGroupsResponse
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID
from tests.client.scripted_cluster import World
from tests.support.strangers import ADVERTISED, HINT, NO_BROKERS, frame, listening, names, offers, says
from tests.support.waiting import PATIENCE_S

#: Who waits for so long although it is in vain makes a test fail.
FOR_EVER_MS = 100 * PATIENCE_S * 1000
ALL = ((0, 0, 8), (1, 0, 11), (3, 0, 9), (18, 0, 3))


async def listed(cluster: Cluster) -> None:
    await Admin(cluster).list_topics()


async def produced(cluster: Cluster) -> None:
    async with Producer(cluster) as producer:
        await producer.send_and_wait("t", b"v")


async def in_transaction(cluster: Cluster) -> None:
    async with TransactionalProducer(cluster, "me") as producer:
        await producer.begin()


async def assigned(cluster: Cluster) -> None:
    await Consumer(cluster).assign({TopicPartition("t", 0): EARLIEST})


async def subscribed(cluster: Cluster) -> None:
    async with Consumer(cluster, group="g", start="earliest") as consumer:
        consumer.subscribe(["t"])
        while True:
            await consumer.poll()


CLIENTS = (listed, produced, in_transaction, assigned, subscribed)


async def refused(client: Callable[[Cluster], Awaitable[None]], *ports: int) -> Exception:
    """The error of a client of a cluster whose brokers should listen there."""
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    with trio.fail_after(PATIENCE_S):
        async with Cluster(bootstrap, timeout_ms=FOR_EVER_MS) as cluster:
            with pytest.raises((NotABroker, CoordinatorNotAvailable)) as caught:
                await client(cluster)
            return caught.value
    raise AssertionError("unreachable")


@pytest.mark.trio
@pytest.mark.parametrize("name", NO_BROKERS)
async def test_what_is_no_broker(name: str) -> None:
    behaviour, words = NO_BROKERS[name]
    with listening(behaviour) as port:
        problem = await refused(listed, port)
        assert f"127.0.0.1:{port} " in str(problem)
        assert words in str(problem)
        assert "\n" not in str(problem)


@pytest.mark.trio
@pytest.mark.parametrize("client", CLIENTS)
async def test_no_client_waits_for_what_is_no_broker(client: Callable[[Cluster], Awaitable[None]]) -> None:
    behaviour, words = NO_BROKERS["http"]
    with listening(behaviour) as port:
        assert f"127.0.0.1:{port} {words}" in str(await refused(client, port))


@pytest.mark.parametrize("name", [each for each in NO_BROKERS if each not in ("no metadata", "controller", "future")])
def test_blocking_clients(name: str) -> None:
    behaviour, words = NO_BROKERS[name]
    with listening(behaviour) as port:
        with pytest.raises(NotABroker) as caught:
            BlockingConnection.connect("127.0.0.1", port, timeout_ms=PATIENCE_S * 1000)
        assert str(caught.value).startswith(f"127.0.0.1:{port} ")
        assert words in str(caught.value)


def test_classic_clients() -> None:
    behaviour, words = NO_BROKERS["http"]
    with listening(behaviour) as port, SimpleConsumer("127.0.0.1", port) as consumer:
        with pytest.raises(NotABroker) as caught:
            consumer.get_offsets_before("t", 0, -1, 1)
        assert str(caught.value) == f"127.0.0.1:{port} {words}"


@pytest.mark.trio
async def test_each_address_is_named() -> None:
    with listening(NO_BROKERS["http"][0]) as web, listening(NO_BROKERS["ssh"][0]) as shell:
        text = str(await refused(listed, web, shell))
    assert text.startswith(f"no broker answers at 127.0.0.1:{web}, 127.0.0.1:{shell}: 127.0.0.1:{web} is no Kafka")
    assert f"; 127.0.0.1:{shell} is no Kafka broker: it answers as an SSH server does" in text


@pytest.mark.trio
@pytest.mark.parametrize("name", NO_BROKERS)
async def test_the_others_are_tried(name: str) -> None:
    world = World(1)
    world.topic("t", 1)
    async with world.serving():
        with listening(NO_BROKERS[name][0]) as port:
            async with Cluster(f"127.0.0.1:{port},{world.bootstrap}", timeout_ms=FOR_EVER_MS) as cluster:
                assert await cluster.partitions("t") == [0]


HALVES = {
    "half an answer": (
        says(b"\0\0\0\x64" + bytes(20), stays=False),
        "closed the connection in the middle of an answer",
    ),
    "half a length": (says(b"\0\0", stays=False), "closed the connection in the middle of an answer"),
    "nothing": (
        says(stays=False),
        "closed the connection; does this port want TLS or SASL (security.protocol), or is it ZooKeeper's?",
    ),
    "half of metadata": (
        offers(*ALL, then=says(b"\0\0\0\x64xx", stays=False)),
        "closed the connection in the middle of an answer",
    ),
    "another's metadata": (
        offers(*ALL, then=says(frame(b"\0\0\0\x63" + bytes(20)))),
        "the answer to Metadata makes no sense: answer 99 where 1 was due",
    ),
    "silence": (offers(*ALL), "no answer to Metadata from 127.0.0.1:"),
    "silence at once": (says(), "did not answer within 0.2 s"),
}


@pytest.mark.trio
@pytest.mark.parametrize("name", HALVES)
async def test_half_answers(name: str) -> None:
    """A broker may be ending or starting: it is asked again until the time is over."""
    behaviour, words = HALVES[name]
    with listening(behaviour) as port:
        async with Cluster(f"127.0.0.1:{port}", timeout_ms=200) as cluster:
            with pytest.raises(Exception, match="127") as caught:
                await listed(cluster)
    assert words in str(caught.value)
    assert f"127.0.0.1:{port}" in str(caught.value)


@pytest.mark.trio
async def test_a_broker_that_refuses_to_tell_its_versions() -> None:
    with listening(offers(error_code=-1)) as port:
        async with Cluster(f"127.0.0.1:{port}") as cluster:
            with pytest.raises(KafkaError, match=f"^the broker at 127.0.0.1:{port} refused ApiVersions$"):
                await listed(cluster)


@pytest.mark.trio
@pytest.mark.parametrize("name", ADVERTISED)
async def test_addresses_that_brokers_name(name: str) -> None:
    address, words = ADVERTISED[name]
    with listening(names([address])) as port:
        async with Cluster(f"127.0.0.1:{port}", timeout_ms=200) as cluster:
            with pytest.raises(OSError, match=":") as caught:
                await Admin(cluster).create_topic("t")
    assert str(caught.value).startswith(words)
    assert str(caught.value).endswith(HINT)


@pytest.mark.trio
async def test_something_else_at_an_address_that_brokers_name() -> None:
    with listening(NO_BROKERS["http"][0]) as web, listening(names([("127.0.0.1", web)])) as port:
        async with Cluster(f"127.0.0.1:{port}", timeout_ms=200) as cluster:
            with pytest.raises(NotABroker) as caught:
                await Admin(cluster).create_topic("t")
    assert str(caught.value) == f"127.0.0.1:{web} {NO_BROKERS['http'][1]}{HINT}"


@pytest.mark.trio
@pytest.mark.parametrize(
    "address", [ADVERTISED[each][0] for each in ("a name that none can be", "a port that is none")]
)
async def test_a_bad_address_does_not_stop_the_others(address: tuple[str, int]) -> None:
    world = World(1, 2)
    world.topic("t", 1, 2)
    here, there = TopicPartition("t", 0), TopicPartition("t", 1)
    world[there].add(b"there")
    async with world.serving():
        bootstrap = world.bootstrap
        host, world.brokers[1].port = address
        world.brokers[1].host = host
        async with Cluster(bootstrap.split(",")[1]) as cluster, Consumer(cluster) as consumer:
            await consumer.assign({here: 0, there: 0})
            with trio.fail_after(PATIENCE_S):
                found = await consumer.poll()
                while not found or here not in consumer.obstacles:
                    found += await consumer.poll(50)
            assert [each.value for each in found] == [b"there"]
            assert HINT in str(consumer.obstacles[here])


def rows_of(topic: str) -> dict[int, Any]:
    """Answers about partition 0 of a topic, or about none if it is ""."""
    names = [topic] if topic else []
    return {
        PRODUCE.key: ProduceResponse([TopicProduceResponse(each, [PartitionProduceResponse(0)]) for each in names]),
        FETCH.key: FetchResponse(responses=[FetchableTopicResponse(topic=each) for each in names]),
        LIST_OFFSETS.key: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(each, [ListOffsetsPartitionResponse(0, offset=7)]) for each in names]
        ),
        OFFSET_FETCH.key: OffsetFetchResponse(
            topics=[OffsetFetchResponseTopic(each, [OffsetFetchResponsePartition(0, 7)]) for each in names]
        ),
    }


@pytest.mark.trio
@pytest.mark.parametrize("topic", ["", "another"])
async def test_answers_that_leave_out_what_was_asked(topic: str) -> None:
    """Nothing is lost, doubled or begun elsewhere: what is not answered is asked again."""
    world = World(1)
    world.topic("t", 1)
    here = TopicPartition("t", 0)
    world[here].add(b"0", b"1", b"2")
    world.committed[here] = 1
    broker = world.brokers[1]
    async with world.serving(), Cluster(world.bootstrap) as cluster:
        broker.instead = rows_of(topic)
        # Asked again about a beginning, a consumer would ask again what is committed.
        later = broker.instead.pop(LIST_OFFSETS.key)
        with trio.fail_after(PATIENCE_S):
            async with Producer(cluster) as producer:
                delivered = await producer.send_and_wait("t", b"3")
            assert delivered.offset == 3
            async with Consumer(cluster, group="g", start="earliest") as consumer:
                consumer.subscribe(["t"])
                found: list[bytes | None] = []
                while len(found) < 3:
                    found += [each.value for each in await consumer.poll()]
            broker.instead[LIST_OFFSETS.key] = later
            assert (await list_offsets(cluster, {here: LATEST}))[here].offset == 4
    assert found == [b"1", b"2", b"3"]
    assert not broker.instead, "nobody was answered so"


@pytest.mark.trio
async def test_an_answer_about_nothing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    broker = world.brokers[1]
    async with world.serving(), Cluster(world.bootstrap) as cluster:
        # Else it is asked again.
        monkeypatch.setattr(cluster, "retry", lambda attempt, **settings: attempt())
        rows = [MetadataResponseBroker(1, "127.0.0.1", broker.port)]
        broker.instead[METADATA.key] = MetadataResponse(brokers=rows)
        with pytest.raises(RemoteProtocolError, match=r"^the answer says nothing of topic 't'$"):
            await cluster.topic("t")
        broker.instead[DESCRIBE_GROUPS.key] = DescribeGroupsResponse()
        with pytest.raises(RemoteProtocolError, match=r"^the answer says nothing of group 'g'$"):
            await Admin(cluster).groups.describe("g")


BABBLE = {
    "http": b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
    "wrong id": frame(b"\0\1\0\0" + bytes(20)),
    "negative": b"\xff\xff\xff\xfe",
    "huge": b"\x7f\xff\xff\xff",
    "zero": bytes(4),
}
QUESTIONS = (PRODUCE, FETCH, METADATA, LIST_OFFSETS, INIT_PRODUCER_ID)


@pytest.mark.trio
@pytest.mark.parametrize("name", BABBLE)
async def test_a_bad_answer_loses_and_doubles_nothing(name: str) -> None:
    """It ends a connection of one broker; what was asked there is asked again, the other partition goes on."""
    world = World(1, 2)
    world.topic("t", 1, 2)
    here, there = TopicPartition("t", 0), TopicPartition("t", 1)
    async with world.serving(), Cluster(world.bootstrap) as cluster:
        with trio.fail_after(PATIENCE_S):
            async with Producer(cluster) as producer, Consumer(cluster) as consumer:
                for question in QUESTIONS:
                    world.brokers[1].babbles[question.key] = BABBLE[name]
                await consumer.assign({here: EARLIEST, there: EARLIEST})
                found: list[tuple[int, bytes]] = []
                for number in range(3):
                    world.brokers[1].babbles.setdefault(PRODUCE.key, BABBLE[name])
                    world.brokers[1].babbles.setdefault(FETCH.key, BABBLE[name])
                    for partition in (0, 1):
                        await producer.send("t", b"%d" % number, partition=partition)
                    await producer.flush()
                    while len(found) < 2 * (number + 1):
                        found += [(each.partition, each.value or b"") for each in await consumer.poll()]
    for partition in (0, 1):
        assert [value for each, value in found if each == partition] == [b"0", b"1", b"2"]
    assert world[here].end == world[there].end == 3
    assert not {PRODUCE.key, FETCH.key} & world.brokers[1].babbles.keys(), "nobody was answered so"
