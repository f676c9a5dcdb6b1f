"""Large answers that nobody reads, asked for by many at once: they have one sum, and take it before they are made."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.errors import ConnectionLost
from ottla.wire.headers import request_frame
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest
from ottla.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersRequest, TopicRequest
from ottla.wire.schema import Api, Message
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch
from tests.support.client import connect as client_of
from tests.support.hostile import Honest, closing, connect, send
from tests.support.waiting import PATIENCE_S, eventually

MIB = 1 << 20
QUEUED_BYTES = 256 * MIB
#: `queued.max.request.bytes`, the answers' quarter of it, and what the broker is beside both.
RSS_MAX = QUEUED_BYTES + QUEUED_BYTES // 4 + 64 * MIB
CLIENTS = 50
BROKER = 4


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    return brokers(settings={"queued.max.request.bytes": QUEUED_BYTES})


#: Answers to an honest client: how many while others attack, and how many in all.
MEANWHILE, IN_ALL = 5, 60


def is_served(honest: Honest) -> None:
    """Returns when an honest client got so many more answers. Called while attackers are there."""
    before = len(honest.waits_s)
    eventually("the honest client is served", lambda: len(honest.waits_s) >= before + MEANWHILE or honest.error)


@contextlib.contextmanager
def honest_beside(broker: Broker, rss_max: int = RSS_MAX) -> Iterator[Honest]:
    """An honest client is served all along, and the broker stays in its memory.

    How fast is for `make bench-hostile`.
    """
    with Honest(broker.port, broker.pid) as honest:
        yield honest
        eventually("the honest client was served", lambda: len(honest.waits_s) > IN_ALL or honest.error)
    assert honest.rss_max < rss_max, honest.rss_max // MIB


def describe_configs(rows: int) -> bytes:
    row = DescribeConfigsResource(resource_type=BROKER, resource_name="1001", configuration_keys=None)
    asked = DescribeConfigsRequest(resources=[row] * rows, include_synonyms=True, include_documentation=True)
    return request_frame(DESCRIBE_CONFIGS.key, 3, 1, "greedy", DESCRIBE_CONFIGS.encode_request(3, asked))


@pytest.mark.parametrize("rows", [300, 2300])
def test_answers_that_nobody_reads_stay_below_their_bound(broker: Broker, rows: int) -> None:
    """An answer has 12 or 91 MB: a few fit into the bound, or none does."""
    frame = describe_configs(rows)
    with honest_beside(broker) as honest:
        attackers = [connect(broker.port) for _ in range(CLIENTS)]
        with closing(attackers):
            for one in attackers:
                send(one, frame)
            is_served(honest)
            with client_of(broker) as client:
                asked = DescribeConfigsRequest(
                    resources=[DescribeConfigsResource(resource_type=BROKER, resource_name="1001")],
                )
                assert client.call(DESCRIBE_CONFIGS, asked, 3).results[0].configs
            eventually("clients that do not read are closed", lambda: "answers are not read" in broker.output())


NEW_TOPICS = [CreatableTopic(name=f"new-{row}", num_partitions=1, replication_factor=1) for row in range(250)]
#: Requests of a few bytes that ask for all partitions of the cluster, or of the broker.
OF_ALL: list[Any] = [
    (METADATA, 9, MetadataRequest(topics=None)),
    # All are answered by the same few functions: one each time is enough.
    *(
        pytest.param(*one, marks=pytest.mark.judge)
        for one in (
            (DESCRIBE_LOG_DIRS, 1, DescribeLogDirsRequest(topics=None)),
            (OFFSET_FETCH, 7, OffsetFetchRequest(group_id="wide", topics=None)),
            (ELECT_LEADERS, 1, ElectLeadersRequest(topic_partitions=None, timeout_ms=1000)),
            (CREATE_TOPICS, 5, CreateTopicsRequest(topics=NEW_TOPICS, validate_only=True)),
        )
    ),
]


def commit_to_wide(client: Client) -> None:
    """Offsets of all partitions, with metadata that clients keep there."""
    for start in range(0, 5_000, 500):
        rows = [OffsetCommitRequestPartition(start + row, 1, committed_metadata="m" * 1_000) for row in range(500)]
        asked = OffsetCommitRequest(group_id="wide", topics=[OffsetCommitRequestTopic("wide", rows)])
        (topic,) = client.call(OFFSET_COMMIT, asked, 7).topics
        assert {row.error_code for row in topic.partitions} == {0}


@pytest.mark.parametrize(("api", "version", "asked"), OF_ALL, ids=lambda value: getattr(value, "name", ""))
def test_rows_of_answers_that_many_ask_for_at_once_are_bounded(
    brokers: Brokers, api: Api[Any, Any], version: int, asked: Message
) -> None:
    """Each answer's rows take ten times what the answer does."""
    queued_bytes = 32 * MIB
    broker = brokers(settings={"queued.max.request.bytes": queued_bytes, "socket.request.max.bytes": 8 * MIB})
    with client_of(broker) as client:
        client.create("wide", 5_000)
        client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="wide"))
        if api is OFFSET_FETCH:
            commit_to_wide(client)
    frame = request_frame(api.key, version, 1, "greedy", api.encode_request(version, asked))
    with honest_beside(broker, queued_bytes + queued_bytes // 4 + 96 * MIB) as honest:
        attackers = [connect(broker.port) for _ in range(200)]
        with closing(attackers):
            for one in attackers:
                send(one, frame)
            is_served(honest)
            for one in attackers:
                one.settimeout(PATIENCE_S)
                assert one.recv(4)


def test_producers_are_described_as_often_as_there_is_room_for(brokers: Brokers) -> None:
    """A few bytes could ask for gigabytes."""
    broker = brokers(settings={"socket.request.max.bytes": 200_000})
    with client_of(broker) as client:
        client.create("t")
        for producer_id in range(100):
            client.produce("t", batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0))

        def described(times: int) -> Any:
            asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0] * times)])
            return client.call(DESCRIBE_PRODUCERS, asked)

        (topic,) = described(20).topics
        assert [len(row.active_producers) for row in topic.partitions] == [100] * 20
        with pytest.raises((ConnectionLost, OSError)):
            described(100)
    reason = "the answer would have more than socket.request.max.bytes"
    eventually("a line about it", lambda: reason in broker.output())
