"""A directory that Apache Kafka 2.7.2 has filled with everything: we run on it, then Kafka again, and nothing differs.

Three log directories; topics of all message formats and codecs; a compacted topic that is half cleaned; committed and
aborted transactions, and one that is open all the time; a static member that stays in its group while the brokers
change. Once every broker is stopped cleanly, once every broker is killed.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import takeover
from tests.compat.takeover import Life
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.kafka_on_our_disk import kill

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


class Place:
    """Three directories and an address, for one broker after the other."""

    def __init__(self, kafka: Apache, brokers: Brokers, zookeeper: str, folder: Path) -> None:
        self.directories = [folder / name for name in ("a", "b", "c")]
        self.port = free_port()
        self._kafka = kafka
        self._brokers = brokers
        self._zookeeper = zookeeper

    @property
    def _log_dirs(self) -> str:
        return ",".join(map(str, self.directories))

    def theirs(self) -> Kafka:
        settings = {**takeover.SETTINGS, "log.dirs": self._log_dirs}
        return self._kafka.broker(
            takeover.KAFKA, zookeeper=self._zookeeper, port=self.port, settings=settings, heap_mb=512
        )

    def ours(self) -> Broker:
        settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1, **takeover.SETTINGS}
        settings.update({"offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1})
        settings.update({"transaction.state.log.min.isr": 1})
        return self._brokers(
            broker_id=1,
            zookeeper=self._zookeeper,
            port=self.port,
            settings=settings,
            data=Path(self._log_dirs),
        )

    def end(self, broker: Broker | Kafka, is_killed: bool) -> None:
        if is_killed:
            kill(broker, self._zookeeper)
        else:
            broker.stop()


@pytest.fixture
def place(kafka: Apache, brokers: Brokers, zookeeper: str, tmp_path: Path) -> Place:
    return Place(kafka, brokers, zookeeper, tmp_path)


@pytest.fixture
def life(place: Place) -> Iterator[Life]:
    bulk_mb = int(os.environ.get("OTTLA_TAKEOVER_MB", "25"))
    life = Life(f"127.0.0.1:{place.port}", seed=27, bulk_bytes=bulk_mb << 20)
    yield life
    life.close()


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.judge)], ids=["stopped", "killed"])
def test_nothing_differs(place: Place, life: Life, is_killed: bool) -> None:
    theirs = place.theirs()
    life.fill()
    life.compact(lambda topic, index: takeover.is_cleaned(place.directories, topic, index))
    before = life.expected()
    place.end(theirs, is_killed)
    assert set(takeover.magics(place.directories, "formats-0")) == {0, 1, 2}
    assert all(any(directory.glob("*-*/*.log")) for directory in place.directories)
    segments, producers = takeover.segments(place.directories), takeover.producers(place.directories)
    indexes = [] if is_killed else takeover.files(place.directories, "*.index", "*.timeindex", "*.txnindex")
    dumped = takeover.dumped(indexes) if indexes else ""

    ours = place.ours()
    assert life.seen() == before
    place.end(ours, is_killed)
    assert takeover.segments(place.directories) == segments
    if not is_killed:
        assert takeover.producers(place.directories) == producers
        assert takeover.dumped(indexes).splitlines() == dumped.splitlines()

    theirs = place.theirs()
    assert life.seen() == before
    # Who was there before all this goes on: the member in its generation, the producer in its transaction.
    life.commit(2000)
    life.end_transaction()
    after = life.seen()
    assert after["payments read_committed"] != before["payments read_committed"]
    assert after["offsets warehouse"] == [("bulk", partition, 2000, "at 2000") for partition in range(3)]
    place.end(theirs, is_killed)

    ours = place.ours()
    assert life.seen() == after
    life.commit(3000)
    assert life.rebalances == ["assigned 3"]
    place.end(ours, is_killed)
