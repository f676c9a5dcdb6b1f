"""`ConsumerConnector` and its streams, alone and with others of its kind."""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from ottla.classic import (
    ClassicError,
    ConnectorClosed,
    Consumer,
    ConsumerTimeout,
    InvalidConfig,
    Message,
    Producer,
    SimpleConsumer,
    StringDecoder,
    SyncProducer,
    TopicPartition,
    Whitelist,
)
from ottla.coordination.tree import Unavailable
from ottla.errors import OffsetOutOfRange
from tests.classic.conftest import Place, group
from tests.classic.filling import HOST, fill, offsets
from tests.classic.members import QUICK, Member
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


#: Four threads share six partitions; which of three members has the two threads, and how they are sorted, varies.
SHARES = ([1, 1, 4], [1, 2, 3], [2, 2, 2])


def test_streams_share_the_partitions(place: Place) -> None:
    topic, mine = place.topic(4), group()
    sent = fill(place, topic, 4, 50)
    with Member(place, mine, topic, 2).join() as member:
        eventually("all arrive", lambda: len(member.consumed) == 200)
        assert sorted(member.connector.owned.values()) == [
            f"{member.connector.consumer_id}-{number}" for number in (0, 0, 1, 1)
        ]
    assert {each.value for each in member.consumed} == sent
    for partition in range(4):
        seen = [each.offset for each in member.consumed if each.partition == partition]
        assert seen == list(range(50))
    assert offsets(place, mine, topic, 4) == [50] * 4


def test_the_next_member_goes_on_where_the_last_one_ended(ours: Place) -> None:
    topic, mine = ours.topic(2), group()
    fill(ours, topic, 2, 10)
    with Member(ours, mine, topic).join() as first:
        eventually("all arrive", lambda: len(first.consumed) == 20)
    fill(ours, topic, 2, 10, start=10)
    with Member(ours, mine, topic).join() as second:
        eventually("the rest arrives", lambda: len(second.consumed) == 20)
    assert {each.offset for each in second.consumed} == set(range(10, 20))


def test_members_come_and_go_and_every_message_is_seen_once(place: Place) -> None:
    topic, mine = place.topic(6), group()
    sent = fill(place, topic, 6, 100)
    with Member(place, mine, topic).join() as first:
        with Member(place, mine, topic, 2).join() as second, Member(place, mine, topic).join() as third:
            members = (first, second, third)
            eventually("they share", lambda: sorted(len(each.partitions) for each in members) in SHARES)
            sent |= fill(place, topic, 6, 100, start=100)
            eventually("all arrive", lambda: sum(len(each.consumed) for each in members) >= 1200)
            third.stop()
            sent |= fill(place, topic, 6, 100, start=200)
            eventually("all arrive", lambda: sum(len(each.consumed) for each in members) >= 1800)
        eventually("one has all", lambda: len(first.partitions) == 6)
    values = [each.value for member in members for each in member.consumed]
    assert len(values) == len(set(values))
    assert set(values) == sent


def test_a_burst_of_joins_is_one_rebalance(ours: Place) -> None:
    """Kafka's document calls what Java's members do a herd: each of 20 joins is a rebalance of all who are there. Here
    it is one, unless the burst takes longer than changes are gathered for.
    """
    topic, mine = ours.topic(21), group()
    members = [Member(ours, mine, topic) for _ in range(21)]
    threads = [threading.Thread(target=member.join, daemon=True) for member in members[1:]]
    watcher = KazooClient(ours.zookeeper)
    watcher.start()
    try:
        first = members[0].join()
        eventually("the first has all", lambda: len(first.partitions) == 21)
        before = first.connector.rebalances
        moments = [time.monotonic()]
        for count, thread in enumerate(threads, 2):
            thread.start()
            ids = f"/consumers/{mine}/ids"
            eventually("it has registered", lambda: len(watcher.get_children(ids)) == count)  # noqa: B023 - waits here
            moments.append(time.monotonic())
        eventually("each has one", lambda: all(len(member.partitions) == 1 for member in members))
        pauses = sum(end - start > 0.15 for start, end in itertools.pairwise(moments))
        longer = int((moments[-1] - moments[0]) / 0.5)
        assert 1 <= first.connector.rebalances - before <= 1 + pauses + longer
    finally:
        for thread in threads:
            thread.join(PATIENCE_S)
        for member in members:
            member.stop()
        watcher.stop()
        watcher.close()


