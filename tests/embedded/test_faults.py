"""Faults on purpose, `broker.faults`: which requests meet them, and what their clients see."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from typing import Any

import pytest
import trio

import ottla
from ottla.errors import (
    CoordinatorNotAvailable,
    FetchSessionIdNotFound,
    GroupAuthorizationFailed,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
)
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from tests.support.client import Client, batch
from tests.support.faulty import asked_of_python, connect, end, produced, rows, served_alone
from tests.support.waiting import PATIENCE_S

NOT_LEADER = NotLeaderOrFollower.code


# --- which requests ---


def test_so_many_requests_fail_after_so_many(broker: ottla.Broker, client: Client) -> None:
    before = end(broker)
    fault = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="t", after=1, times=2)
    assert [produced(client) for _ in range(5)] == [0, NOT_LEADER, NOT_LEADER, 0, 0]
    assert end(broker) == before + 3
    assert fault.hits == 2
    assert len(broker.faults) == 0


def test_a_fault_lasts_until_it_is_removed(broker: ottla.Broker, client: Client) -> None:
    with broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER") as fault:
        assert [produced(client) for _ in range(5)] == [NOT_LEADER] * 5
    assert produced(client) == 0
    assert fault.hits == 5
    again = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
    assert [*broker.faults] == [again]
    again.remove()
    again.remove()
    assert produced(client) == 0
    for _ in range(2):
        broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
    broker.faults.clear()
    assert produced(client) == 0


def test_the_first_fault_that_is_due_meets_a_request(broker: ottla.Broker, client: Client) -> None:
    late = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", after=1)
    once = broker.faults.add("Produce", error="REQUEST_TIMED_OUT", times=1)
    never = broker.faults.add("Produce", error="KAFKA_STORAGE_ERROR")
    assert [produced(client) for _ in range(3)] == [RequestTimedOut.code, NOT_LEADER, NOT_LEADER]
    assert (late.hits, once.hits, never.hits) == (2, 1, 0)


def test_a_fault_meets_those_that_it_names(broker: ottla.Broker, client: Client) -> None:
    with broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="t", partition=1) as fault:
        assert [produced(client, "u"), produced(client, "t", 0), produced(client, "t", 1)] == [0, 0, NOT_LEADER]
        assert fault.hits == 1
    with (
        broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", client_id="other"),
        connect(broker, "other") as other,
    ):
        assert [produced(client), produced(other)] == [0, NOT_LEADER]
    with broker.faults.add("Heartbeat", error="GROUP_AUTHORIZATION_FAILED", group="g") as fault:
        codes = [client.call(HEARTBEAT, HeartbeatRequest(group_id=name)).error_code for name in ("g", "h")]
        assert codes[0] == GroupAuthorizationFailed.code != codes[1]
        assert fault.hits == 1
    with broker.faults.add("FindCoordinator", error="NOT_COORDINATOR", group="g"):
        found = [client.call(FIND_COORDINATOR, FindCoordinatorRequest("g", kind), 3).error_code for kind in (0, 1)]
        assert found[0] == NotCoordinator.code != found[1]


def test_other_rows_of_a_request_are_served(broker: ottla.Broker, client: Client) -> None:
    before = end(broker, partition=0), end(broker, partition=1)
    data = [PartitionProduceData(partition_index=number, records=batch(b"1")) for number in (0, 1)]
    request = ProduceRequest(None, -1, 60_000, [TopicProduceData("t", data)])
    with broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", partition=1):
        assert rows(client.call(PRODUCE, request, 8)) == [("t", 0, 0), ("t", 1, NOT_LEADER)]
    assert (end(broker, partition=0), end(broker, partition=1)) == (before[0] + 1, before[1])
    wanted = [ListOffsetsPartition(number, timestamp=-1) for number in (0, 1)]
    offsets = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", wanted)])
    with broker.faults.add("ListOffsets", error="LEADER_NOT_AVAILABLE", partition=0):
        answer = client.call(LIST_OFFSETS, offsets, 5)
        assert rows(answer) == [("t", 0, LeaderNotAvailable.code), ("t", 1, 0)]
        assert {row.partition_index: row.offset for row in answer.topics[0].partitions} == {0: -1, 1: before[1]}


def test_commits_of_other_partitions_are_stored(broker: ottla.Broker, client: Client) -> None:
    partitions = [OffsetCommitRequestPartition(number, committed_offset=7) for number in (0, 1)]
    request = OffsetCommitRequest(group_id="committing", topics=[OffsetCommitRequestTopic("t", partitions)])
    assert client.call(FIND_COORDINATOR, FindCoordinatorRequest("committing"), 3).error_code == 0
    with broker.faults.add("OffsetCommit", error="COORDINATOR_NOT_AVAILABLE", topic="t", partition=1):
        assert rows(client.call(OFFSET_COMMIT, request, 8)) == [("t", 0, 0), ("t", 1, CoordinatorNotAvailable.code)]
    stored = client.call(OFFSET_FETCH, OffsetFetchRequest("committing", None), 7)
    assert [(row.partition_index, row.committed_offset) for row in stored.topics[0].partitions] == [(0, 7)]
    # Who asks for all asks for this topic, too.
    with broker.faults.add("OffsetFetch", error="COORDINATOR_NOT_AVAILABLE", topic="t") as fault:
        answer = client.call(OFFSET_FETCH, OffsetFetchRequest("committing", None), 7)
        assert rows(answer) == [("t", 0, CoordinatorNotAvailable.code)]
        assert fault.hits == 1
    with broker.faults.add("OffsetFetch", error="NOT_COORDINATOR", group="committing"):
        answer = client.call(OFFSET_FETCH, OffsetFetchRequest("committing", None), 7)
        assert (answer.error_code, answer.topics) == (NotCoordinator.code, [])


def test_metadata_of_one_topic(broker: ottla.Broker, client: Client) -> None:
    topics = [MetadataRequestTopic("t"), MetadataRequestTopic("u")]
    for asked in (topics, None):
        with broker.faults.add("Metadata", error="LEADER_NOT_AVAILABLE", topic="t"):
            answer = client.call(METADATA, MetadataRequest(asked), 9)
            codes = {topic.name: topic.error_code for topic in answer.topics if topic.name in ("t", "u")}
            assert codes == {"t": LeaderNotAvailable.code, "u": 0}
            assert len(answer.brokers) == 1


def test_nothing_is_done_before_an_error_and_all_before_a_late_one(broker: ottla.Broker, client: Client) -> None:
    before = end(broker)
    with broker.faults.add("Produce", error="REQUEST_TIMED_OUT"):
        assert produced(client) == RequestTimedOut.code
    assert end(broker) == before
    with broker.faults.add("Produce", error="REQUEST_TIMED_OUT", when="after"):
        assert produced(client) == RequestTimedOut.code
    assert end(broker) == before + 1
    broker.create_topic("gone")
    request = DeleteTopicsRequest(topic_names=["gone"], timeout_ms=60_000)
    with broker.faults.add("DeleteTopics", error="REQUEST_TIMED_OUT", topic="gone"):
        assert client.call(DELETE_TOPICS, request).responses[0].error_code == RequestTimedOut.code
    assert (broker.data_dir / "gone-0").exists()
    with broker.faults.add("DeleteTopics", error="REQUEST_TIMED_OUT", topic="gone", when="after"):
        assert client.call(DELETE_TOPICS, request).responses[0].error_code == RequestTimedOut.code
    assert client.call(DELETE_TOPICS, request).responses[0].error_code == UnknownTopicOrPartition.code


def test_an_answer_that_is_encoded_once_may_get_an_error(broker: ottla.Broker, client: Client) -> None:
    request = HeartbeatRequest(group_id="nobody", generation_id=1, member_id="m")
    assert client.call(HEARTBEAT, request).error_code not in (0, NotCoordinator.code)
    with broker.faults.add("Heartbeat", error="NOT_COORDINATOR", when="after"):
        assert client.call(HEARTBEAT, request).error_code == NotCoordinator.code


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_without_an_answer_closes_the_connection(broker: ottla.Broker, when: Any) -> None:
    before = end(broker)
    with broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", when=when) as fault, connect(broker) as client:
        client.produce_silently("t", batch(b"1"))
        fault.wait(timeout=PATIENCE_S)
        with pytest.raises(ConnectionError):
            client.call(METADATA, MetadataRequest([]), 9)
    assert end(broker) == before + (when == "after")


# --- Fetch ---


def fetched(client: Client, session: tuple[int, int] = (0, -1), **topics: int) -> FetchResponse:
    """Fetches the partition 0 of each topic from an offset; nothing is waited for."""
    asked = [
        FetchTopic(topic, [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])
        for topic, offset in topics.items()
    ]
    session_id, epoch = session
    request = FetchRequest(replica_id=-1, session_id=session_id, session_epoch=epoch, topics=asked)
    return client.call(FETCH, request, 11)


def test_a_fetch_fails_for_one_topic(broker: ottla.Broker, client: Client) -> None:
    assert produced(client, "t") == produced(client, "u") == 0
    with broker.faults.add("Fetch", error="KAFKA_STORAGE_ERROR", topic="t", times=1):
        answer = fetched(client, t=0, u=0)
        assert rows(answer, "partition_responses") == [("t", 0, StorageError.code), ("u", 0, 0)]
        sizes = {topic.topic: len(topic.partition_responses[0].record_set) > 0 for topic in answer.responses}
        assert sizes == {"t": False, "u": True}
        assert rows(fetched(client, t=0, u=0), "partition_responses") == [("t", 0, 0), ("u", 0, 0)]


def test_a_fetch_fails_that_does_not_name_its_partitions(broker: ottla.Broker, client: Client) -> None:
    """In a session; and the client knows all that there is, so that nothing would be read."""
    ends = {"t": end(broker), "u": end(broker, "u")}
    session = fetched(client, (0, 0), **ends).session_id
    assert session != 0
    assert fetched(client, (session, 1)).responses == []
    with broker.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="u", partition=0) as fault:
        assert rows(fetched(client, (session, 2)), "partition_responses") == [("u", 0, NOT_LEADER)]
        assert fault.hits == 1
    with broker.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="other") as fault:
        assert [row for row in rows(fetched(client, (session, 3)), "partition_responses") if row[2]] == []
        assert fault.hits == 0
    with broker.faults.add("Fetch", error="FETCH_SESSION_ID_NOT_FOUND"):
        assert fetched(client, (session, 4)).error_code == FetchSessionIdNotFound.code


def test_a_fetch_that_waits_in_the_hub_is_answered_and_the_next_one_fails(broker: ottla.Broker, client: Client) -> None:
    broker.create_topic("waited")
    assert produced(client, "waited") == 0
    client.fetch("waited")
    answers: list[FetchResponse] = []

    def wait() -> None:
        answers.append(client.fetch("waited", 1, max_wait_ms=int(PATIENCE_S * 1000), min_bytes=1))

    thread = threading.Thread(target=wait)
    thread.start()
    with broker.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="waited"), connect(broker) as other:
        assert rows(other.fetch("waited", 1), "partition_responses") == [("waited", 0, NOT_LEADER)]
        assert produced(other, "waited") == 0
        thread.join(PATIENCE_S)
    assert len(answers) == 1


# --- leases ---


def test_leases_end_with_a_fault_and_come_back_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_LEASES", "on")
    asked = asked_of_python(monkeypatch)
    with ottla.Broker() as broker, connect(broker) as client:
        broker.create_topic("t")

        def are_back() -> None:
            for _ in range(1000):
                if served_alone(client, asked):
                    return
            pytest.fail("no Produce is served without Python")

        are_back()
        fault = broker.faults.add("Heartbeat", error="NOT_COORDINATOR")
        with broker.requests.recorded():
            assert not any(served_alone(client, asked) for _ in range(10))
            fault.remove()
            assert not any(served_alone(client, asked) for _ in range(10))
        are_back()
        broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
        assert produced(client) == NOT_LEADER
        are_back()
        broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="other")
        assert not any(served_alone(client, asked) for _ in range(10))
        broker.faults.clear()
        are_back()


# --- its life ---


def test_a_fault_may_be_waited_for(broker: ottla.Broker) -> None:
    fault = broker.faults.add("Metadata", error="LEADER_NOT_AVAILABLE")
    with pytest.raises(TimeoutError, match=r"fault in Metadata, 0 hits>: 0 of 1 in 0\.0 s"):
        fault.wait(timeout=0.0)

    def ask() -> None:
        with connect(broker) as client:
            for _ in range(2):
                client.call(METADATA, MetadataRequest(None), 9)

    thread = threading.Thread(target=ask)
    thread.start()
    fault.wait(2, timeout=PATIENCE_S)
    assert fault.hits == 2
    thread.join(PATIENCE_S)


@pytest.mark.trio
async def test_faults_in_a_program_with_a_loop(broker: ottla.Broker) -> None:
    def ask() -> int:
        with connect(broker) as client:
            return produced(client)

    with broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER") as fault:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, fault.wait)
            assert await trio.to_thread.run_sync(ask) == NOT_LEADER


def test_faults_hold_in_the_next_life_and_before_the_first() -> None:
    broker = ottla.Broker()
    fault = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="t")
    with broker:
        broker.create_topic("t")
        with connect(broker) as client:
            assert produced(client) == NOT_LEADER
        broker.restart()
        with connect(broker) as client:
            assert produced(client) == NOT_LEADER
        broker.kill()
        fault.remove()
        broker.start()
        with connect(broker) as client:
            assert produced(client) == 0
    assert fault.hits == 2


def test_members_of_a_cluster_have_faults_and_their_fetchers_do_not_meet_them() -> None:
    with ottla.Cluster(2) as cluster:
        cluster.create_topic("t")
        leader = cluster.leader("t")
        assert leader is not None
        with leader.requests.recorded() as seen, connect(leader) as client:
            with leader.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER") as fault:
                # Acknowledged by the other one, which fetches it.
                assert produced(client) == 0
                assert rows(client.fetch("t"), "partition_responses") == [("t", 0, NOT_LEADER)]
                assert fault.hits == 1
            assert {one.client_id for one in seen} == {"test"}
        assert sorted(cluster.in_sync("t")) == [1, 2]


def test_topics_can_be_created_whatever_fails(broker: ottla.Broker) -> None:
    for api in ("Metadata", "CreateTopics", "ApiVersions"):
        broker.faults.add(api, error="UNKNOWN_SERVER_ERROR")
    broker.create_topic("created")
    assert [fault.hits for fault in broker.faults] == [0, 0, 0]


def test_a_fork_has_no_faults() -> None:
    program = """
