"""`ottla group` against Apache's broker and ours; the groups are made by somebody else's client."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.client.blocking import BlockingConnection
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from .conftest import Ottla

TOPIC = "read"


@pytest.fixture(autouse=True, scope="module")
def produced(bootstrap: str) -> None:
    """Ten records in each of two partitions: record i has the time 1000 * i."""
    lines = b"".join(
        b'{"partition": %d, "timestamp": %d, "value": "v"}\n' % (partition, 1000 * i)
        for partition in range(2)
        for i in range(10)
    )
    command = [sys.executable, "-m", "ottla"]
    subprocess.run([*command, "topic", "create", TOPIC, "-p", "2", "-b", bootstrap], check=True)
    subprocess.run([*command, "produce", TOPIC, "--json", "-b", bootstrap], input=lines, check=True)


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})


def commit(bootstrap: str, group: str, *offsets: int) -> None:
    """An offset for each partition from 0 on."""
    own = consumer(bootstrap, group)
    own.commit(offsets=[TopicPartition(TOPIC, n, offset) for n, offset in enumerate(offsets)], asynchronous=False)
    own.close()


@contextmanager
def member(bootstrap: str, group: str) -> Iterator[Consumer]:
    """A consumer that has both partitions."""
    own = consumer(bootstrap, group)
    own.subscribe([TOPIC])
    try:
        while len(own.assignment()) < 2:
            own.poll(0.05)
        yield own
    finally:
        own.close()


def test_groups_are_listed_and_described(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    commit(bootstrap, "described", 3, 10)
    assert "described" in ottla("group", "list", "--names", *at).out.splitlines()
    head, *rows = [line.split() for line in ottla("group", "list", *at).out.splitlines()]
    assert head == ["group", "state", "protocol", "type"]
    assert ["described", "Empty"] in [row[:2] for row in rows]
    listed = {row["group"]: row["state"] for row in ottla("group", "list", "--json", *at).json}  # type: ignore[index]
    assert listed["described"] == "Empty"
    assert ottla("group", "describe", "described", *at).out == (
        "described: Empty, 0 members\n"
        "  topic  partition  committed  end  lag  member  host\n"
        "  read           0          3   10    7  -       -\n"
        "  read           1         10   10    0  -       -\n"
    )
    with member(bootstrap, "described"):
        assert ["described", "Stable", "consumer"] in [
            line.split() for line in ottla("group", "list", *at).out.splitlines()
        ]
        (found,) = ottla("group", "describe", "described", "--json", *at).json
    assert isinstance(found, dict)
    assert (found["state"], found["protocol_type"], found["protocol"]) == ("Stable", "consumer", "range")
    ((name, host),) = {(row["member"], row["host"]) for row in found["partitions"]}
    assert ([row["member"] for row in found["members"]], host) == ([name], "127.0.0.1")
    assert [(row["partition"], row["lag"]) for row in found["partitions"]] == [(0, 7), (1, 0)]


def test_offsets_are_reset(ottla: Ottla, bootstrap: str) -> None:
    def reset(*arguments: str) -> list[list[str]]:
        out = ottla("group", "reset", "reset", *arguments, "--yes", "-b", bootstrap).out
        rows = [line.split() for line in out.splitlines()[1:]]
        assert "--dry-run" in arguments or rows.pop() == ["set", "2", "offsets", "of", "group", "reset"]
        return rows

    assert "with --topic it is made" in ottla("group", "reset", "reset", "--to-latest", "-b", bootstrap, code=1).err
    assert reset("--to-earliest", "-t", TOPIC) == [["read", "0", "-", "0"], ["read", "1", "-", "0"]]
    assert reset("--to-offset", "4") == [["read", "0", "0", "4"], ["read", "1", "0", "4"]]
    assert reset("--shift-by", "3", "--dry-run") == [["read", "0", "4", "7"], ["read", "1", "4", "7"]]
    asked = ottla("group", "reset", "reset", "--shift-by", "-9", "-b", bootstrap, code=2)
    assert asked.out.splitlines()[1].split() == ["read", "0", "4", "0"]
    assert "2 offsets of group reset would be set, and nobody can be asked here" in asked.err
    assert reset("--shift-by", "-9") == [["read", "0", "4", "0"], ["read", "1", "4", "0"]]
    assert reset("--to-time", "4500") == [["read", "0", "0", "5"], ["read", "1", "0", "5"]]
    assert reset("--to-time", "1970-01-01T00:00:04.500+00:00") == [["read", "0", "5", "5"], ["read", "1", "5", "5"]]
    assert reset("--to-time", "99000") == [["read", "0", "5", "10"], ["read", "1", "5", "10"]]
    assert reset("--to-offset", "1000") == [["read", "0", "10", "10"], ["read", "1", "10", "10"]]
    assert ottla(
        "group", "reset", "reset", "-p", "1", "--to-offset", "9", "--dry-run", "-b", bootstrap
    ).out.splitlines()[1:] == ["read           1    10   9"]
    none = ottla("group", "reset", "reset", "-p", "7", "--to-latest", "-b", bootstrap, code=1)
    assert "there is no partition 7 in what group 'reset' reads" in none.err
    own = consumer(bootstrap, "reset")
    assert [place.offset for place in own.committed([TopicPartition(TOPIC, n) for n in range(2)], 30)] == [10, 10]
    own.close()
    with member(bootstrap, "reset"):
        refused = ottla("group", "reset", "reset", "--to-earliest", "-b", bootstrap, code=1)
        assert "has 1 member: stop them first" in refused.err
    assert "say where to" in ottla("group", "reset", "reset", "-b", bootstrap, code=2).err


def test_groups_are_deleted(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    commit(bootstrap, "deleted", 3, 4)
    asked = ottla("group", "delete", "deleted", *at, code=2)
    assert asked.out.splitlines()[1].split() == ["deleted", "Empty", "0", "2"]
    assert "nobody can be asked here" in asked.err
    shown = ottla("group", "delete", "deleted", "--dry-run", *at)
    assert (shown.out, shown.err) == (asked.out, "")
    assert ottla("group", "delete", "--yes", "deleted", "-t", TOPIC, *at).out == "deleted 2 offsets of group deleted\n"
    commit(bootstrap, "deleted", 3)
    with member(bootstrap, "deleted"):
        assert "(NON_EMPTY_GROUP)" in ottla("group", "delete", "--yes", "deleted", *at, code=1).err
    assert ottla("group", "delete", "--yes", "deleted", *at).out == "deleted group deleted\n"
    assert "(GROUP_ID_NOT_FOUND)" in ottla("group", "delete", "--yes", "deleted", *at, code=1).err
    assert "(GROUP_ID_NOT_FOUND)" in ottla("group", "describe", "deleted", *at, code=1).err


def test_offsets_of_the_tree_are_migrated_once(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    assert "no offsets in the coordination tree" in ottla("group", "migrate", "old", *at, code=1).err
    host, port = bootstrap.split(":")
    rows = [OffsetCommitRequestPartition(0, 3), OffsetCommitRequestPartition(1, 5)]
    request = OffsetCommitRequest("old", topics=[OffsetCommitRequestTopic(TOPIC, rows)])
    with BlockingConnection.connect(host, int(port)) as connection:
        answer = connection.call(OFFSET_COMMIT, request, 0)
        assert [row.error_code for row in answer.topics[0].partitions] == [0, 0]
    commit(bootstrap, "old", 7)  # it has gone on since, in one of them

    def migrate(*options: str) -> list[list[str]]:
        return [line.split() for line in ottla("group", "migrate", "old", *options, *at).out.splitlines()[1:]]

    once = [["read", "0", "7", "kept"], ["read", "1", "5", "copied"]]
    assert migrate("--dry-run") == once
    assert migrate() == once
    assert migrate() == [["read", "0", "7", "kept"], ["read", "1", "5", "kept"]]
    assert "1 offset of group old would be overwritten" in ottla("group", "migrate", "old", "--force", *at, code=2).err
    assert migrate("--force", "--yes") == [["read", "0", "3", "copied"], ["read", "1", "5", "copied"]]
    (found,) = ottla("group", "describe", "old", "--json", *at).json
    assert [row["committed"] for row in found["partitions"]] == [3, 5]  # type: ignore[index]
