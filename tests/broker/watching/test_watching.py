"""A broker as Prometheus and Kubernetes see it, while somebody else's client works with it."""

import contextlib
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import _core
from ottla.broker.broker import Broker as InProcess
from ottla.broker.watching.watch import watched
from ottla.config import BrokerConfig
from ottla.metrics.families import FAMILIES, PARTITIONS
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest
from tests.coordination.proxy import LossyProxy
from tests.metrics.scraped import Scraped, get, is_there, scrape
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.skips import require
from tests.support.client import Client, batch, connect
from tests.support.waiting import PATIENCE_S

PARTS = ("total", "requestqueue", "local", "remote", "responsequeue", "responsesend")
SETTINGS = {"offsets.topic.num.partitions": 2}


@pytest.fixture(autouse=True, scope="module")
def metrics_extra() -> None:
    if not is_there:
        require("clients", "the packages of the extra `metrics` are not installed")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, int]]:
    """A broker, and the port of its metrics."""
    port = free_port()
    with Brokers(tmp_path_factory.mktemp("watched")) as brokers:
        yield brokers(settings=SETTINGS, arguments=("--metrics-port", str(port))), port


@pytest.fixture
def client(served: tuple[Broker, int]) -> Iterator[Client]:
    with connect(served[0]) as client:
        yield client