def test_topics_that_match_join_when_they_are_made(place: Place) -> None:
    prefix = f"filter{time.monotonic_ns()}"
    place.create(f"{prefix}.a")
    place.create(f"other-{prefix}")
    fill(place, f"{prefix}.a", 1, 1)
    with Member(place, group(), Whitelist(rf" '{prefix}\..*' "), 2).join() as member:
        eventually("the first topic", lambda: len(member.consumed) == 1)
        place.create(f"{prefix}.b", 2)
        fill(place, f"{prefix}.b", 2, 3)
        fill(place, f"other-{prefix}", 1, 3)
        eventually("the second topic", lambda: len(member.consumed) == 7)
        assert {each.topic for each in member.consumed} == {f"{prefix}.a", f"{prefix}.b"}


def test_partitions_that_are_added_are_read(ours: Place) -> None:
    topic = ours.topic(1)
    with Member(ours, group(), topic).join() as member:
        ours.grow(topic, 3)
        fill(ours, topic, 3, 5)
        eventually("all arrive", lambda: len(member.consumed) == 15)


def test_a_topic_may_come_later(ours: Place) -> None:
    topic = f"later-{time.monotonic_ns()}"
    with Member(ours, group(), topic).join() as member:
        ours.create(topic, 2)
        fill(ours, topic, 2, 2)
        eventually("all arrive", lambda: len(member.consumed) == 4)


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_offsets_are_committed_where_the_settings_say(place: Place, storage: str) -> None:
    topic, mine = place.topic(2), group()
    fill(place, topic, 2, 5)
    other = "kafka" if storage == "zookeeper" else "zookeeper"
    settings = {"offsets_storage": storage, "dual_commit_enabled": False, "auto_commit_enable": False}
    with Member(place, mine, topic, **settings).join() as member:
        eventually("all arrive", lambda: len(member.consumed) == 10)
        member.connector.commit_offsets()
        assert offsets(place, mine, topic, 2, storage) == [5, 5]
        assert offsets(place, mine, topic, 2, other) == [-1, -1]
        fill(place, topic, 2, 1, start=5)
        eventually("two more", lambda: len(member.consumed) == 12)
    assert offsets(place, mine, topic, 2, storage) == [5, 5], "not without auto commit"


def test_dual_commit_writes_both_and_reads_the_greater(place: Place) -> None:
    topic, mine = place.topic(2), group()
    fill(place, topic, 2, 10)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with SimpleConsumer(HOST, place.port) as writer:
        writer.commit_offsets(mine, {first: 7, second: 2}, storage="zookeeper")
        writer.commit_offsets(mine, {first: 3, second: 8}, storage="kafka")
    with Member(place, mine, topic, offsets_storage="kafka").join() as member:
        eventually("the rest arrives", lambda: len(member.consumed) == 5)
    assert sorted((each.partition, each.offset) for each in member.consumed) == [(0, 7), (0, 8), (0, 9), (1, 8), (1, 9)]
    assert offsets(place, mine, topic, 2, "zookeeper") == offsets(place, mine, topic, 2, "kafka") == [10, 10]


def test_offsets_move_to_kafka_and_back(ours: Place) -> None:
    """The steps of Kafka's documentation: with dual commit, without, and the same back."""
    topic, mine = ours.topic(1), group()
    steps: list[dict[str, Any]] = [
        {},
        {"offsets_storage": "kafka", "dual_commit_enabled": True},
        {"offsets_storage": "kafka", "dual_commit_enabled": False},
        {"offsets_storage": "kafka", "dual_commit_enabled": True},
        {"offsets_storage": "zookeeper"},
    ]
    for step, settings in enumerate(steps):
        fill(ours, topic, 1, 3, start=3 * step)
        with Member(ours, mine, topic, **settings).join() as member:
            eventually("three more", lambda: len(member.consumed) == 3)
        assert [each.offset for each in member.consumed] == [3 * step, 3 * step + 1, 3 * step + 2]


def test_offsets_move_to_kafka_of_a_partition_to_which_nothing_comes(ours: Place) -> None:
    topic, mine = ours.topic(1), group()
    fill(ours, topic, 1, 3)
    with Member(ours, mine, topic).join() as member:
        eventually("three arrive", lambda: len(member.consumed) == 3)
    with Member(ours, mine, topic, offsets_storage="kafka", dual_commit_enabled=True).join():
        pass
    assert offsets(ours, mine, topic, 1, storage="kafka") == [3]
    with SimpleConsumer(HOST, ours.port) as writer:  # as if members with the former settings had gone on
        writer.commit_offsets(mine, {TopicPartition(topic, 0): 2})
    with Member(ours, mine, topic, offsets_storage="kafka", dual_commit_enabled=True).join():
        pass
    assert offsets(ours, mine, topic, 1) == [3]


