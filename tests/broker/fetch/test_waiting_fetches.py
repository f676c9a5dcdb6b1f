"""How long a Fetch waits: until `min_bytes` are there, wherever it waits. Leases let the plainest ones wait without
Python, so most of these are not plain.
"""

from collections.abc import Callable, Iterator

import pytest

from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.fetch_session import Session
from tests.support.waiting import PATIENCE_S

#: Longer than a client of these tests waits for its answer.
FOR_EVER_MS = 300_000
ANSWER_MS = PATIENCE_S * 1000
RECORDS = batch(b"x" * 1000)


def plain(client: Client, topic: str, version: int = 11, partitions: int = 1, **options: int) -> FetchRequest:
    rows = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)
        for number in range(partitions)
    ]
    return FetchRequest(replica_id=-1, topics=[FetchTopic(topic=topic, partitions=rows)], **options)


def in_session(client: Client, topic: str, version: int = 11, partitions: int = 1, **options: int) -> FetchRequest:
    session = Session(client, topic, version)
    session.ask(dict.fromkeys(range(partitions), 0))
    topics = plain(client, topic, version, partitions).topics if partitions == 1 else []
    return FetchRequest(replica_id=-1, session_id=session.id, session_epoch=1, topics=topics, **options)


KINDS = [
    pytest.param(plain, 11, 1, {}, id="under-a-lease"),
    pytest.param(plain, 9, 1, {}, id="before-zstd"),
    pytest.param(plain, 11, 1, {"isolation_level": 1}, id="committed"),
    pytest.param(plain, 11, 2, {"isolation_level": 1}, id="several-partitions"),
    pytest.param(plain, 3, 1, {}, id="message-sets"),
    pytest.param(in_session, 11, 1, {}, id="session-of-one"),
    pytest.param(in_session, 11, 2, {}, id="session-of-several"),
]


@pytest.fixture(scope="module")
def frugal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Its answers have no more than 1 KiB, or one batch."""
    with Brokers(tmp_path_factory.mktemp("frugal")) as brokers:
        yield brokers(settings={"fetch.max.bytes": 1024})


def topic_of(client: Client, broker: Broker, **config: str) -> str:
    """A topic whose first partition has a lease, as far as any request is served under one."""
    topic = f"waits-{next(NUMBERS)}"
    client.create(topic, partitions=2, **config)
    client.fetch(topic)
    return topic


NUMBERS = iter(range(1000))


def records(answer: FetchResponse) -> int:
    rows = [row for topic in answer.responses for row in topic.partition_responses]
    assert {row.error_code for row in rows} == {0}
    return sum(len(row.record_set or b"") for row in rows)


@pytest.mark.parametrize(("asked", "version", "partitions", "options"), KINDS)
def test_a_fetch_is_not_answered_with_less_than_it_waits_for(
    client: Client, shared_broker: Broker, asked: Callable, version: int, partitions: int, options: dict[str, int]
) -> None:
    topic = topic_of(client, shared_broker)
    least = 2 * len(RECORDS) + 1
    request = asked(client, topic, version, partitions, max_wait_ms=FOR_EVER_MS, min_bytes=least, **options)
    client.send(FETCH, request, version)
    with connect(shared_broker) as other:
        for number in range(3):
            other.produce(topic, RECORDS, partition=number % partitions)
    answer = client.receive(timeout_ms=ANSWER_MS)
    assert records(answer) >= least
    if version < 4:
        assert values(answer) == [b"x" * 1000] * 3, "what old consumers get is not shorter"


@pytest.mark.parametrize(("asked", "version", "partitions", "options"), KINDS)
def test_nobody_waits_for_more_than_an_answer_may_have(
    client: Client, shared_broker: Broker, asked: Callable, version: int, partitions: int, options: dict[str, int]
) -> None:
    topic = topic_of(client, shared_broker)
    limits = {"max_wait_ms": FOR_EVER_MS, "min_bytes": 5000, "max_bytes": 800}
    client.send(FETCH, asked(client, topic, version, partitions, **limits, **options), version)
    with connect(shared_broker) as other:
        other.produce(topic, RECORDS)
    assert records(client.receive(timeout_ms=ANSWER_MS)) > 800


@pytest.mark.parametrize(("asked", "version", "partitions", "options"), KINDS)
def test_nor_for_more_than_the_broker_lets_it_have(
    frugal_broker: Broker, asked: Callable, version: int, partitions: int, options: dict[str, int]
) -> None:
    with connect(frugal_broker) as client, connect(frugal_broker) as other:
        topic = topic_of(client, frugal_broker)
        limits = {"max_wait_ms": FOR_EVER_MS, "min_bytes": 5000}
        client.send(FETCH, asked(client, topic, version, partitions, **limits, **options), version)
        other.produce(topic, RECORDS)
        assert records(client.receive(timeout_ms=ANSWER_MS)) > 0


@pytest.mark.parametrize(("asked", "version", "partitions", "options"), KINDS)
@pytest.mark.parametrize("comes_later", [0, 1])
def test_nobody_waits_at_the_end_of_a_segment_that_is_not_the_last(
    client: Client,
    shared_broker: Broker,
    asked: Callable,
    version: int,
    partitions: int,
    options: dict[str, int],
    comes_later: int,
) -> None:
    """An answer has records of one segment, so it gets no longer. The next segment was there, or comes meanwhile."""
    topic = topic_of(client, shared_broker, segment_bytes=str(len(RECORDS)))
    for _ in range(2 - comes_later):
        client.produce(topic, RECORDS)
    least = 2 * len(RECORDS)
    request = asked(client, topic, version, partitions, max_wait_ms=FOR_EVER_MS, min_bytes=least, **options)
    client.send(FETCH, request, version)
    with connect(shared_broker) as other:
        for _ in range(comes_later):
            other.produce(topic, RECORDS)
    answer = client.receive(timeout_ms=ANSWER_MS)
    assert 0 < records(answer) < least