def consume(bootstrap: str, topic: str, group: str, count: int, commit: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = 0
        while seen < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            seen += 1
        consumer.commit(offsets=[TopicPartition(topic, 0, commit)], asynchronous=False)
    finally:
        consumer.close()


def test_it_counts_what_a_client_does(served: tuple[Broker, int], client: Client) -> None:
    broker, port = served
    client.create("orders", 2)
    before = scrape(port)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for number in range(100):
        producer.produce("orders", b"%d" % number * 20, partition=0)
    # These nobody reads.
    producer.produce("orders", b"unread", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    consume(broker.bootstrap, "orders", "auditors", 100, commit=70)
    seen = scrape(port)

    sizes = [(broker.data / f"orders-{n}" / "00000000000000000000.log").stat().st_size for n in (0, 1)]
    traffic = "kafka_server_brokertopicmetrics_"
    assert seen(f"{traffic}messagesin_total", topic="orders") == 101
    assert seen(f"{traffic}bytesin_total", topic="orders") == sum(sizes)
    assert seen(f"{traffic}bytesout_total", topic="orders") == sizes[0]
    for name in ("messagesin", "bytesin", "bytesout", "totalproducerequests", "totalfetchrequests"):
        grown = seen(f"{traffic}{name}_total"), before(f"{traffic}{name}_total")
        assert grown[0] is not None
        assert grown[1] is not None
        ours = (seen(f"{traffic}{name}_total", topic=topic) or 0 for topic in ("orders", "__consumer_offsets"))
        assert grown[0] - grown[1] == sum(ours), name
    assert seen(f"{traffic}failedproducerequests_total", topic="orders") == 0

    assert seen("kafka_log_log_size", topic="orders", partition=0) == sizes[0]
    assert seen("kafka_log_log_logendoffset", topic="orders", partition=0) == 100
    assert seen("kafka_log_log_logendoffset", topic="orders", partition=1) == 1
    assert seen("kafka_log_log_numlogsegments", topic="orders", partition=1) == 1
    group = {"consumergroup": "auditors", "topic": "orders"}
    assert seen("kafka_consumergroup_current_offset", **group, partition=0) == 70
    assert seen("kafka_consumergroup_lag", **group, partition=0) == 30
    assert seen("kafka_consumergroup_lag_sum", **group) == 30
    assert seen("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1

    assert seen("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert seen("kafka_controller_kafkacontroller_globalpartitioncount") == 4
    assert seen("kafka_server_replicamanager_leadercount") == 4
    assert seen(PARTITIONS.name) == 4
    assert seen("kafka_cluster_partition_insyncreplicascount", topic="orders", partition=1) == 1
    assert seen("process_resident_memory_bytes")


def test_requests_are_counted_by_api_with_their_times(served: tuple[Broker, int], client: Client) -> None:
    broker, port = served
    client.create("timed")
    # The last Fetch of a consumer that was closed may still be answered.
    waiting = "kafka_server_delayedoperationpurgatory_purgatorysize"
    broker.wait_until(lambda: scrape(port)(waiting, delayedOperation="Fetch") == 0)
    before = scrape(port)
    for _ in range(5):
        client.produce("timed", batch(b"x" * 1000))
    client.produce("timed", batch(b"x"), version=7)
    client.produce_silently("timed", batch(b"silent"))
    client.fetch("timed", version=11)
    client.fetch("timed", 7, version=11)
    seen = scrape(port)

    def grown(name: str, **labels: object) -> float:
        return (seen(name, **labels) or 0) - (before(name, **labels) or 0)

    metrics = "kafka_network_requestmetrics_"
    assert grown(f"{metrics}requests_total", request="Produce", version=8) == 6
    assert grown(f"{metrics}requests_total", request="Produce", version=7) == 1
    assert grown(f"{metrics}totaltimems_count_total", request="Produce") == 7
    assert grown(f"{metrics}totaltimems_count_total", request="FetchConsumer") == 2
    assert seen("kafka_server_brokertopicmetrics_totalproducerequests_total", topic="timed") == 7
    quantiles = [
        seen(f"{metrics}totaltimems", request="Produce", quantile=quantile) or 0
        for quantile in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
    ]
    assert quantiles == sorted(quantiles)
    assert quantiles[0] > 0
    assert (seen(f"{metrics}requestbytes", request="Produce", quantile="0.99") or 0) > 1000
    assert 0 <= (seen("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") or -1) <= 1


def test_a_requests_time_is_told_in_parts(served: tuple[Broker, int], client: Client) -> None:
    broker, port = served
    client.create("parts")
    wait_ms = 300

    def told(seen: Scraped, part: str, request: str) -> float:
        return seen(f"kafka_network_requestmetrics_{part}timems", request=request, quantile="0.999") or 0

    def counts(seen: Scraped, request: str) -> set[float | None]:
        return {seen(f"kafka_network_requestmetrics_{part}timems_count_total", request=request) for part in PARTS}

    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "parts", "fetch.wait.max.ms": wait_ms}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition("parts", 0, 0)])
        before = counts(scrape(port), "FetchConsumer")
        # Nothing is there to fetch: something else than the handler is waited for.
        broker.wait_until(lambda: consumer.poll(0.1) is None and counts(scrape(port), "FetchConsumer") != before)
    finally:
        consumer.close()
    client.call(DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
    seen = scrape(port)
    assert len(counts(seen, "FetchConsumer")) == 1
    for part in ("remote", "total"):
        assert told(seen, part, "FetchConsumer") >= wait_ms * 0.96, part
    # Of one request alone: its parts are the whole, but for what quantiles are off.
    assert counts(seen, "DescribeLogDirs") == {1}
    total, *parts = (told(seen, part, "DescribeLogDirs") for part in PARTS)
    assert total > 0
    assert sum(parts) == pytest.approx(total, rel=0.07)


def test_errors_are_counted_by_api_and_code(served: tuple[Broker, int], client: Client) -> None:
    broker, port = served
    client.create("wrong")
    waiting = "kafka_server_delayedoperationpurgatory_purgatorysize"
    # A consumer that went away may have left a Fetch that waits: it is counted when its time is over.
    broker.wait_until(lambda: scrape(port)(waiting, delayedOperation="Fetch") == 0)
    before = scrape(port)
    client.produce("wrong", batch(b"x"))
    client.produce("nowhere", batch(b"x"))
    client.fetch("wrong", version=11)
    client.fetch("wrong", 99, version=11)
    topics = [MetadataRequestTopic(name=name) for name in ("wrong", "no-such")]
    client.call(METADATA, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    seen = scrape(port)

    def grown(request: str, error: str) -> float:
        name = "kafka_network_requestmetrics_errors_total"
        return (seen(name, request=request, error=error) or 0) - (before(name, request=request, error=error) or 0)

    assert (grown("Produce", "NONE"), grown("Produce", "UNKNOWN_TOPIC_OR_PARTITION")) == (1, 1)
    # A Fetch has a code of its own beside its partitions'.
    assert (grown("Fetch", "NONE"), grown("Fetch", "OFFSET_OUT_OF_RANGE")) == (3, 1)
    assert (grown("Metadata", "NONE"), grown("Metadata", "UNKNOWN_TOPIC_OR_PARTITION")) == (1, 1)


def test_conversions_are_counted(served: tuple[Broker, int], client: Client) -> None:
    _, port = served
    client.create("old")
    client.create("gzip", compression_type="gzip")
    rows = [(1_700_000_000_000, None, b"%d" % number) for number in range(3)]
    client.produce("old", _core.encode_messages(rows, magic=1), version=2)
    client.produce("old", batch(b"3"))
    client.produce("gzip", batch(b"a", b"b"))
    client.fetch("old", version=11)
    traffic = "kafka_server_brokertopicmetrics_"
    seen = scrape(port)
    assert seen(f"{traffic}producemessageconversions_total", topic="old") == 3
    assert seen(f"{traffic}producemessageconversions_total", topic="gzip") == 2
    assert seen(f"{traffic}fetchmessageconversions_total", topic="old") == 0
    client.fetch("old", version=3)
    assert scrape(port)(f"{traffic}fetchmessageconversions_total", topic="old") == 4
    client.create("kept", message_format_version="0.10.2")
    client.produce("kept", _core.encode_messages(rows, magic=1), version=2)
    client.fetch("kept", version=3)
    seen = scrape(port)
    for name in ("produce", "fetch"):
        assert seen(f"{traffic}{name}messageconversions_total", topic="kept") == 0


def test_throttle_times_are_told(brokers: Brokers) -> None:
    port = free_port()
    broker = brokers(settings={"metrics.listener": f"127.0.0.1:{port}", "quota.producer.default": 1000})
    with connect(broker) as client:
        client.create("slow")
        answer = client.produce("slow", batch(b"x" * 50_000))
    seen = scrape(port)
    name = "kafka_network_requestmetrics_throttletimems"
    told = seen(name, request="Produce", quantile="0.99") or 0
    assert told == pytest.approx(answer.throttle_time_ms, rel=0.05)
    assert answer.throttle_time_ms > 0
    assert seen(f"{name}_count_total", request="Produce") == 1
    assert seen(name, request="CreateTopics", quantile="0.99") == 0


def test_what_waits_is_told(served: tuple[Broker, int], client: Client) -> None:
    broker, port = served
    client.create("waited")

    def waiting() -> float | None:
        return scrape(port)("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch")

    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)]
    fetch = FetchRequest(
        replica_id=-1, max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="waited", partitions=partitions)]
    )
    with connect(broker) as other:
        other.send(FETCH, fetch, 11)
        broker.wait_until(lambda: waiting() == 1)
        client.produce("waited", batch(b"here"))
        assert other.receive().responses[0].partition_responses[0].record_set
        assert waiting() == 0


