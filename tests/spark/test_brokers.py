"""Tasks that fetch from brokers, without Spark: the reader as Spark calls it."""

import errno
import socket
import threading
from pathlib import Path

import pytest
import trio

from ottla import _core
from ottla.client import Admin, Cluster, NotABroker, Producer, TopicPartition, UnknownHost
from ottla.client.errors import ConnectionLost
from ottla.reading import fetching
from ottla.reading.bounds import DataLoss
from ottla.reading.brokers import latest, resolve, starting
from ottla.reading.damage import DamagedBatch
from ottla.spark.filters import Wanted
from ottla.spark.options import parse
from ottla.wire.k02_list_offsets import LIST_OFFSETS
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.peers.apache import Apache
from tests.peers.ottla import Broker, Brokers
from tests.peers.proxy import CuttingProxy
from tests.peers.skips import module

module("spark", "pyspark")

from ottla.spark.batch import BatchReader
from tests.support.strangers import listening, says
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.spark
RECORDS = 5000


def fill(bootstrap: str) -> None:
    async def main() -> None:
        async with Cluster(bootstrap) as cluster:
            await Admin(cluster).create_topic("t", 1, 1)

    trio.run(main)
    append(bootstrap, RECORDS)


def append(bootstrap: str, records: int) -> None:
    async def main() -> None:
        async with Cluster(bootstrap) as cluster, Producer(cluster, batch_bytes=1000) as producer:
            for number in range(records):
                await producer.send("t", b"%d" % number)

    trio.run(main)


def reader(bootstrap: str, **options: str) -> BatchReader:
    return BatchReader(parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "t", **options}), ("offset", "value"))


@pytest.fixture
def small_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_BYTES", 4000)
    monkeypatch.setattr("ottla.spark.schema.ROWS_MAX", 100)


