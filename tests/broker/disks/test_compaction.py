"""Compacted topics on a real broker: what readers see, what is on disk, and what a kill leaves."""

import random

from ottla import _core
from ottla.log import verify
from tests.peers.ottla import Broker, Brokers
from tests.peers.segments import cleaned_offset
from tests.support.client import Client, connect

SETTINGS = {"log.cleaner.backoff.ms": 20, "log.retention.ms": -1, "log.cleaner.dedupe.buffer.size": 4 << 20}
#: Small segments that are cleaned as soon as one is closed.
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "4096",
    "min_cleanable_dirty_ratio": "0.01",
    "file_delete_delay_ms": "0",
    "delete_retention_ms": "0",
}


def batch(records: list[tuple[bytes, bytes | None]], **options: object) -> bytes:
    builder = _core.BatchBuilder(**options)  # type: ignore[arg-type]
    for key, value in records:
        builder.append(1_700_000_000_000, key, value)
    return builder.finish()


def read(client: Client, topic: str, offset: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every record from `offset` on."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    while True:
        ((row,),) = [topic.partition_responses for topic in client.fetch(topic, offset).responses]
        assert row.error_code == 0
        if not row.record_set:
            return found
        offset = _core.read_batches(row.record_set)[-1].last_offset + 1
        found += [(record.offset, record.key, record.value) for record in _core.RecordReader(row.record_set)]


def wait_cleaned(broker: Broker, topic: str, offset: int) -> None:
    broker.wait_until(lambda: cleaned_offset(broker.data, topic) >= offset, 60)


class Writer:
    """Writes random values to a few keys, and knows what they should be."""

    def __init__(self, topic: str, seed: int) -> None:
        self.topic = topic
        self.offset = 0
        self.last: dict[bytes, tuple[int, bytes | None]] = {}
        self._random = random.Random(seed)

    def write(self, client: Client, count: int, **options: object) -> None:
        for _ in range(count):
            records: list[tuple[bytes, bytes | None]] = []
            for _ in range(self._random.randrange(1, 6)):
                key = b"key-%d" % self._random.randrange(20)
                records.append(
                    (key, None if self._random.random() < 0.1 else self._random.randbytes(60).hex().encode())
                )
            codec = self._random.choice(["none", "none", "lz4", "zstd", "gzip", "snappy"])
            ((row,),) = [t.partitions for t in client.produce(self.topic, batch(records, compression=codec)).responses]
            assert (row.error_code, row.base_offset) == (0, self.offset)
            for key, value in records:
                self.last[key] = (self.offset, value)
                self.offset += 1

    def check(self, client: Client) -> int:
        """Every key has its last value, where it was written; returns how many records there are."""
        records = read(client, self.topic)
        last = {key: (offset, value) for offset, key, value in records}
        assert {key: row for key, row in last.items() if row[1] is not None} == {
            key: row for key, row in self.last.items() if row[1] is not None
        }
        assert [offset for offset, _, _ in records] == sorted({offset for offset, _, _ in records})
        return len(records)


def active_base(broker: Broker, topic: str) -> int:
    return max(int(path.stem) for path in (broker.data / f"{topic}-0").glob("*.log"))


def test_readers_find_the_last_value_of_each_key(brokers: Brokers) -> None:
    broker = brokers(settings=SETTINGS)
    with connect(broker) as client:
        client.create("states", **COMPACTED)
        client.create("kept", segment_bytes="4096")
        writer, other = Writer("states", 1), Writer("kept", 2)
        writer.write(client, 200)
        other.write(client, 50)
        wait_cleaned(broker, "states", active_base(broker, "states"))
        assert writer.check(client) < writer.offset / 2
        assert other.check(client) == other.offset, "who is not compacted keeps everything"
        # From the middle of what is gone reading goes on with what is left.
        assert read(client, "states", 5) == [row for row in read(client, "states") if row[0] >= 5]
    broker.stop()
    assert not list(broker.data.glob("*/*.cleaned"))
    assert not list(broker.data.glob("*/*.swap"))
    assert not verify(broker.data).damage


def test_a_killed_broker_goes_on_where_its_cleaning_was(brokers: Brokers) -> None:
    """Killed in the middle of cleanings, again and again."""
    broker = brokers(settings=SETTINGS)
    writer = Writer("states", 3)
    with connect(broker) as client:
        client.create("states", **COMPACTED)
    for _ in range(5):
        with connect(broker) as client:
            writer.write(client, 120)
            writer.check(client)
        broker.kill()
        broker = brokers.restart(broker, settings=SETTINGS)
    with connect(broker) as client:
        writer.check(client)
        writer.write(client, 50)
        wait_cleaned(broker, "states", active_base(broker, "states"))
        assert writer.check(client) < writer.offset / 2
    broker.stop()
    assert not verify(broker.data).damage


def test_a_topic_that_becomes_compacted_is_cleaned_and_one_that_is_deleted_leaves_nothing(brokers: Brokers) -> None:
    broker = brokers(settings=SETTINGS)
    with connect(broker) as client:
        client.create("later", **{**COMPACTED, "cleanup_policy": "delete"})
        writer = Writer("later", 4)
        writer.write(client, 100)
        assert writer.check(client) == writer.offset
        client.alter_topic("later", {"cleanup.policy": "compact"})
        wait_cleaned(broker, "later", active_base(broker, "later"))
        assert writer.check(client) < writer.offset / 2
        client.delete_topic("later")
        client.create("later", **COMPACTED)
        assert read(client, "later") == []
        assert cleaned_offset(broker.data, "later") == 0


def test_the_cleaner_can_be_reconfigured_and_switched_off(brokers: Brokers) -> None:
    broker = brokers(settings={**SETTINGS, "log.cleaner.enable": "false"})
    with connect(broker) as client:
        client.create("kept", **COMPACTED)
        writer = Writer("kept", 5)
        writer.write(client, 100)
    broker.stop()
    assert "compacted topics keep every record" in broker.output()
    # Slow: a byte a second. What changes while it runs takes effect.
    settings = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": 1}
    broker = brokers.restart(broker, settings=settings)
    with connect(broker) as client:
        assert writer.check(client) == writer.offset
        client.alter_broker("", {"log.cleaner.io.max.bytes.per.second": "1e9", "log.cleaner.threads": "2"})
        wait_cleaned(broker, "kept", active_base(broker, "kept"))
        assert writer.check(client) < writer.offset / 2
