"""Topics: making, growing and deleting them, and Metadata."""

from __future__ import annotations

from tests.compat.conversations.common import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    METADATA,
)
from tests.compat.talk import Talk


def create(talk: Talk, version: int, *, validate_only: bool, **fields: object) -> None:
    row = {"name": "ct", "num_partitions": 1, "replication_factor": 1, **fields}
    talk.ask(CREATE_TOPICS, version, topics=[row], timeout_ms=60_000, validate_only=validate_only)


def create_topics(talk: Talk) -> None:
    talk.topic("ct-there")
    for version in range(1, 7):
        for only in (True, False):
            one = {"validate_only": only}
            for name in ("", ".", "..", "a b", "x" * 250, "ct-there", "__consumer_offsets", "ä"):
                create(talk, version, name=name, validate_only=True)
            create(talk, version, name="ct-there", **one)
            create(talk, version, num_partitions=0, **one)
            create(talk, version, num_partitions=-2, **one)
            create(talk, version, replication_factor=0, **one)
            create(talk, version, replication_factor=2, **one)
            create(talk, version, replication_factor=-2, **one)
        create(talk, version, num_partitions=-1, validate_only=True)
        create(talk, version, replication_factor=-1, validate_only=True)
        create(talk, version, num_partitions=-1, replication_factor=-1, validate_only=True)
    row = {"name": "ct-a", "num_partitions": 1, "replication_factor": 1}
    talk.ask(CREATE_TOPICS, 6, topics=[row, row, {**row, "name": "ct-b"}], timeout_ms=60_000)
    talk.ask(CREATE_TOPICS, 6, topics=[{**row, "name": "ct.c"}], timeout_ms=60_000)
    talk.ask(CREATE_TOPICS, 6, topics=[{**row, "name": "ct_c"}], timeout_ms=60_000)
    talk.ask(CREATE_TOPICS, 6, topics=[{**row, "name": "ct_c"}], timeout_ms=60_000, validate_only=True)
    talk.ask(
        CREATE_TOPICS,
        5,
        topics=[{**row, "name": "ct-d", "configs": [{"name": "retention.ms", "value": "77"}]}],
        timeout_ms=60_000,
    )
    talk.ask(CREATE_TOPICS, 6, topics=[], timeout_ms=60_000)
    talk.ask(CREATE_TOPICS, 6, topics=[{**row, "name": "ct-e"}], timeout_ms=0)
    talk.ask(CREATE_TOPICS, 0, topics=[{**row, "name": "ct-e"}], timeout_ms=-1)


def create_topics_on_brokers(talk: Talk) -> None:
    """With assignments."""
    for version in range(1, 7):
        for assigned in (
            {0: [1]},
            {0: [1], 1: [1]},
            {1: [1]},
            {0: [1], 2: [1]},
            {0: [1, 1]},
            {0: [9]},
            {0: [1, 9], 1: [1]},
        ):
            rows = [{"partition_index": index, "broker_ids": ids} for index, ids in assigned.items()]
            create(talk, version, num_partitions=-1, replication_factor=-1, assignments=rows, validate_only=True)
            create(talk, version, num_partitions=1, replication_factor=-1, assignments=rows, validate_only=True)
            create(talk, version, num_partitions=-1, replication_factor=1, assignments=rows, validate_only=True)
        twice = [{"partition_index": 0, "broker_ids": [1]}] * 2
        create(talk, version, num_partitions=-1, replication_factor=-1, assignments=twice, validate_only=True)