class Asked(CuttingProxy):
    """Counts questions for offsets; `again` is set by the second one."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(int(broker.bootstrap.rpartition(":")[2]), ())
        self.count = 0
        self.again = threading.Event()

    def _seen(self, key: int) -> int:
        if key == LIST_OFFSETS.key:
            self.count += 1
            if self.count == 2:
                self.again.set()
        return super()._seen(key)


def test_ends_that_are_behind_what_is_known_are_asked_for_again(brokers: Brokers) -> None:
    """As from a leader that took over and does not know yet how far readers may read."""
    broker = brokers()
    fill(broker.bootstrap)
    partition = TopicPartition("t", 0)
    with Asked(broker) as proxy:
        given = {"kafka.bootstrap.servers": proxy.bootstrap, "subscribe": "t", "fetchOffset.retryIntervalMs": "1"}
        patient = parse({**given, "fetchOffset.numRetries": "1000000"})
        found: list[dict[TopicPartition, int]] = []
        asking = threading.Thread(target=lambda: found.append(latest(patient, {partition: RECORDS + 1})))
        asking.start()
        assert proxy.again.wait(PATIENCE_S), "it took the first answer, which is too low"
        append(broker.bootstrap, 1)
        asking.join(PATIENCE_S)
        assert found == [{partition: RECORDS + 1}]

        proxy.count = 0
        assert latest(parse({**given, "fetchOffset.numRetries": "4"}), {partition: RECORDS + 9}) == found[0]
        assert proxy.count == 4
        assert latest(patient, {partition: RECORDS + 1}) == found[0]
        assert proxy.count == 5, "once is enough where it is far enough"


@pytest.mark.usefixtures("small_fetches")
def test_a_task_survives_the_restart_of_its_broker(brokers: Brokers) -> None:
    broker = brokers()
    fill(broker.bootstrap)
    source = reader(broker.bootstrap)
    (task,) = source.partitions()
    rows: list[tuple[int, bytes]] = []
    for number, batch in enumerate(source.read(task)):
        rows += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
        if number == 10:
            broker.kill()
            brokers.restart(broker)
    assert rows == [(number, b"%d" % number) for number in range(RECORDS)]


def test_tasks_are_cut_by_the_bytes_that_the_broker_tells(broker: Broker) -> None:
    """Ten large records are more than a thousand small ones."""

    async def main() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await Admin(cluster).create_topic("t", 2, 1)
            async with Producer(cluster, compression="none") as producer:
                for number in range(1000):
                    await producer.send("t", b"small", partition=0)
                    if number % 100 == 0:
                        await producer.send("t", bytes(200_000), partition=1)

    trio.run(main)
    tasks = reader(broker.bootstrap, minPartitions="4").partitions()
    ranges = [[(each.partition.partition, each.offsets) for each in task.ranges] for task in tasks]
    assert len(tasks) == 4
    # All small records go with some of the large ones.
    assert ranges[0][0] == (0, 1000)
    assert [sum(count for number, count in task if number == 1) for task in ranges] in ([2, 3, 2, 3], [2, 3, 3, 2])


@pytest.mark.usefixtures("small_fetches")
def test_a_limit_leaves_no_connection_behind(broker: Broker) -> None:
    fill(broker.bootstrap)
    source = reader(broker.bootstrap)
    (task,) = source.partitions()
    batches = source.read(task)
    assert next(batches).num_rows == 100
    batches.close()  # type: ignore[attr-defined]  # Spark drops the generator when a LIMIT is reached


@pytest.mark.usefixtures("small_fetches")
def test_batches_that_are_damaged_on_the_broker(broker: Broker, tmp_path: Path) -> None:
    fill(broker.bootstrap)
    path = broker.data / "t-0" / f"{0:020}.log"
    found = _core.read_batches(path.read_bytes())
    damaged = [found[0], found[7], found[8], found[-1]]
    with path.open("r+b") as file:
        for batch in damaged:
            file.seek(batch.position + 70)
            byte = file.read(1)[0]
            file.seek(batch.position + 70)
            file.write(bytes([byte ^ 1]))
    strict = reader(broker.bootstrap)
    (task,) = strict.partitions()
    with pytest.raises(DamagedBatch, match=rf"offset 0 of t-0 \(from the broker at {broker.bootstrap}\) is damaged"):
        list(strict.read(task))
    lenient = reader(broker.bootstrap, corruptBatches="skip", corruptReport=str(tmp_path / "report"))
    offsets = [offset for batch in lenient.read(task) for offset in batch["offset"].to_pylist()]
    lost = {offset for batch in damaged for offset in range(batch.base_offset, batch.last_offset + 1)}
    assert offsets == [offset for offset in range(RECORDS) if offset not in lost]
    assert len(list((tmp_path / "report").iterdir())) == len(damaged)


@pytest.mark.java
@pytest.mark.usefixtures("small_fetches")
def test_records_that_are_deleted_while_they_are_read(tmp_path: Path) -> None:
    def delete_before(bootstrap: str, offset: int) -> None:
        async def main() -> None:
            async with Cluster(bootstrap) as cluster:
                partition = DeleteRecordsPartition(partition_index=0, offset=offset)
                topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
                answer = await cluster.call_any(DELETE_RECORDS, DeleteRecordsRequest(topics=topics, timeout_ms=60_000))
                assert answer.topics[0].partitions[0].error_code == 0

        trio.run(main)

    with Apache(tmp_path) as apache:
        broker = apache.broker("2.7.2", zookeeper=apache.zookeeper())
        fill(broker.bootstrap)
        strict, lenient = reader(broker.bootstrap), reader(broker.bootstrap, failOnDataLoss="false")
        tasks = strict.partitions()
        delete_before(broker.bootstrap, 3210)
        with pytest.raises(DataLoss, match="t-0 has offsets 3210 to 5000 by now, and 0 is to be read next"):
            list(strict.read(tasks[0]))
        found = [offset for batch in lenient.read(tasks[0]) for offset in batch["offset"].to_pylist()]
        assert found == list(range(3210, RECORDS))


def test_a_name_that_nobody_knows_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def connect(host: str, port: int) -> trio.SocketStream:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "not here")

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    with pytest.raises(UnknownHost, match="no broker answers at nowhere:9092"):
        latest(parse({"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "t"}), {})
    assert asked == ["nowhere"]


def test_what_is_no_broker_is_asked_once() -> None:
    asked = []

    def web(connection: socket.socket) -> None:
        asked.append(connection)
        says(b"HTTP/1.1 400 Bad Request\r\n")(connection)

    with listening(web) as port:
        given = parse({"kafka.bootstrap.servers": f"127.0.0.1:{port}", "subscribe": "t"})
        for look in (lambda: latest(given, {}), lambda: resolve(given, Wanted()), lambda: starting(given)):
            with pytest.raises(NotABroker, match=f"^127.0.0.1:{port} is no Kafka broker: it answers in HTTP"):
                look()
    assert len(asked) == 3


def test_where_a_query_begins_a_refused_port_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after kafka.default.api.timeout.ms: each attempt asks once."""
    asked = []

    async def connect(host: str, port: int) -> trio.SocketStream:
        asked.append(host)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    given = {"kafka.bootstrap.servers": "here:9092", "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}
    with pytest.raises(ConnectionLost, match="no broker answers at here:9092: Connection refused"):
        resolve(parse(given), Wanted())
    with pytest.raises(ConnectionLost, match="no broker answers at here:9092: Connection refused"):
        starting(parse(given))
    assert len(asked) == 2 * 3


def test_a_stream_that_runs_waits_for_its_brokers_and_says_so(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = brokers()
    fill(broker.bootstrap)
    connect, refusals = trio.open_tcp_stream, iter((True, True))

    async def refuse_first(host: str, port: int) -> trio.SocketStream:
        if next(refusals, False):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return await connect(host, port)

    monkeypatch.setattr(trio, "open_tcp_stream", refuse_first)
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t", "fetchOffset.numRetries": "1"}
    assert latest(parse(given), {}) == {TopicPartition("t", 0): RECORDS}
    assert f"no broker answers at {broker.bootstrap}: Connection refused; they are asked for 20 s more" in caplog.text
