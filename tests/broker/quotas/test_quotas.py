"""Client quotas on a real broker: who is throttled, how, and who is not."""

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from ottla.errors import InvalidRequest, ThrottlingQuotaExceeded, UnsupportedVersion
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k37_create_partitions import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.k48_describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    ComponentData,
    DescribeClientQuotasRequest,
)
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.peers.ottla import Broker
from tests.support.client import Client, batch, values
from tests.support.fetch_session import Session
from tests.support.waiting import PATIENCE_S

BIG = batch(b"x" * 30_000)


def alter(client: Client, entity: dict[str, str | None], quotas: dict[str, float | None], **options: bool) -> int:
    """Sets quotas (None removes one), and returns the error code."""
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )
    (row,) = client.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry], **options)).entries
    return row.error_code


@pytest.fixture
def admin(shared_broker: Broker) -> Iterator[Client]:
    with Client.connect("127.0.0.1", shared_broker.port, "admin") as client:
        yield client


@pytest.fixture
def limited(shared_broker: Broker, admin: Client) -> Iterator[Client]:
    """A client with the id "limited"; its quotas are removed in the end."""
    with Client.connect("127.0.0.1", shared_broker.port, "limited") as client:
        yield client
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    assert alter(admin, {"client-id": "limited"}, dict.fromkeys(keys)) == 0


def limit(admin: Client, quotas: dict[str, float | None]) -> None:
    """Sets quotas of the client "limited". The broker takes them when it hears of them through the tree, soon."""
    assert alter(admin, {"client-id": "limited"}, quotas) == 0
    assert describe(admin, {"client-id": ("limited", 0)}) == [({"client-id": "limited"}, quotas)]


