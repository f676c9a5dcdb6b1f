"""Five partitions in each of many topics, on each of three brokers: the controller, which leads a third of them, is
killed, and comes back. No loop stands still meanwhile, and the new controller has soon told everybody.

A step of a loop is measured by the processor time of its thread, so that a loaded machine matters little. It does all
the same (neighbours empty the caches): what was too slow is tried once more, and a fault of the broker's repeats.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from tests.cluster.asking import client
from tests.cluster.kinds import OTTLA
from tests.cluster.stand import Cluster, Member, OttlaMember
from tests.support.waiting import eventually
from tests.support.watched_broker import Step, steps

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]

PARTITIONS = 5
#: In one CreateTopics.
AT_ONCE = 100
STEP_MS_MAX = 20.0
#: From the election until every broker tells clients of the new leaders. A figure: how long it takes is the machine's
#: too, which does the work of three brokers meanwhile.
TOLD_S_WANTED = 1.0
#: The function that serves: the work of a broker before it is not counted.
STARTS = "ottla.broker.serve._serve"


@pytest.mark.judge
def test_four_hundred_topics(tmp_path: Path) -> None:
    with whole(tmp_path, 400, watched=True) as cluster:
        one_round(cluster, 400)


@pytest.mark.soak
def test_no_step_is_long_with_a_thousand_topics(tmp_path: Path) -> None:
    """It has the machine for itself, so that steps have a bound here. One round may be disturbed."""
    with whole(tmp_path, 1000, watched=True) as cluster:
        first = one_round(cluster, 1000)
        if first:
            again = one_round(cluster, 1000)
            assert not {what: [step, again[what]] for what, step in first.items() if what in again}


@pytest.mark.soak
def test_everybody_is_told_of_a_thousand_topics(tmp_path: Path) -> None:
    """The same without the watch of steps, which takes a tenth of the time: the figure that is to be looked at."""
    with whole(tmp_path, 1000) as cluster:
        one_round(cluster, 1000)


@contextmanager
def whole(tmp_path: Path, topics: int, *, watched: bool = False) -> Iterator[Cluster]:
    """A cluster with so many topics, all of whose replicas are in sync."""
    with Cluster(tmp_path, OTTLA, watched=watched, settings={"replica.lag.time.max.ms": 10_000}) as cluster:
        create(cluster, topics)
        cluster_is_whole(cluster, topics)
        yield cluster


def one_round(cluster: Cluster, topics: int) -> dict[str, tuple[str, Step]]:
    """The steps that took too long, by what they were, if steps are watched."""
    controller, _ = cluster.observer.controller()
    old = cluster.broker(controller)
    killed = time.monotonic()
    old.kill()
    new, _ = cluster.another_controls(than=controller)
    elected, processor_s = time.monotonic(), processor_time(cluster.broker(new))
    live = [member for member in cluster.brokers if member.running]
    for member in live:
        eventually(
            f"{member.name} knows who leads",
            lambda member=member: leads_no_more(member, cluster, controller),
        )
    told_s = time.monotonic() - elected
    told_processor_s = processor_time(cluster.broker(new)) - processor_s
    for member in live:
        known = partitions(cluster, member)
        assert len(known) == topics * PARTITIONS
        assert all(leader in (1, 2, 3) and leader != controller for leader, _ in known.values())
    old.start()
    cluster_is_whole(cluster, topics)
    slow: dict[str, tuple[str, Step]] = {}
    for member in cluster.brokers:
        assert isinstance(member, OttlaMember)
        if member.steps is None:
            continue
        longest = [step for step in steps(member.steps, since=killed) if STARTS not in step.what]
        print(f"figures: {member.name}: {longest[:3]}")
        slow |= {kind(step): (member.name, step) for step in longest if step.processor_ms > STEP_MS_MAX}
    print(
        f"figures: with {topics * PARTITIONS} partitions, broker {new} had told everybody {told_s:.2f} s after its "
        f"election ({TOLD_S_WANTED} wanted), and its loop took {told_processor_s:.2f} s of a processor"
    )
    return slow


def kind(step: Step) -> str:
    return step.what.partition(",")[0]


def processor_time(member: Member) -> float:
    """Seconds of a processor that the broker's loop has used: it runs on the main thread."""
    pid = member.server.pid
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create(cluster: Cluster, topics: int) -> None:
    controller, _ = cluster.observer.controller()
    with client(cluster, cluster.broker(controller)) as connection:
        for first in range(0, topics, AT_ONCE):
            rows = [
                CreatableTopic(name=name(number), num_partitions=PARTITIONS, replication_factor=3)
                for number in range(first, min(first + AT_ONCE, topics))
            ]
            answer = connection.call(CREATE_TOPICS, CreateTopicsRequest(topics=rows, timeout_ms=60_000))
            assert {row.error_code for row in answer.topics} == {0}


def name(number: int) -> str:
    return f"topic-{number}"


def partitions(cluster: Cluster, member: Member, *topics: str) -> dict[tuple[str, int], tuple[int, int]]:
    """The partitions of these topics, or of all, as a broker tells clients of them: the leader of each and how many are
    in sync.
    """
    asked = [MetadataRequestTopic(name=topic) for topic in topics] or None
    with client(cluster, member) as connection:
        answer = connection.call(METADATA, MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {
        (topic.name, row.partition_index): (row.leader_id, len(row.isr_nodes))
        for topic in answer.topics
        for row in topic.partitions
    }


def leads_no_more(member: Member, cluster: Cluster, controller: int) -> bool:
    """True if a broker was told that others lead now. All topics are told of in one request."""
    leaders = {leader for leader, _ in partitions(cluster, member, name(0)).values()}
    return -1 not in leaders and controller not in leaders


def cluster_is_whole(cluster: Cluster, topics: int) -> None:
    """Waits until all replicas are in sync, as each broker tells it."""
    for member in cluster.brokers:

        def whole(member: Member = member) -> bool:
            known = partitions(cluster, member).values()
            return len(known) == topics * PARTITIONS and all(in_sync == 3 for _, in_sync in known)

        eventually(f"{member.name} says that all replicas are in sync", whole)
