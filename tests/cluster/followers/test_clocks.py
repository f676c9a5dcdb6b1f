"""Brokers whose clocks differ by hours, each of which leads and coordinates once: nothing is lost, deleted or forgotten
too early, and groups and transactions go on with what the broker before them wrote down by its own clock.
"""

import itertools
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.bank import STATE
from tests.cluster.clocks import need_clocks
from tests.cluster.replicas import logs_equal, partitions
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.cluster.workers import PARTITIONS, Book, Worker, facts, whole
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support import group_client, transactions
from tests.support.client import batch
from tests.support.waiting import PATIENCE_S, eventually, still

module("clients", "confluent_kafka")
need_clocks()
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.judge]
HOUR_S, HOUR_MS = 3600, 3_600_000
AHEAD_S = {2: HOUR_S, 3: -HOUR_S}
#: In the order in which they lead and coordinate: each has another clock than the one before.
ORDER = (1, 2, 3, 1)
#: Longer than any two clocks differ.
KEPT_MS = 3 * HOUR_MS
OFFSETS = "__consumer_offsets"
CLUSTER = {
    "ahead_s": AHEAD_S,
    "settings": {
        "log.retention.ms": KEPT_MS,
        "log.retention.check.interval.ms": 500,
        "offsets.retention.minutes": KEPT_MS // 60_000,
        "offsets.retention.check.interval.ms": 500,
        "transaction.max.timeout.ms": KEPT_MS,
        "log.segment.bytes": 10_000,
    },
}
LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def pairs() -> list[tuple[int, int]]:
    """The broker that leads or coordinates, and the one that takes over from it."""
    return [*itertools.pairwise(ORDER)]


def replicas(old: int, new: int) -> list[int]:
    return [old, new, 6 - old - new]


def says_nothing(cluster: Cluster) -> None:
    """No broker complains."""
    for member in cluster.brokers:
        output = member.server.output()
        assert "ERROR" not in output
        assert "Traceback" not in output


def test_the_clocks_differ(cluster: Cluster) -> None:
    """Brokers stamp records by their own clocks."""
    said = []
    with Round(cluster, settings.seed(), copies=False) as load:
        for member in cluster.brokers:
            others = [other.id for other in cluster.brokers if other is not member]
            topic = load.another_topic(f"stamped-{member.id}", [member.id, *others], LOG_APPEND_TIME)
            with asking.client(cluster, member) as client:
                ((row,),) = [one.partitions for one in client.produce(topic, batch(b"when")).responses]
                said.append(row.log_append_time_ms)
        load.finish()
    now_ms, ahead_ms, behind_ms = said
    assert ahead_ms - now_ms > HOUR_MS / 2
    assert now_ms - behind_ms > HOUR_MS / 2


@pytest.mark.parametrize("stamp", ["CreateTime", "LogAppendTime"])
def test_each_leads_once_and_nothing_is_deleted(cluster: Cluster, stamp: str) -> None:
    with (
        Round(
            cluster, settings.seed(), copies=False, led_by=ORDER[0], config={"message.timestamp.type": stamp}
        ) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        for old, new in pairs():
            leader = cluster.broker(old)
            asking.elect_first_of(cluster, load.topics, replicas(old, new))
            load.writes(300)
            leader.kill()
            state = cluster.led_by_another(load.plain, 0, than=old)
            assert state.leader == new
            load.writes(300)
            leader.start()
            cluster.all_in_sync(*load.topics)
        load.finish()
    assert set(chronicle.leaders((load.plain, 0))) == {1, 2, 3}
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=3600)
    logs_equal(cluster.directories, *load.topics)
    for copies in partitions(cluster.directories, load.plain).values():
        for folder in copies:
            # The first of several: retention looks at all but the newest one.
            segments = sorted(int(path.stem) for path in folder.glob("*.log"))
            assert segments[0] == 0
            assert len(segments) > 2
    says_nothing(cluster)


def hands_over(cluster: Cluster, topic: str, old: int, new: int, name: str, kind: int) -> None:
    """Makes one broker the coordinator, and another the one after it."""
    asking.elect_first_of(cluster, [topic], replicas(old, new))
    asking.comes_to(cluster, name, kind, cluster.broker(old))


def commits(book: Book, workers: Sequence[Worker]) -> None:
    most = book.commits + 20
    eventually("offsets are committed", lambda: book.commits > most, facts=lambda: facts(workers))