def describe(
    client: Client, components: dict[str, tuple[str | None, int]], *, strict: bool = False
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    rows = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, (name, how) in components.items()]
    answer = client.call(DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=rows, strict=strict))
    assert answer.error_code == 0, answer.error_message
    return [
        ({part.entity_type: part.entity_name for part in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in answer.entries or []
    ]


def until_throttled(client: Client, topic: str) -> tuple[int, float]:
    """Produces until an answer names a throttle time: the quota may be heard of a moment after it was set. Returns that
    time and the moment in which the throttled request was sent.
    """
    for _ in range(100):
        sent = time.monotonic()
        throttle_ms = client.produce(topic, BIG).throttle_time_ms
        if throttle_ms:
            return throttle_ms, sent
    raise AssertionError("never throttled")


def test_a_producer_is_answered_at_once_and_then_not_heard(limited: Client, admin: Client) -> None:
    admin.create("throttled")
    limit(admin, {"producer_byte_rate": 25_000.0})
    throttle_ms, sent = until_throttled(limited, "throttled")
    assert admin.produce("throttled", BIG).throttle_time_ms == 0, "another client id"
    limited.call(METADATA, MetadataRequest(topics=[]))
    assert time.monotonic() - sent >= throttle_ms / 1000


def test_confluent_hears_for_how_long_it_is_throttled(limited: Client, admin: Client, shared_broker: Broker) -> None:
    """It loses nothing by it."""
    admin.create("heard")
    limit(admin, {"producer_byte_rate": 25_000.0})
    heard: list[confluent_kafka.ThrottleEvent] = []
    config = {"bootstrap.servers": shared_broker.bootstrap, "client.id": "limited", "throttle_cb": heard.append}
    producer = confluent_kafka.Producer({**config, "linger.ms": 0})
    sent = 0
    while not heard:
        assert sent < 100, "never throttled"
        producer.produce("heard", b"x" * 30_000)
        assert producer.flush(PATIENCE_S) == 0
        sent += 1
    assert heard[0].broker_id == shared_broker.id
    assert heard[0].throttle_time > 0
    assert admin.fetch("heard", sent - 1).responses[0].partition_responses[0].high_watermark == sent


def test_a_throttled_consumer_gets_nothing_and_misses_nothing(limited: Client, admin: Client) -> None:
    admin.create("read")
    limit(admin, {"consumer_byte_rate": 10_000.0})
    for _ in range(5):
        admin.produce("read", BIG)
    session = Session(limited, "read")
    offset = throttled = 0
    while offset < 5:
        answer = session.fetch({0: offset} if session.epoch == 0 or offset else {}, max_bytes=1)
        assert answer.error_code == 0
        if answer.throttle_time_ms:
            assert answer.responses == []
            assert answer.session_id == session.id
            throttled += 1
            limit(admin, {"consumer_byte_rate": 10_000_000.0})
        else:
            offset += len(values(answer))
            session.id = answer.session_id
        session.epoch += session.id != 0
    assert throttled == 1


def test_a_full_fetch_that_is_throttled_begins_no_session(limited: Client, admin: Client) -> None:
    admin.create("full-throttled")
    admin.produce("full-throttled", BIG)
    limit(admin, {"consumer_byte_rate": 100.0})
    for _ in range(100):
        session = Session(limited, "full-throttled")
        answer = session.fetch({0: 0})
        if answer.throttle_time_ms:
            assert (answer.session_id, answer.responses) == (0, [])
            break
    else:
        raise AssertionError("never throttled")


def test_time_is_limited_for_every_request(limited: Client, admin: Client) -> None:
    admin.create("time")
    limit(admin, {"request_percentage": 0.0001})
    answers = (limited.call(METADATA, MetadataRequest(topics=[]), 9).throttle_time_ms for _ in range(100))
    throttle_ms = next(filter(None, answers))
    assert 0 < throttle_ms <= 1000, "at most one window"
    assert limited.fetch("time").throttle_time_ms > 0
    # One that is handled in a task of its own.
    described = limited.call(DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=[]))
    assert described.throttle_time_ms > 0
    assert admin.call(METADATA, MetadataRequest(topics=[]), 9).throttle_time_ms == 0


def test_changes_to_topics_are_limited(limited: Client, admin: Client, shared_broker: Broker) -> None:
    limit(admin, {"controller_mutation_rate": 0.5})  # a bucket of 5.5 permits

    def create(name: str, partitions: int, version: int) -> tuple[int, int]:
        """On a connection of its own: others are not muted."""
        row = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        with Client.connect("127.0.0.1", shared_broker.port, "limited") as client:
            request = CreateTopicsRequest(topics=[row], timeout_ms=60_000)
            answer = client.call(CREATE_TOPICS, request, version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    for number in range(100):
        error, throttle_ms = create(f"mutation-{number}", 3, 6)
        if error:
            break
    assert error == ThrottlingQuotaExceeded.code
    assert throttle_ms > 0
    assert create("no/name", 1, 6)[0] not in (0, ThrottlingQuotaExceeded.code), "what is wrong anyway costs nothing"
    error, throttle_ms = create("mutation-old", 10, 5)
    assert error == 0, "clients that do not know the error are served"
    assert throttle_ms > 20_000, "and pay"

    deleting = DeleteTopicsRequest(topic_names=["mutation-0"], timeout_ms=60_000)
    assert limited.call(DELETE_TOPICS, deleting, 5).responses[0].error_code == ThrottlingQuotaExceeded.code
    with Client.connect("127.0.0.1", shared_broker.port, "limited") as client:
        row = CreatePartitionsTopic(name="mutation-0", count=5, assignments=None)
        growing = CreatePartitionsRequest(topics=[row], timeout_ms=60_000)
        assert client.call(CREATE_PARTITIONS, growing, 3).results[0].error_code == ThrottlingQuotaExceeded.code
    assert admin.call(DELETE_TOPICS, deleting, 5).responses[0].error_code == 0


def test_quotas_are_described_as_they_were_set(admin: Client) -> None:
    rows: list[tuple[dict[str, str | None], dict[str, float]]] = [
        ({"user": "Zoë & co/1"}, {"producer_byte_rate": 100.0}),
        ({"user": None}, {"request_percentage": 12.5}),
        ({"client-id": "a b"}, {"consumer_byte_rate": 7.0, "producer_byte_rate": 8.0}),
        ({"client-id": None}, {"controller_mutation_rate": 0.25}),
        ({"user": "Zoë & co/1", "client-id": None}, {"producer_byte_rate": 1.0}),
        ({"user": None, "client-id": "a b"}, {"producer_byte_rate": 2.0}),
    ]
    for entity, quotas in rows:
        assert alter(admin, entity, quotas) == 0  # type: ignore[arg-type]

    def seen(components: dict[str, tuple[str | None, int]], *, strict: bool = False) -> list[int]:
        return sorted(rows.index(row) for row in describe(admin, components, strict=strict))

    try:
        exact, default, anything = 0, 1, 2
        assert seen({}) == [0, 1, 2, 3, 4, 5]
        assert seen({}, strict=True) == []
        assert seen({"user": (None, anything)}) == [0, 1, 4, 5]
        assert seen({"user": (None, anything)}, strict=True) == [0, 1]
        assert seen({"user": ("Zoë & co/1", exact)}) == [0, 4]
        assert seen({"user": ("Zoë & co/1", exact)}, strict=True) == [0]
        assert seen({"user": (None, default)}) == [1, 5]
        assert seen({"client-id": ("a b", exact)}) == [2, 5]
        assert seen({"client-id": (None, anything)}, strict=True) == [2, 3]
        assert seen({"user": (None, anything), "client-id": (None, anything)}) == [4, 5]
        assert seen({"user": ("nobody", exact)}) == []
    finally:
        for entity, quotas in rows:
            assert alter(admin, entity, dict.fromkeys(quotas)) == 0
    assert seen({}) == []


def test_requests_for_quotas_that_cannot_be(admin: Client) -> None:
    whom: dict[str, str | None] = {"client-id": "refused"}
    for entity, quotas, error in [
        (whom, {"producer_byte_rate": 1.5}, InvalidRequest),
        (whom, {"producer_byte_rate": float("nan")}, InvalidRequest),
        (whom, {"bytes": 1.0}, InvalidRequest),
        ({}, {"producer_byte_rate": 1.0}, InvalidRequest),
        ({"client-id": ""}, {"producer_byte_rate": 1.0}, InvalidRequest),
        ({"group": "g"}, {"producer_byte_rate": 1.0}, InvalidRequest),
    ]:
        assert alter(admin, entity, quotas) == error.code  # type: ignore[arg-type]
    assert alter(admin, whom, {"producer_byte_rate": 1.0}, validate_only=True) == 0
    assert describe(admin, {}) == []
    for kinds, error in [(["user", "user"], InvalidRequest), ([""], InvalidRequest), (["ip"], UnsupportedVersion)]:
        rows = [ComponentData(entity_type=kind, match_type=2, match=None) for kind in kinds]
        answer = admin.call(DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=rows))
        assert (answer.error_code, answer.entries) == (error.code, None)