def test_auto_commit(ours: Place) -> None:
    topic, mine = ours.topic(1), group()
    fill(ours, topic, 1, 4)
    with Member(ours, mine, topic, auto_commit_interval_ms=20).join() as member:
        eventually("all arrive", lambda: len(member.consumed) == 4)
        eventually("it is committed meanwhile", lambda: offsets(ours, mine, topic, 1) == [4])


@pytest.mark.parametrize(("reset", "first"), [("smallest", 0), ("largest", 3)])
def test_a_group_without_offsets(ours: Place, reset: str, first: int) -> None:
    topic, mine = ours.topic(1), group()
    fill(ours, topic, 1, 3)
    with Member(ours, mine, topic, auto_offset_reset=reset, auto_commit_interval_ms=10).join() as member:
        eventually("it has begun", lambda: offsets(ours, mine, topic, 1)[0] >= first)
        fill(ours, topic, 1, 1, start=3)
        eventually("it arrives", lambda: member.consumed and member.consumed[-1].offset == 3)
        assert member.consumed[0].offset == first


def test_an_offset_out_of_range(ours: Place) -> None:
    topic, mine = ours.topic(1), group()
    fill(ours, topic, 1, 3)
    with SimpleConsumer(HOST, ours.port) as writer:
        writer.commit_offsets(mine, {TopicPartition(topic, 0): 99})
    config = {**QUICK, "zookeeper.connect": ours.zookeeper, "group.id": mine, "auto.offset.reset": "error"}
    with Consumer.create(config) as connector:
        ((stream,),) = connector.create_message_streams({topic: 1}).values()
        with pytest.raises(OffsetOutOfRange):
            next(stream)
    with Member(ours, mine, topic).join() as member:
        eventually("it begins anew", lambda: len(member.consumed) == 3)


def test_decoders_and_timeouts(ours: Place) -> None:
    topic = ours.topic(1)
    config = {**QUICK, "zk.connect": ours.zookeeper, "groupid": group(), "consumer.timeout.ms": 300}
    with SyncProducer(HOST, ours.port) as producer, Consumer.create(config) as connector:
        producer.send(topic, [Message("ä".encode(), b"k"), Message(b"\xff"), Message(None)])
        found = connector.create_message_streams({topic: 1}, value_decoder=StringDecoder())
        (stream,) = found[topic]
        first, second, third = next(stream), next(stream), next(stream)
        assert (first.key, first.message, first.offset, first.topic) == (b"k", "ä", 0, topic)
        with pytest.raises(UnicodeDecodeError):
            _ = second.message
        assert third.message is None
        with pytest.raises(ConsumerTimeout, match="300 ms"):
            next(stream)
        producer.send(topic, [Message(b"after")])
        assert next(stream).message == "after"
        with pytest.raises(ClassicError, match="once"):
            connector.create_message_streams({topic: 1})
    assert list(stream) == []
    with pytest.raises(ConnectorClosed):
        connector.commit_offsets()


def test_what_is_owned_is_given_up_at_once(ours: Place) -> None:
    topic, mine = ours.topic(2), group()
    with Member(ours, mine, topic, zookeeper_session_timeout_ms=60_000).join() as first:
        assert first.partitions == {0, 1}
    with Member(ours, mine, topic).join() as second:
        assert second.partitions == {0, 1}, "claimed when the streams were there"


def test_a_session_that_is_over_is_followed_by_another(ours: Place) -> None:
    topic, mine = ours.topic(2), group()
    with Member(ours, mine, topic, auto_commit_interval_ms=20).join() as member:
        fill(ours, topic, 2, 3)
        eventually("all arrive", lambda: len(member.consumed) == 6)
        eventually("it is committed", lambda: offsets(ours, mine, topic, 2) == [3, 3])
        inner: Any = member.connector._member
        before = inner._tree.session_id
        _expire(ours.zookeeper, inner._tree)
        eventually("another session", lambda: inner._tree.session_id != before)
        eventually("it owns them again", lambda: _owned_in_tree(inner))
        fill(ours, topic, 2, 3, start=3)
        eventually("the rest arrives", lambda: len({each.value for each in member.consumed}) == 12)
    assert len(member.consumed) == 12