def offsets(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """The offsets that the group has committed, by partition."""
    with asking.client(cluster, asking.coordinator(cluster, group, asking.GROUP)) as client:
        member = group_client.Member(client, group)
        return {partition: member.committed(topic, partition=partition)[0] for partition in range(PARTITIONS)}


def writes(cluster: Cluster, topic: str, name: str, producer: Any, value: bytes) -> None:
    """A record of a transaction, as soon as there is a leader for it."""

    def wrote() -> bool:
        with asking.client(cluster, cluster.leader(topic)) as client:
            return asking.wrote(client, topic, name, producer, value) == 0

    eventually(f"{value!r} is written", wrote)


def test_each_coordinates_a_group_once(cluster: Cluster) -> None:
    """The group goes on under each, and when all members are gone, what they committed is there."""
    group, seed, book = f"clocks-{time.monotonic_ns()}", settings.seed(), Book()
    asking.created(cluster, OFFSETS, group, asking.GROUP)
    with Round(cluster, seed, writers=1, copies=False) as load:
        topic = f"{load.prefix}committed"
        load.admin.create_topics([admin.NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
        workers = [Worker(f"worker-{number}", cluster, book, seed, group, topic) for number in range(2)]
        hands_over(cluster, OFFSETS, *pairs()[0], group, asking.GROUP)
        for worker in workers:
            worker.start()
        eventually("the group is whole", lambda: whole(workers, 0.0), facts=lambda: facts(workers))
        for old, new in pairs():
            hands_over(cluster, OFFSETS, old, new, group, asking.GROUP)
            commits(book, workers)
            cluster.broker(old).kill()
            killed = time.monotonic()
            eventually("the group is whole", lambda since=killed: whole(workers, since), facts=lambda: facts(workers))  # type: ignore[misc]
            asking.comes_to(cluster, group, asking.GROUP, cluster.broker(new))
            commits(book, workers)
            cluster.broker(old).start()
            cluster.all_in_sync(OFFSETS, *load.topics)
        for worker in workers:
            worker.ending.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        for old, new in pairs():
            hands_over(cluster, OFFSETS, old, new, group, asking.GROUP)
            last = {partition: book.floor(partition) for partition in range(PARTITIONS)}
            # Meanwhile the coordinator has looked for offsets that are too old, several times.
            assert still("what is committed", lambda: offsets(cluster, group, topic), 2.0) == last
        load.finish()
    assert book.wrong == []
    load.judge(at_least=20)
    says_nothing(cluster)


def test_each_coordinates_transactions_once(cluster: Cluster) -> None:
    """A transaction that may last longer than any two clocks differ goes on under the next coordinator. One that may
    not is aborted, as a whole, by a coordinator whose clock says that it was open for too long (as by Kafka's), and a
    new one begins.
    """
    with Round(cluster, settings.seed(), copies=False) as load:
        # What the test writes itself bears an old date.
        topic = load.another_topic("in-transactions", [3, 2, 1], {"retention.ms": "-1"})
        expected: list[bytes] = []
        for old, new in pairs():
            long, short = f"{load.prefix}{old}-{new}-long", f"{load.prefix}{old}-{new}-short"
            asking.created(cluster, STATE, long, asking.TRANSACTIONAL_ID)
            hands_over(cluster, STATE, old, new, long, asking.TRANSACTIONAL_ID)
            with asking.client(cluster, cluster.broker(old)) as client:
                lasting = transactions.init(client, long, timeout_ms=KEPT_MS)
                ending = transactions.init(client, short)
                for name, producer, value in ((long, lasting, b"long"), (short, ending, b"short")):
                    assert producer.error_code == 0
                    assert transactions.add(client, name, producer, 0, topic=topic) == [0]
                    writes(cluster, topic, name, producer, value)
            cluster.broker(old).kill()
            cluster.led_by_another(STATE, 0, than=old)
            cluster.led_by_another(STATE, 1, than=old)
            expected.append(b"long")
            with asking.client(cluster, cluster.broker(new)) as client:
                assert transactions.end(client, long, lasting) == 0
                if AHEAD_S.get(new, 0) > AHEAD_S.get(old, 0):
                    eventually(
                        "the other is aborted",
                        lambda: transactions.describe(client, short).transaction_state == "CompleteAbort",  # noqa: B023
                    )
                    assert asking.name_of(transactions.end(client, short, ending)) == "PRODUCER_FENCED"
                else:
                    assert transactions.end(client, short, ending) == 0
                    expected.append(b"short")
                again = transactions.init(client, short)
                assert transactions.add(client, short, again, 0, topic=topic) == [0]
                writes(cluster, topic, short, again, b"again")
                assert transactions.end(client, short, again) == 0
                expected.append(b"again")
            cluster.broker(old).start()
            cluster.all_in_sync(STATE, topic, *load.topics)
        load.writes()
        load.finish()
    assert sorted(asking.committed(cluster, topic)) == sorted(expected)
    assert asking.open_transactions(cluster, topic) == []
    load.judge(at_least=200)
    logs_equal(cluster.directories, *load.topics, topic, STATE)
    says_nothing(cluster)
