"""Disks that fail on purpose: the broker does what it does with a real one, and clients see it."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

import ottla
from ottla.embedded import BrokerFailed
from ottla.errors import StorageError
from tests.support.client import Client
from tests.support.faulty import connect, end, produced, rows
from tests.support.waiting import PATIENCE_S, eventually

FAILED = StorageError.code


def fetched(client: Client, topic: str = "t") -> int:
    """The error code of a Fetch; a broker whose last directory has failed may close the connection instead."""
    try:
        ((_, _, code),) = rows(client.fetch(topic), "partition_responses")
    except ConnectionError:
        return FAILED
    return code


def test_a_full_disk_refuses_records_and_the_broker_goes_on(broker: ottla.Broker, client: Client) -> None:
    before = end(broker)
    with broker.faults.add(disk="write", error="ENOSPC", topic="t", partition=0) as full:
        assert [produced(client), produced(client)] == [FAILED, FAILED]
        assert [produced(client, partition=1), produced(client, "u")] == [0, 0]
        assert full.hits == 2
        assert end(broker) == before
    assert produced(client) == 0
    assert end(broker) == before + 1
    assert broker.is_running


def test_some_operations_go_by_and_some_meet_it(broker: ottla.Broker, client: Client) -> None:
    fault = broker.faults.add(disk="write", error="ENOSPC", topic="t", after=1, times=2)
    assert [one.hits for one in broker.faults] == [0]
    assert [produced(client) for _ in range(4)] == [0, FAILED, FAILED, 0]
    assert fault.hits == 2
    assert len(broker.faults) == 0
    broker.faults.add(disk="write", error="ENOSPC")
    broker.faults.clear()
    assert produced(client) == 0


def test_hits_are_waited_for(broker: ottla.Broker) -> None:
    fault = broker.faults.add(disk="write", error="ENOSPC", topic="t", times=2)
    with pytest.raises(TimeoutError, match="<fault in each write of the disk, 0 hits>: 0 of 1 in 0 s"):
        fault.wait(timeout=0)

    def ask() -> None:
        with connect(broker) as client:
            for _ in range(2):
                produced(client)

    thread = threading.Thread(target=ask)
    thread.start()
    fault.wait(2)
    assert fault.hits == 2
    thread.join(PATIENCE_S)


def test_a_wait_for_hits_can_be_interrupted() -> None:
    program = """
import signal, threading
import ottla
with ottla.Broker() as broker:
    fault = broker.faults.add(disk="write", error="ENOSPC")
    threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
    try:
        fault.wait()
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_a_slow_disk_is_waited_for(broker: ottla.Broker, client: Client) -> None:
    with broker.faults.add(disk="write", delay=0.001, topic="t") as slow:
        assert produced(client) == 0
        assert slow.hits == 1


@pytest.mark.parametrize("operation", ["read", "sync"])
def test_a_disk_that_fails_ends_its_broker(operation: Any) -> None:
    broker = ottla.Broker({"log.flush.interval.messages": 1}).start()
    broker.create_topic("t")
    with connect(broker) as client:
        assert produced(client) == 0
        broker.faults.add(disk=operation, error="EIO", topic="t", times=1)
        assert (produced(client) if operation == "sync" else fetched(client)) == FAILED
    eventually("it has ended", lambda: not broker.is_running)
    with pytest.raises(BrokerFailed, match=f"no log directory can be used any more: .*: {operation} .*Input/output"):
        broker.create_topic("u")
    with broker, connect(broker) as client:
        assert fetched(client) == 0
        assert produced(client) == 0


def test_a_read_of_what_is_in_memory_meets_it_too(broker: ottla.Broker, client: Client) -> None:
    """A test cannot know what the kernel has in memory."""
    assert produced(client, "u") == 0
    with broker.faults.add(disk="read", delay=0.001, topic="u") as slow:
        assert fetched(client, "u") == 0
        assert slow.hits > 0


def test_others_lead_when_a_member_loses_its_disk() -> None:
    with ottla.Cluster(3) as cluster:
        cluster.create_topic("t")
        leader = cluster.leader("t")
        assert leader is not None
        with connect(leader) as client:
            assert produced(client) == 0
            leader.faults.add(disk="write", error="ENOSPC", topic="t")
            assert produced(client) == FAILED
        eventually("another leads", lambda: cluster.leader("t") not in (None, leader))
        other = cluster.leader("t")
        assert other is not None
        with connect(other) as client:
            eventually("it knows that it leads", lambda: produced(client) == 0)
        leader.faults.clear()
        eventually("it has ended", lambda: not leader.is_running)
        leader.start()
        eventually("all are in sync", lambda: len(cluster.in_sync("t")) == 3)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "an operation": (
        {"disk": "wriet", "error": "EIO"},
        "disk is 'wriet'; it may be 'read', 'write', 'sync'; did you mean write?",
    ),
    "an error": (
        {"disk": "write", "error": "ENOSPACE"},
        "no error of a disk is called 'ENOSPACE'; it may be EIO, ENOSPC, .*; did you mean ENOSPC?",
    ),
    "Kafka's": ({"disk": "write", "error": "KAFKA_STORAGE_ERROR"}, "no error of a disk is called"),
    "nothing": ({"disk": "write"}, "nothing would happen: say an error, a delay, or lost=True"),
    "two things": ({"disk": "sync", "error": "EIO", "lost": True}, "error and lost are given"),
    "a lost write": ({"disk": "write", "lost": True}, "a write cannot be lost: only an fsync can"),
    "a lost answer": ({"api": "Produce", "lost": True}, "lost is about an fsync: say disk='sync'"),
    "an API": ({"api": "Produce", "disk": "write", "error": "EIO"}, "api is about requests, and disk about none"),
    "a group": ({"group": "g", "disk": "write", "error": "EIO"}, "group is about requests"),
    "no answer": ({"answer": False, "disk": "write", "error": "EIO"}, "answer is about requests"),
    "a moment": ({"when": "after", "disk": "write", "error": "EIO"}, "when is about requests"),
    "a delay": ({"disk": "write", "delay": -1}, "delay is -1; it is a number of seconds, from 0 to 60"),
    "a number": ({"disk": "write", "error": "EIO", "times": 0}, "times is 0; it is at least 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_that_says_what_is_possible(broker: ottla.Broker, name: str) -> None:
    options, text = MISTAKES[name]
    with pytest.raises(ValueError, match=text.replace("?", r"\?")):
        broker.faults.add(**options)
    assert len(broker.faults) == 0