def create_topics_with_settings(talk: Talk) -> None:
    for version in range(1, 7):
        for name, value in (
            ("retention.ms", "-2"),
            ("retention.ms", "x"),
            ("retention.ms", ""),
            ("no.such", "1"),
            ("", "1"),
            ("cleanup.policy", "compact,delete"),
            ("cleanup.policy", "compact, delete"),
            ("cleanup.policy", "Compact"),
            ("cleanup.policy", ""),
            ("cleanup.policy", "x"),
            ("min.insync.replicas", "2"),
            ("min.insync.replicas", "0"),
            ("compression.type", "gzip"),
            ("compression.type", "GZIP"),
            ("message.format.version", "0.9.0"),
            ("message.format.version", "9.9"),
            ("segment.bytes", "13"),
            ("segment.bytes", " 14 "),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("min.cleanable.dirty.ratio", "0"),
            ("leader.replication.throttled.replicas", "0:1"),
            ("leader.replication.throttled.replicas", "x"),
            ("leader.replication.throttled.replicas", "*"),
            ("preallocate", "yes"),
            ("preallocate", "TRUE"),
            ("max.message.bytes", "2147483648"),
            ("message.timestamp.type", "logappendtime"),
            ("unclean.leader.election.enable", "true"),
        ):
            create(talk, version, configs=[{"name": name, "value": value}], validate_only=True)
        both = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
        create(talk, version, configs=both, validate_only=True)


def delete_topics(talk: Talk) -> None:
    talk.topic("dt")
    for version in range(6):
        talk.ask(DELETE_TOPICS, version, topic_names=["none"], timeout_ms=60_000)
        talk.ask(DELETE_TOPICS, version, topic_names=[], timeout_ms=60_000)
        talk.ask(DELETE_TOPICS, version, topic_names=["", "a b"], timeout_ms=60_000)
    talk.ask(DELETE_TOPICS, 5, topic_names=["dt", "dt", "none"], timeout_ms=60_000)
    talk.ask(METADATA, 8, topics=[{"name": "dt"}], allow_auto_topic_creation=False)


def create_partitions(talk: Talk) -> None:
    talk.topic("cp", 2)

    def grow(count: int, name: str = "cp", only: bool = True, **fields: object) -> None:
        for version in range(4):
            talk.ask(
                CREATE_PARTITIONS,
                version,
                topics=[{"name": name, "count": count, "assignments": None, **fields}],
                timeout_ms=60_000,
                validate_only=only,
            )

    for count in (-1, 0, 1, 2, 3):
        grow(count)
    grow(3, "none")
    grow(3, "a b")
    for assigned in ([], [[1]], [[1], [1]], [[]], [[9]], [[1, 1]], [[1, 9]]):
        grow(3, assignments=[{"broker_ids": ids} for ids in assigned])
    row = {"name": "cp", "count": 3, "assignments": None}
    talk.ask(CREATE_PARTITIONS, 3, topics=[row, row], timeout_ms=60_000, validate_only=True)
    talk.ask(CREATE_PARTITIONS, 3, topics=[row, row, {**row, "name": "none"}], timeout_ms=60_000)
    talk.ask(CREATE_PARTITIONS, 3, topics=[row], timeout_ms=60_000)
    talk.ask(CREATE_PARTITIONS, 3, topics=[row], timeout_ms=60_000)
    talk.ask(CREATE_PARTITIONS, 3, topics=[], timeout_ms=60_000)
    talk.ask(CREATE_PARTITIONS, 3, topics=[{**row, "count": 4}], timeout_ms=0)


def metadata(talk: Talk) -> None:
    talk.topic("me", 2)
    for version in range(10):
        for name in ("me", "none", "a b", "", "x" * 250, ".", "__consumer_offsets"):
            fields = {"allow_auto_topic_creation": False} if version >= 4 else {}
            if version >= 4 or name in ("me", "a b", "", "x" * 250, "."):
                talk.ask(METADATA, version, topics=[{"name": name}], **fields)
        talk.ask(METADATA, version, topics=[{"name": "me"}, {"name": "me"}])
        if version >= 1:
            talk.ask(METADATA, version, topics=[])
    talk.ask(
        METADATA,
        8,
        topics=[{"name": "me"}, {"name": "none"}],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    talk.ask(METADATA, 9, topics=[{"name": "me-made"}])
    talk.led("me-made")
    talk.ask(METADATA, 9, topics=[{"name": "me-made"}])