def test_every_family_is_served_under_its_type(served: tuple[Broker, int], client: Client) -> None:
    _, port = served
    client.create("all")
    client.produce("all", batch(b"x"))
    consume(served[0].bootstrap, "all", "all", 1, commit=1)
    seen = scrape(port)
    for family in FAMILIES:
        assert seen.types.get(family.name) == family.type, family.name
    known = {family.name for family in FAMILIES}
    others = {name for name in seen.types if name not in known}
    assert {name.split("_")[0] for name in others} == {"process", "python"}


def test_a_deleted_topic_takes_nothing_from_the_sum(served: tuple[Broker, int], client: Client) -> None:
    _, port = served
    client.create("short")
    client.produce("short", batch(b"a", b"b"))
    before = scrape(port)
    assert before("kafka_server_brokertopicmetrics_messagesin_total", topic="short") == 2
    client.delete_topic("short")
    after = scrape(port)
    assert after("kafka_log_log_size", topic="short", partition=0) is None
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert (after(name) or 0) >= (before(name) or 0)
    client.create("short")
    assert scrape(port)("kafka_log_log_logendoffset", topic="short", partition=0) == 0


SERVE = """
import os, signal, sys
from ottla.broker.serve import serve
from ottla.config import BrokerConfig
def ready(broker):
    watching = {"h11", "prometheus_client"}
    print(sorted(watching & sys.modules.keys()), broker.server.hub.measured())
    os.kill(os.getpid(), signal.SIGTERM)
serve(BrokerConfig({"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"}), ready)
"""


def test_without_the_setting_nothing_is_imported_or_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, "[] []\n"), done.stderr


MISSING = """
import sys
sys.modules["h11"] = None
from ottla.cli.main import main
main(["serve", "--data-dir", sys.argv[1], "--listen", "127.0.0.1:0", "--metrics-port", "0"])
"""