def _expire(servers: str, tree: Any) -> None:
    """Ends a session as a ZooKeeper server does that has not heard of it: another client with its id closes it."""
    twin = KazooClient(servers, client_id=tree._client.client_id)
    twin.start()
    twin.stop()
    twin.close()


def _owned_in_tree(member: Any) -> bool:
    from ottla.classic.loop import Loop
    from ottla.classic.registry import owner_path

    async def owners() -> list[Any]:
        found: list[Any] = await member._tree.get_many([owner_path(member.config.group_id, p) for p in member.owned])
        return found

    nodes = Loop().run(owners)
    return len(nodes) == 2 and all(node and node.stat.ephemeral_owner == member._tree.session_id for node in nodes)


PROGRAM = """
import sys
from ottla.classic import Consumer
settings = {"zk.connect": sys.argv[1], "groupid": sys.argv[2], "auto.offset.reset": "smallest"}
def start():
    return Consumer.create(settings).create_message_streams({sys.argv[3]: 1})[sys.argv[3]]
(stream,) = start()
for _ in range(3):
    next(stream)
"""


def test_the_end_of_the_interpreter_commits_what_was_consumed(ours: Place) -> None:
    """Also where nobody kept the connector."""
    topic, mine = ours.topic(1), group()
    fill(ours, topic, 1, 5)
    arguments = [sys.executable, "-c", PROGRAM, ours.zookeeper, mine, topic]
    done = subprocess.run(arguments, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert offsets(ours, mine, topic, 1) == [3]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "'group.id' is missing"),
        ({"group.id": "g"}, "'zookeeper.connect' is missing"),
        ({"groupid": "a/b", "zk.connect": "x"}, "without '/'"),
        ({"groupid": "a", "zk.connect": "x", "autooffset.reset": "first"}, "smallest or largest or error"),
        ({"groupid": "a", "zk.connect": "x", "offset.storage": "kafka"}, "did you mean offsets.storage?"),
        ({"groupid": "a", "zk.connect": "x", "auto.commit.enable": "yes"}, "is true or false, not 'yes'"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        Consumer.create(settings)
    assert text in str(raised.value)


def test_no_zookeeper(free_port: int) -> None:
    config = {"group.id": "g", "zookeeper.connect": f"{HOST}:{free_port}", "zookeeper.connection.timeout.ms": 50}
    with pytest.raises(Unavailable, match=f"no ZooKeeper server at {HOST}:{free_port}"):
        Consumer.create(config)


@pytest.mark.parametrize("make", [Consumer.create, Producer], ids=["consumer", "producer"])
def test_a_broker_where_a_zookeeper_is_named(ours: Place, make: Callable[[dict[str, Any]], Any]) -> None:
    config = {"zookeeper.connect": ours.bootstrap, "zookeeper.connection.timeout.ms": 50}
    told = f"a Kafka broker answers at {ours.bootstrap}, with its own protocol. Name ZooKeeper's port"
    with pytest.raises(Unavailable, match=told):
        make({"group.id": "g", **config} if make is not Producer else config)


def test_a_zookeeper_where_a_broker_is_named(ours: Place, zookeeper_server: str) -> None:
    _, _, port = zookeeper_server.rpartition(":")
    with SimpleConsumer(HOST, int(port)) as consumer, pytest.raises(OSError, match=r"or is it ZooKeeper's\?$") as told:
        consumer.get_offsets_before("t", 0, -1, 1)
    assert f"{HOST}:{port} closed the connection" in str(told.value)


def test_two_members_of_one_name(ours: Place) -> None:
    topic, mine = ours.topic(1), group()
    with Member(ours, mine, topic, consumer_id="same").join():
        second = Member(ours, mine, topic, consumer_id="same", zookeeper_session_timeout_ms=400)
        with pytest.raises(ClassicError, match=f"another member of group '{mine}' is {mine}_same"):
            second.join()
        with pytest.raises(ConnectorClosed):
            second.connector.commit_offsets()


def test_streams_and_filters_are_checked(ours: Place) -> None:
    config = {**QUICK, "zk.connect": ours.zookeeper, "groupid": group()}
    with Consumer.create(config) as connector:
        with pytest.raises(InvalidConfig, match="1 to 10000 streams, not 0"):
            connector.create_message_streams({"t": 0})
        with pytest.raises(TypeError, match="Whitelist or a Blacklist, not str"):
            connector.create_message_streams_by_filter("t.*")  # type: ignore[arg-type]
        with pytest.raises(InvalidConfig, match="not a regular expression"):
            Whitelist("(")
