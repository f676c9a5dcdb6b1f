"""Requests that name the same thing twice: Kafka puts most rows into maps, where the last one counts and is answered
once, answers others as often as they were named, and refuses some.

Fetch is in `records.fetch_limits`. Left out is Produce, where we answer each row: of two batches for one partition
Kafka drops the first, and tells the producer that it has both.
"""

from __future__ import annotations

from typing import Any

from tests.compat.conversations.common import (
    ADD_PARTITIONS,
    ALTER_CONFIGS,
    ALTER_QUOTAS,
    ALTER_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_REASSIGNMENTS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    TXN_OFFSET_COMMIT,
    batch,
    produce,
)
from tests.compat.talk import Talk


def twice_in_records(talk: Talk) -> None:
    """Topics and partitions where records are."""
    talk.topic("tr", 2)
    for index in (0, 1):
        produce(talk, "tr", batch(b"a", b"b", b"c"), partition=index)

    def ask(key: int, version: int, *rows: dict[str, Any], **fields: object) -> None:
        """With all rows in one topic, and with each in a topic of its own."""
        talk.ask(key, version, topics=[{"name": "tr", "partitions": list(rows)}], **fields)
        talk.ask(key, version, topics=[{"name": "tr", "partitions": [row]} for row in rows], **fields)

    other = {"partition_index": 1, "offset": 1}
    ask(DELETE_RECORDS, 2, {"partition_index": 0, "offset": 1}, {"partition_index": 0, "offset": 2}, other)
    ask(DELETE_RECORDS, 2, {"partition_index": 0, "offset": 3}, {"partition_index": 0, "offset": 9}, other)
    ask(DELETE_RECORDS, 2, {"partition_index": 7, "offset": 3}, {"partition_index": 7, "offset": 3})
    for version in (1, 5):
        times = [{"partition_index": 0, "timestamp": stamp} for stamp in (-1, -2)]
        ask(LIST_OFFSETS, version, *times, {"partition_index": 1, "timestamp": -1}, replica_id=-1)
    times = [{"partition_index": 0, "timestamp": stamp, "max_num_offsets": 1} for stamp in (-1, -2)]
    ask(LIST_OFFSETS, 0, *times, replica_id=-1)
    epochs = [{"partition_index": 0, "leader_epoch": epoch, "current_leader_epoch": -1} for epoch in (0, 5)]
    ask(OFFSET_FOR_LEADER_EPOCH, 3, *epochs, replica_id=-1)


def twice_in_topics(talk: Talk) -> None:
    talk.topic("tt", 2)
    row = {"name": "tt-new", "num_partitions": 1, "replication_factor": 1}
    talk.ask(CREATE_TOPICS, 5, topics=[row, {**row, "num_partitions": 2}, {**row, "name": "tt-x"}], timeout_ms=60_000)
    wanted = {"name": "tt", "count": 3}
    talk.ask(CREATE_PARTITIONS, 1, topics=[wanted, {**wanted, "count": 4}], timeout_ms=60_000)
    talk.ask(METADATA, 9, topics=[{"name": "tt"}, {"name": "tt"}])
    setting = {"name": "retention.ms", "value": "1"}
    row = {**row, "name": "tt-y", "configs": [setting, {**setting, "value": "2"}]}
    talk.ask(CREATE_TOPICS, 5, topics=[row], timeout_ms=60_000)
    talk.ask(ALTER_REASSIGNMENTS, 0, topics=_twice("tt", "partitions", {"partition_index": 0, "replicas": [1]}))
    talk.ask(LIST_REASSIGNMENTS, 0, topics=_twice("tt", "partition_indexes", 0))
    for topics in (_twice("tt", "partition_id", 0, name="topic"), _twice("none", "partition_id", 0, name="topic")):
        talk.ask(ELECT_LEADERS, 2, topic_partitions=topics, timeout_ms=60_000)
    talk.ask(DESCRIBE_LOG_DIRS, 2, topics=_twice("tt", "partition_index", 0, name="topic"))
    for path in ("/nowhere", "/elsewhere"):
        dirs = [{"path": path, "topics": _twice("tt", "partitions", 0)} for path in ("/nowhere", path)]
        talk.ask(ALTER_REPLICA_LOG_DIRS, 1, dirs=dirs)
    talk.ask(DELETE_TOPICS, 4, topic_names=["tt", "tt", "tt-no", "tt-no"], timeout_ms=60_000)


