"""The contents of a release's directory, and all that clients see of it.

`python -m tests.directories.contents HOST:PORT` fills a new broker. The process ends in the middle of a transaction.
"""

import os
import sys
from typing import Any

from ottla.client.groups import Committed
from ottla.client.sync import Admin, Cluster, Consumer, Producer, TransactionalProducer
from ottla.kafka import EARLIEST, LATEST, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: A day of 2026, in milliseconds: records have times of their own.
BEGIN_MS = 1_780_000_000_000
#: Records of each topic stay, however long the directory is kept.
KEPT = {"retention.ms": "-1"}
#: What is left of its records depends on when they were compacted; their newest values do not.
COMPACTED = "latest"
TOPICS = {
    "codecs": (2, KEPT),
    "format-0.9.0": (1, {**KEPT, "message.format.version": "0.9.0"}),
    "format-0.10.2": (1, {**KEPT, "message.format.version": "0.10.2"}),
    "segments": (1, {**KEPT, "segment.bytes": "2000"}),
    COMPACTED: (1, {"cleanup.policy": "compact", "segment.bytes": "2000"}),
    "payments": (2, KEPT),
    "empty": (3, {**KEPT, "max.message.bytes": "123456"}),
}
GROUP, MEMBERS = "billing", "readers"
OPEN = "left-open"
PASSWORDS = {"anna": ("SCRAM-SHA-256",), "bert": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
#: Of brokers that open a directory that was kept for years: nothing in it is too old.
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.retention.minutes": 2**31 - 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2**31 - 1,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 2**31 - 1,
}


def fill(bootstrap: str) -> None:
    """Writes all of it. The transaction of `OPEN` is not ended: the caller is to end its process at once."""
    cluster = Cluster(bootstrap)
    admin = Admin(cluster)
    for name, (partitions, settings) in TOPICS.items():
        admin.create_topic(name, partitions, 1, settings)
    for codec in CODECS:
        with Producer(cluster, compression=codec) as producer:
            _send(producer, "codecs", codec, 20)
    with Producer(cluster, idempotent=False) as producer:
        for name in ("format-0.9.0", "format-0.10.2"):
            _send(producer, name, "old", 10, headers=False)
    with Producer(cluster, batch_bytes=500, linger_ms=0) as producer:
        _send(producer, "segments", "many", 100)
        for number in range(90):
            producer.send(COMPACTED, b"%d" % number if number < 85 else None, key=b"key-%d" % (number % 10))
    admin.delete_records({TopicPartition("segments", 0): 37})
    _transactions(cluster)
    admin.groups.commit(
        GROUP, {TopicPartition("codecs", index): Committed(7 + index, 0, f"note {index}") for index in (0, 1)}
    )
    with Consumer(cluster, group=MEMBERS, start="earliest", auto_commit=False) as consumer:
        consumer.subscribe(["codecs"])
        while len(consumer.positions) < 2 or sum(consumer.positions.values()) < 20:
            consumer.poll()
        consumer.commit({TopicPartition("codecs", 0): 11, TopicPartition("codecs", 1): 12})
    for user, mechanisms in PASSWORDS.items():
        admin.users.set_password(user, f"password of {user}", mechanisms)
    admin.alter_quotas({"user": "anna"}, {"producer_byte_rate": 1_000_000.0})
    left = TransactionalProducer(cluster, OPEN, transaction_timeout_ms=900_000)
    left.begin()
    left.send_and_wait("payments", b"nobody knows", key=b"open", partition=1, timestamp_ms=BEGIN_MS)
    with Producer(cluster) as producer:
        producer.send("payments", b"behind it", partition=1, timestamp_ms=BEGIN_MS)


def _send(producer: Producer, topic: str, key: str, count: int, *, headers: bool = True) -> None:
    for number in range(count):
        producer.send(
            topic,
            f"value {number} ".encode() * 3 if number % 7 else None,
            key=f"{key}-{number}".encode() if number % 5 else None,
            headers=[("number", b"%d" % number), ("none", None)] if headers and number % 3 == 0 else [],
            timestamp_ms=BEGIN_MS + number,
            partition=number % TOPICS[topic][0],
        )


def _transactions(cluster: Cluster) -> None:
    for name in ("committed", "aborted"):
        with TransactionalProducer(cluster, name) as producer:
            for turn in range(3):
                producer.begin()
                for partition in (0, 1):
                    producer.send("payments", f"{name} {turn}".encode(), partition=partition, timestamp_ms=BEGIN_MS)
                producer.send_offsets(GROUP, {TopicPartition("payments", 0): 100 * turn + len(name)})
                if name == "committed":
                    producer.commit()
                else:
                    producer.abort()


def seen(bootstrap: str) -> dict[str, Any]:
    """All that clients see of a broker's contents, as JSON has it."""
    with Cluster(bootstrap) as cluster:
        admin = Admin(cluster)
        topics = {topic.name: len(topic.partitions) for topic in admin.describe_topics() if not topic.internal}
        partitions = [
            TopicPartition(name, index) for name, count in topics.items() for index in range(count) if name != COMPACTED
        ]
        groups = sorted(each.group for each in admin.groups.listed())
        listed = admin.transactions.list_transactions()
        return {
            "topics": topics,
            "settings": {
                name: {each.name: each.value for each in admin.describe_settings(name) if each.source == 1}
                for name in topics
            },
            "records": {str(each): _records(cluster, each, read_committed=False) for each in partitions},
            "committed records": {str(each): _records(cluster, each, read_committed=True) for each in partitions},
            "latest": _latest(_records(cluster, TopicPartition(COMPACTED, 0), read_committed=False)),
            "groups": {group: admin.groups.describe(group).state for group in groups},
            "offsets": {
                group: {
                    str(partition): [found.offset, found.leader_epoch, found.metadata]
                    for partition, found in sorted(admin.groups.committed(group).items())
                }
                for group in groups
            },
            "transactions": {each.transactional_id: [each.producer_id, each.state] for each in listed},
            "users": {user: dict(sorted(mechanisms.items())) for user, mechanisms in admin.users.users().items()},
            "quotas": [[dict(each.entity), dict(each.limits)] for each in admin.describe_quotas()],
        }


def _records(cluster: Cluster, partition: TopicPartition, *, read_committed: bool) -> list[list[Any]]:
    end = Admin(cluster).list_offsets({partition: LATEST}, read_committed=read_committed)[partition].offset
    found: list[list[Any]] = []
    with Consumer(cluster, read_committed=read_committed) as consumer:
        consumer.assign({partition: EARLIEST})
        while consumer.position(partition) < end:
            found += [
                [
                    record.offset,
                    record.timestamp_ms,
                    _text(record.key),
                    _text(record.value),
                    [[name, _text(value)] for name, value in record.headers],
                ]
                for record in consumer.poll()
            ]
    return found


def _latest(records: list[list[Any]]) -> dict[str, Any]:
    """The newest values by key, which a compacted log keeps."""
    newest = {key: value for _, _, key, value, _ in records}
    return {key: value for key, value in sorted(newest.items()) if value is not None}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


if __name__ == "__main__":
    fill(sys.argv[1])
    # Without a word to the broker: nobody ends the transaction.
    os._exit(0)
