"""A busy broker's life in miniature, and what a client and Kafka's tools can see of it.

Everything is done through confluent-kafka and Kafka's own tools: neither broker's code takes part in the judgement.
"""

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from worker import eventually

from tests.peers.apache import tool
from tests.peers.segments import cleaned_offset
from tests.support.waiting import PATIENCE_S

KAFKA = "2.7.2"
GROUP = "warehouse"
STATIC_MEMBER = "loader-1"
SESSION_TIMEOUT_MS = 1_800_000
#: Records of the transaction that is open all the time, and those behind them that nobody sees until it ends.
LEFT_OPEN, BEHIND_IT = 300, 500
SETTINGS = {
    "group.max.session.timeout.ms": SESSION_TIMEOUT_MS,
    "zookeeper.session.timeout.ms": 4000,
    "log.segment.bytes": 2 << 20,
    "log.cleaner.backoff.ms": 100,
    "log.retention.ms": -1,
    "group.initial.rebalance.delay.ms": 0,
}
SMALL_SEGMENTS = {"segment.bytes": "100000", "index.interval.bytes": "1024"}
TOPICS = {
    "bulk": (3, {}),
    "formats": (1, {**SMALL_SEGMENTS, "message.format.version": "0.9.0"}),
    "compacted": (2, {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    "payments": (2, {**SMALL_SEGMENTS, "max.message.bytes": "2000000"}),
}
#: message.format.version, and the magic that it stores
FORMATS = {"0.9.0": 0, "0.10.2": 1, "2.7": 2}


class Life:
    """Producers and consumers that stay connected while brokers come and go at one address."""

    def __init__(self, bootstrap: str, seed: int, bulk_bytes: int) -> None:
        self.bootstrap = bootstrap
        self.random = random.Random(seed)
        self.bulk_bytes = bulk_bytes
        self.rebalances: list[str] = []
        #: The offset that `payers` committed last: the transaction after it was aborted.
        self.paid = -1
        self._commits: list[str] = []
        self.member = Consumer(
            self._client(
                {
                    "group.id": GROUP,
                    "group.instance.id": STATIC_MEMBER,
                    "session.timeout.ms": SESSION_TIMEOUT_MS,
                    "max.poll.interval.ms": SESSION_TIMEOUT_MS,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "on_commit": self._committed,
                }
            )
        )
        self.open_transaction = self._producer({"transactional.id": "stays-open", "transaction.timeout.ms": 900_000})

    def _client(self, settings: dict[str, object]) -> dict[str, object]:
        return {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 2, **settings}

    def new_admin(self) -> AdminClient:
        """A new one each time: librdkafka's never asks a coordinator again that has restarted, of either kind."""
        return AdminClient(self._client({}))

    def _producer(self, settings: dict[str, object]) -> Producer:
        # Batches that fit into small segments.
        return Producer(
            self._client(
                {
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "batch.size": 16_384,
                    "on_delivery": _delivered,
                    **settings,
                }
            )
        )

    # --- what is done ---

    def fill(self) -> None:
        """Every kind of state that one broker can have."""
        admin = self.new_admin()
        for name, (partitions, config) in TOPICS.items():
            admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        self._bulk()
        self._formats()
        self._transactions()
        self._commit_and_stay(1000)

    def _bulk(self) -> None:
        block = self.random.randbytes(1 << 20)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = self._producer(
                {"compression.type": codec, "queue.buffering.max.kbytes": 1 << 18, "batch.size": 1_000_000}
            )
            for number in range(self.bulk_bytes // 5 // 10_000):
                start = self.random.randrange(len(block) - 10_000)
                value = block[start : start + 10_000]
                producer.produce("bulk", value, str(number), number % 3, headers={"codec": codec.encode()})
                producer.poll(0)
            assert producer.flush(120) == 0

    def produce_lines(self, topic: str, partitions: int, file: Path) -> None:
        """A new topic with the lines of a file, keyed by the first word of each."""
        admin = self.new_admin()
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
        producer = self._producer({"compression.type": "lz4"})
        for line in file.read_bytes().split(b"\n")[:-1]:
            producer.produce(topic, line, line.partition(b" ")[0])
            producer.poll(0)
        assert producer.flush(60) == 0

    def _formats(self) -> None:
        for version in FORMATS:
            self.alter("formats", "message.format.version", version)
            for codec in ("none", "gzip", "snappy"):
                self._small("formats", 0, 1000, codec)

    def _small(self, topic: str, partition: int, count: int, codec: str = "none", keys: int = 1 << 30) -> None:
        # What formats 0 and 1 have no place for is refused.
        producer = self._producer({"compression.type": codec, "enable.idempotence": topic != "formats"})
        for number in range(count):
            value = self.random.randbytes(100) if number % 50 else b""
            producer.produce(topic, value, str(self.random.randrange(keys)), partition)
        assert producer.flush(60) == 0

    def compact(self, is_cleaned: Callable[[str, int], bool]) -> None:
        """Half of a compacted topic is cleaned, the other half waits."""
        for partition in (0, 1):
            self._small("compacted", partition, 4000, keys=300)
            self._tombstones(partition)
            self._small("compacted", partition, 2000, keys=300)
        for partition in (0, 1):
            assert eventually(lambda index=partition: str(is_cleaned("compacted", index)), "True", 60) == "True"
        self.alter("compacted", "min.cleanable.dirty.ratio", "1.0")
        for partition in (0, 1):
            self._small("compacted", partition, 3000, keys=300)

    def _tombstones(self, partition: int) -> None:
        producer = self._producer({})
        for number in range(20):
            producer.produce("compacted", None, str(number), partition)
        assert producer.flush(60) == 0

    def _transactions(self) -> None:
        producer = self._producer({"transactional.id": "payer"})
        producer.init_transactions(60)
        for number in range(9):
            producer.begin_transaction()
            for partition in (0, 1):
                for _ in range(200):
                    producer.produce("payments", self.random.randbytes(100), str(number), partition)
            offsets = [TopicPartition("bulk", 0, 10 + number)]
            producer.send_offsets_to_transaction(offsets, self._outsider("payers"), 60)
            if number % 3 == 2:
                producer.flush(60)
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                self.paid = offsets[0].offset
        self._wait_for_markers(committed=6 * 200)
        self.open_transaction.init_transactions(60)
        self.open_transaction.begin_transaction()
        for number in range(LEFT_OPEN):
            self.open_transaction.produce("payments", b"open", str(number), number % 2)
        assert self.open_transaction.flush(60) == 0
        self._small("payments", 0, BEHIND_IT)

    def _wait_for_markers(self, committed: int) -> None:
        """EndTxn is answered before the markers are written: until then what readers see still changes."""

        def counts() -> str:
            return str([count for count, _, _ in self.records("payments", 2, "read_committed")])

        assert eventually(counts, str([committed, committed]), 60) == str([committed, committed])

    def _outsider(self, group: str) -> object:
        return Consumer(self._client({"group.id": group})).consumer_group_metadata()

    def _commit_and_stay(self, offset: int) -> None:
        self.member.subscribe(["bulk"], on_assign=lambda _, given: self.rebalances.append(f"assigned {len(given)}"))
        assert eventually(lambda: str(self.member.poll(1.0) is not None), "True", 60) == "True"
        self.commit(offset)

    def commit(self, offset: int) -> None:
        """As the static member that never left: refused if anybody rebalanced the group meanwhile."""
        offsets = [TopicPartition("bulk", partition, offset, metadata=f"at {offset}") for partition in range(3)]
        self._commits.clear()
        self.member.commit(offsets=offsets, asynchronous=True)
        deadline = time.monotonic() + PATIENCE_S
        while not self._commits and time.monotonic() < deadline:
            self.member.poll(0.1)
        assert self._commits == ["committed"], self._commits

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._commits.append("committed" if error is None else str(error))

    def end_transaction(self) -> None:
        """Commits what was begun before the brokers changed."""
        self.open_transaction.commit_transaction(60)

    def alter(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self.new_admin()
        admin.incremental_alter_configs([resource])[resource].result()

    def close(self) -> None:
        self.member.close()

    # --- what can be seen ---

    def expected(self) -> dict[str, object]:
        """As `seen`, from the broker that was filled; but committed offsets of a transaction are as they were sent:
        Kafka 2.7.2 may tell one whose transaction was aborted, until it has loaded its group again.
        """
        seen = self.seen()
        told = seen["offsets payers"]
        assert isinstance(told, list)
        return {**seen, "offsets payers": [(*place, self.paid, metadata) for *place, _, metadata in told]}

    def seen(self) -> dict[str, object]:
        """Every record in both isolation levels, committed offsets, members of groups and settings of topics."""
        records = {
            f"{topic} {isolation}": self.records(topic, partitions, isolation)
            for topic, (partitions, _) in TOPICS.items()
            for isolation in ("read_committed", "read_uncommitted")
        }
        return {**records, **self._groups(), **{f"config {topic}": self._config(topic) for topic in TOPICS}}

    def records(self, topic: str, partitions: int, isolation: str) -> list[tuple[int, int, str]]:
        """For each partition: number of records, the offset after the last one, and a digest of all they hold."""
        consumer = Consumer(
            self._client(
                {
                    "group.id": "reader",
                    # The end is told by an answer without records.
                    "fetch.wait.max.ms": 10,
                    "isolation.level": isolation,
                    "enable.partition.eof": True,
                    "enable.auto.commit": False,
                }
            )
        )
        try:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
            digests = [hashlib.sha256() for _ in range(partitions)]
            counts: Counter[int] = Counter()
            ends: dict[int, int] = {}
            for message in _until_ends(consumer, partitions, ends):
                counts[message.partition()] += 1
                what = (message.offset(), message.timestamp(), message.key(), message.value(), message.headers())
                digests[message.partition()].update(repr(what).encode())
            return [(counts[index], ends[index], digests[index].hexdigest()) for index in range(partitions)]
        finally:
            consumer.close()

    def _groups(self) -> dict[str, object]:
        seen: dict[str, object] = {}
        asked = [TopicPartition(topic, index) for topic, (count, _) in TOPICS.items() for index in range(count)]
        for group in (GROUP, "payers"):
            # A consumer, since librdkafka's admin ends the process when it asks a broker that is not the coordinator
            # yet (librdkafka 5040). Offsets of open transactions are not waited for.
            onlooker = Consumer(self._client({"group.id": group, "isolation.level": "read_uncommitted"}))
            places = onlooker.committed(asked, PATIENCE_S)
            onlooker.close()
            seen[f"offsets {group}"] = sorted(
                (each.topic, each.partition, each.offset, each.metadata)
                for each in places
                if each.offset != OFFSET_INVALID
            )
            assert seen[f"offsets {group}"], group
            admin = self.new_admin()
            described = admin.describe_consumer_groups([group])[group].result()
            members = sorted((member.group_instance_id, member.member_id) for member in described.members)
            seen[f"group {group}"] = (described.state.name, described.partition_assignor, members)
        return seen

    def _config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = self.new_admin()
        entries = admin.describe_configs([resource])[resource].result().values()
        return {entry.name: f"{entry.value} from {entry.source}" for entry in entries}


def _delivered(error: KafkaError | None, _: Message) -> None:
    assert error is None, error


def _until_ends(consumer: Consumer, partitions: int, ends: dict[int, int]) -> Iterator[Message]:
    silent_since = time.monotonic()
    while len(ends) < partitions:
        messages = consumer.consume(10_000, timeout=0.1)
        if messages:
            silent_since = time.monotonic()
        assert time.monotonic() < silent_since + PATIENCE_S, f"nothing more came, and only {ends} are read"
        for message in messages:
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends[message.partition()] = message.offset()


# --- what lies on the disks ---


def segments(directories: list[Path]) -> dict[str, str]:
    """Digest of every segment's records, by folder and name, wherever it lies."""
    return {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for directory in directories
        for file in sorted(directory.glob("*/*.log"))
    }


def files(directories: list[Path], *patterns: str) -> list[Path]:
    return sorted(file for directory in directories for pattern in patterns for file in directory.glob(f"*/{pattern}"))


def dumped(paths: list[Path]) -> str:
    """The output of Kafka's tool for files, without their folders' paths."""
    printed = tool(KAFKA, "dump-log", "--deep-iteration", "--files", ",".join(map(str, paths)), timeout_s=300)
    for directory in {path.parent.parent for path in paths}:
        printed = printed.replace(str(directory), "")
    return printed


def producers(directories: list[Path]) -> dict[str, str]:
    """Every partition's producers as Kafka's tool prints the newest snapshot."""
    newest = {path.parent.name: path for path in files(directories, "*.snapshot")}
    lines: dict[str, list[str]] = {}
    current = ""
    for line in tool(KAFKA, "dump-log", "--files", ",".join(map(str, newest.values()))).splitlines():
        if line.startswith("Dumping "):
            current = Path(line.removeprefix("Dumping ")).parent.name
        elif line.startswith("producerId"):
            lines.setdefault(current, []).append(line)
    return {name: "\n".join(sorted(found)) for name, found in lines.items()}


def magics(directories: list[Path], folder: str) -> list[int]:
    """The format of each segment's first batch, in the order of the segments."""
    found = sorted((path for path in files(directories, "*.log") if path.parent.name == folder), key=lambda it: it.name)
    return [path.read_bytes()[16] for path in found if path.stat().st_size > 16]


def is_cleaned(directories: list[Path], topic: str, partition: int) -> bool:
    """True if a cleaner has been at a partition, in whichever directory it is."""
    return any(cleaned_offset(directory, topic, partition) > 0 for directory in directories)