def test_a_missing_package_is_said_with_its_extra(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MISSING, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    missing = "this needs the package h11, which is not installed: pip install 'ottla[metrics]'"
    assert missing in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_is_taken_is_named(brokers: Brokers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        broker = brokers(settings={"metrics.listener": address}, wait=False)
        assert broker.process.wait(PATIENCE_S) == 1
    said = broker.log.read_text()
    assert f"metrics.listener: cannot listen on {address}: Address already in use" in said
    assert "Traceback" not in said


def reasons(port: int) -> tuple[int, dict[str, str]]:
    status, body = get(port, "readyz")
    return status, json.loads(body).get("reasons", {})


def test_ready_is_who_serves(tmp_path: Path) -> None:
    """From before the start to the end, seen over HTTP."""
    port = free_port()
    config = BrokerConfig(
        {
            "log.dirs": str(tmp_path / "data"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "metrics.listener": f"127.0.0.1:{port}",
        }
    )
    seen: list[tuple[str, int]] = []

    async def look() -> tuple[int, dict[str, str]]:
        return await trio.to_thread.run_sync(reasons, port)

    async def main() -> None:
        async with watched(config) as readiness:
            seen.append(("before", (await look())[0]))

            def at(stage: str) -> None:
                readiness.at(stage)
                assert readiness.reasons() == {"broker": stage}

            async with InProcess.start(config, at=at) as broker:
                status, why = await look()
                assert (status, "controller" in why["broker"]) == (503, True)
                readiness.serves(broker)
                seen.append(("serves", (await look())[0]))
                broker.groups._loading[3] = 1
                assert await look() == (503, {"groups": "1 partitions of __consumer_offsets are being read"})
                del broker.groups._loading[3]
                assert await look() == (200, {})
                readiness.stopping()
                assert await look() == (503, {"broker": "shutting down"})
            assert (await trio.to_thread.run_sync(get, port, "healthz"))[0] == 200

    trio.run(main)
    assert seen == [("before", 503), ("serves", 200)]


@pytest.mark.zookeeper
def test_a_lost_session_is_not_ready(zookeeper: str, brokers: Brokers) -> None:
    address, _, chroot = zookeeper.partition("/")
    host, _, zookeeper_port = address.partition(":")
    port = free_port()
    with LossyProxy((host, int(zookeeper_port))) as proxy:
        broker = brokers(
            zookeeper=f"127.0.0.1:{proxy.port}/{chroot}",
            settings={"zookeeper.session.timeout.ms": 4000},
            arguments=("--metrics-port", str(port)),
        )
        assert reasons(port) == (200, {})
        proxy.refuse = True
        proxy.cut()
        broker.wait_until(lambda: reasons(port)[0] == 503)
        assert set(reasons(port)[1]) == {"coordination"}
        assert get(port, "healthz")[0] == 200
        proxy.refuse = False
        broker.wait_until(lambda: reasons(port) == (200, {}))
        broker.stop()


def test_a_broker_that_waits_for_its_tree_says_so(brokers: Brokers) -> None:
    port, nobody = free_port(), free_port()
    broker = brokers(
        zookeeper=f"127.0.0.1:{nobody}/nowhere",
        settings={"zookeeper.connection.timeout.ms": 60_000},
        arguments=("--metrics-port", str(port)),
        wait=False,
    )

    def answers() -> bool:
        with contextlib.suppress(urllib.error.URLError):
            return reasons(port)[0] == 503
        return False

    broker.wait_until(answers)
    assert reasons(port)[1] == {"broker": "opening the log directories and the coordination tree"}
    seen = scrape(port)
    assert (seen("ottla_ready"), seen("kafka_server_kafkaserver_brokerstate")) == (0, 1)
    broker.kill()


def test_groups_with_long_names_are_told_in_few_bytes(served: tuple[Broker, int], client: Client) -> None:
    _, port = served
    client.create("long")
    name = "g" * 1000
    groups = [name + "1", name + "2", 'odd"\n\\']
    for number, group in enumerate(groups):
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        commit = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name="long", partitions=[partition])]
        )
        client.call(FIND_COORDINATOR, FindCoordinatorRequest(key=group), 1)
        answer = client.call(OFFSET_COMMIT, commit, 7)
        assert answer.topics[0].partitions[0].error_code == 0
    seen = scrape(port)
    told = {
        dict(labels)["consumergroup"]: value
        for (family, labels), value in seen.values.items()
        if family == "kafka_consumergroup_current_offset" and dict(labels)["topic"] == "long"
    }
    assert sorted(told.values()) == [0, 1, 2]
    assert told.pop(groups[2]) == 2
    assert all(shown.startswith("g" * 128 + "...") and len(shown) < 150 for shown in told)
    assert seen("ottla_consumergroup_offsets_left_out") == 0


def test_metrics_without_a_host_are_for_this_machine_alone(brokers: Brokers) -> None:
    port = free_port()
    broker = brokers(settings={"metrics.listener": f":{port}"})
    assert get(port, "healthz")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=PATIENCE_S)
    assert broker.stop() == 0
    assert f"metrics, healthz and readyz are at http://127.0.0.1:{port}" in broker.log.read_text()