def twice_in_settings(talk: Talk) -> None:
    talk.topic("ts")
    shown = {"resource_type": 2, "resource_name": "ts", "configuration_keys": ["retention.ms", "segment.bytes"]}

    def ask(key: int, *rows: list[tuple], name: str = "ts") -> None:
        extra = {"config_operation": 0} if key == INCREMENTAL_ALTER_CONFIGS else {}
        resources = [
            {
                "resource_type": 2,
                "resource_name": name,
                "configs": [{"name": setting, "value": value, **extra} for setting, value in row],
            }
            for row in rows
        ]
        talk.ask(key, 1, resources=resources)
        talk.ask(DESCRIBE_CONFIGS, 1, resources=[shown])

    ask(ALTER_CONFIGS, [("retention.ms", "5"), ("retention.ms", "6")])
    ask(ALTER_CONFIGS, [("retention.ms", "x"), ("retention.ms", "7")])
    ask(ALTER_CONFIGS, [("retention.ms", "8"), ("retention.ms", "x")])
    ask(INCREMENTAL_ALTER_CONFIGS, [("retention.ms", "10")], [("segment.bytes", "3000")])
    ask(INCREMENTAL_ALTER_CONFIGS, [("retention.ms", "11")], [("retention.ms", "x")])
    ask(INCREMENTAL_ALTER_CONFIGS, [("retention.ms", "x")], [("retention.ms", "12")])
    ask(INCREMENTAL_ALTER_CONFIGS, [("retention.ms", "x")], [("retention.ms", "12")], name="none")
    rate = {"key": "producer_byte_rate", "value": 1000.0}
    entry = {"entity": [{"entity_type": "user", "entity_name": "ts"}], "ops": [rate]}
    for second in (rate, {**rate, "value": 5.0}, {**rate, "key": "no_such"}):
        talk.ask(ALTER_QUOTAS, 0, entries=[entry, {**entry, "ops": [second]}])
        talk.ask(ALTER_QUOTAS, 0, entries=[{**entry, "ops": [rate, second]}])
    twin = {"entity_type": "user", "entity_name": "ts-2"}
    talk.ask(ALTER_QUOTAS, 0, entries=[{"entity": [*entry["entity"], twin], "ops": [rate]}])


def twice_in_groups(talk: Talk) -> None:
    talk.topic("tg", 2)
    talk.coordinator("g-twice")
    rows = [{"partition_index": 0, "committed_offset": offset} for offset in (3, 4)]
    last = {"partition_index": 1, "committed_offset": 5}
    for version in (2, 8):
        for topics in (
            [{"name": "tg", "partitions": [*rows, last]}],
            [{"name": "tg", "partitions": [row]} for row in [*rows, last]],
            [{"name": "tg-no", "partitions": [row]} for row in rows],
        ):
            talk.ask(OFFSET_COMMIT, version, group_id="g-twice", topics=topics)
            for asked in (5, 7):
                talk.ask(OFFSET_FETCH, asked, group_id="g-twice", topics=_twice("tg", "partition_indexes", 0))
                talk.ask(OFFSET_FETCH, asked, group_id="g-twice", topics=None)
    talk.ask(DESCRIBE_GROUPS, 5, groups=["g-twice", "g-twice"])
    row = {"partition_index": 0}
    talk.ask(OFFSET_DELETE, 0, group_id="g-twice", topics=_twice("tg", "partitions", row))
    talk.ask(OFFSET_DELETE, 0, group_id="g-twice", topics=_twice("tg-no", "partitions", row))
    talk.ask(DELETE_GROUPS, 2, groups_names=["g-twice", "g-twice", "g-no", "g-no"])


def twice_in_transactions(talk: Talk) -> None:
    talk.topic("twx", 2)
    talk.coordinator("t-twice", 1)
    talk.coordinator("g-twice-t")
    who = talk.ask(INIT_PRODUCER_ID, 4, transactional_id="t-twice", transaction_timeout_ms=60_000)
    producer = {"transactional_id": "t-twice", "producer_id": who.producer_id, "producer_epoch": who.producer_epoch}
    for name in ("twx", "twx-no"):
        talk.ask(ADD_PARTITIONS, 1, **producer, topics=_twice(name, "partitions", 0))
    talk.ask(25, 1, **producer, group_id="g-twice-t")
    rows = [{"partition_index": 0, "committed_offset": offset} for offset in (3, 4)]
    for topics in (
        [{"name": "twx", "partitions": rows}],
        [{"name": "twx", "partitions": [row]} for row in rows],
        [{"name": "twx-no", "partitions": rows}],
    ):
        talk.ask(TXN_OFFSET_COMMIT, 3, **producer, group_id="g-twice-t", topics=topics)
    talk.ask(26, 1, **producer, committed=True)
    talk.unheard(
        OFFSET_FETCH,
        7,
        lambda answer: answer.topics and answer.topics[0].partitions[0].error_code == 0,
        group_id="g-twice-t",
        topics=None,
        require_stable=True,
    )
    talk.ask(OFFSET_FETCH, 7, group_id="g-twice-t", topics=None)


def _twice(topic: str, parts: str, row: object, *, name: str = "name") -> list[dict[str, Any]]:
    """A row twice in one topic, and the topic once more."""
    return [{name: topic, parts: [row, row]}, {name: topic, parts: [row]}]