import os
import ottla
with ottla.Broker() as broker:
    child = os.fork()
    if not child:
        try:
            broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
        except ottla.embedded.NotRunning:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=PATIENCE_S)


# --- mistakes ---

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "an API": (
        {"api": "Prodcue", "error": "UNKNOWN_SERVER_ERROR"},
        "no API is called 'Prodcue'; did you mean Produce?",
    ),
    "an error": ({"api": "Produce", "error": "NOT_LEADER"}, "no error is called 'NOT_LEADER'; did you mean"),
    "no API": ({"error": "NOT_COORDINATOR"}, "an error needs the name of an API"),
    "nothing": ({"api": "Produce"}, "nothing would happen"),
    "a topic": (
        {"api": "Heartbeat", "error": "NOT_COORDINATOR", "topic": "t"},
        "Heartbeat names no topic; those that name one",
    ),
    "a partition": (
        {"api": "DeleteTopics", "error": "NOT_CONTROLLER", "partition": 1},
        "DeleteTopics names no partition",
    ),
    "a group": (
        {"api": "Produce", "error": "NOT_COORDINATOR", "group": "g"},
        "Produce names no group; those that name one are",
    ),
    "a moment": ({"api": "Produce", "error": "NOT_COORDINATOR", "when": "later"}, "when is 'later'; it may be"),
    "no time": ({"api": "Produce", "error": "NOT_COORDINATOR", "times": 0}, "times is 0; it is at least 1"),
    "a topic of any API": ({"topic": "t", "delay": 1}, "a topic needs the name of an API; those that name one are"),
    "two things": ({"api": "Produce", "answer": False, "close": "after"}, "answer=False and close are given: only one"),
    "a close": ({"api": "Produce", "close": "never"}, "close is 'never'; it may be 'before' or 'after'"),
    "two moments": ({"api": "Produce", "close": "before", "when": "after"}, "close says itself"),
    "a delay": ({"api": "Produce", "delay": -1}, "delay is -1; it is a number of seconds"),
    "no delay": ({"api": "Produce", "delay": math.nan}, "delay is nan; it is a number of seconds"),
    "for ever and later": (
        {"api": "Produce", "delay": 1, "answer": False},
        "an answer that never comes cannot be late",
    ),
    "a number": ({"api": "Produce", "error": "NOT_COORDINATOR", "after": -1}, "after is -1; it is the number"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_that_says_what_is_possible(broker: ottla.Broker, name: str) -> None:
    options, text = MISTAKES[name]
    with pytest.raises(ValueError, match=text.replace("?", r"\?")):
        broker.faults.add(**options)
    assert len(broker.faults) == 0
