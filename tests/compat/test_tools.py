"""Apache Kafka's command-line tools of three versions, once each, as people use them."""

import re
import struct

import pytest

from tests.compat.matrix import CLIENTS, KAFKAS, RECORDS, Matrix
from tests.peers.apache import tool
from tests.support.lanes import judged_by

pytestmark = pytest.mark.java
READER = CLIENTS[0]

# What a single broker of ours serves, at all versions of Kafka 2.7.
RANGES = {
    "Produce": (0, 8),
    "Fetch": (0, 12),
    "ListOffsets": (0, 5),
    "Metadata": (0, 9),
    "FindCoordinator": (0, 3),
    "ApiVersions": (0, 3),
    "CreateTopics": (0, 6),
    "DeleteTopics": (0, 5),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 4),
    "SaslHandshake": (0, 1),
    "DescribeAcls": (0, 2),
    "CreateAcls": (0, 2),
    "DeleteAcls": (0, 2),
    "SaslAuthenticate": (0, 2),
    "UpdateFeatures": (0, 0),
    "OffsetForLeaderEpoch": (0, 3),
    "DescribeConfigs": (0, 3),
    "AlterConfigs": (0, 1),
    "CreatePartitions": (0, 3),
    "IncrementalAlterConfigs": (0, 1),
    "ElectLeaders": (0, 2),
    "AlterPartitionReassignments": (0, 0),
    "ListPartitionReassignments": (0, 0),
    "DescribeClientQuotas": (0, 0),
    "AlterClientQuotas": (0, 0),
    "DescribeUserScramCredentials": (0, 0),
    "AlterUserScramCredentials": (0, 0),
}


def murmur2(data: bytes) -> int:
    """The 32-bit hash by which Java's producer chooses a key's partition (its sign bit dropped)."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * factor & mask
        value = (value * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return (value ^ value >> 15) & 0x7FFFFFFF


@pytest.mark.parametrize("version", judged_by(KAFKAS, KAFKAS[-1:]))
def test_topics_and_configs(matrix: Matrix, version: str) -> None:
    topic, server = f"tools-{version}", ("--bootstrap-server", matrix.bootstrap)
    created = ("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=86400000")
    tool(version, "topics", *server, *created)
    tool(version, "topics", *server, "--alter", "--topic", topic, "--partitions", "4")
    seen = tool(version, "topics", *server, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount:\s*4\s+ReplicationFactor:\s*1\s+Configs:.*\bretention.ms=86400000", seen), seen
    assert len(re.findall(r"Leader: \d+\s+Replicas: \d+\s+Isr: \d+", seen)) == 4, seen
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool(version, "configs", *server, *entity, "--alter", "--add-config", "max.message.bytes=2000000")
    seen = tool(version, "configs", *server, *entity, "--describe")
    assert "max.message.bytes=2000000" in seen, seen
    assert "retention.ms=86400000" in seen, seen


@pytest.mark.parametrize("version", judged_by(KAFKAS, KAFKAS[-1:]))
def test_console_producer_and_consumer(matrix: Matrix, version: str) -> None:
    """30,006 keyed lines in, over three partitions; one partition's from an offset out; every record judged."""
    topic = f"console-{version}"
    matrix.create([topic])
    reader = "--reader-property" if version.startswith("4.") else "--property"
    lines = [(b"key-%d" % i, b"line %d of the console" % i) for i in range(3 * RECORDS)]
    tool(
        version,
        "console-producer",
        *("--bootstrap-server", matrix.bootstrap, "--topic", topic, "--compression-codec", "snappy"),
        *(reader, "parse.key=true", reader, "key.separator=|"),
        stdin=b"".join(key + b"|" + value + b"\n" for key, value in lines),
    )
    wanted: list[list[tuple[bytes, bytes]]] = [[], [], []]
    for key, value in lines:
        wanted[murmur2(key) % 3].append((key, value))
    seen = matrix.consume(READER, topic, "earliest")
    assert [[(r.key, r.value) for r in seen if r.partition == p] for p in range(3)] == wanted

    formatter = "--formatter-property" if version.startswith("4.") else "--property"
    start, count = 1000, len(wanted[1]) - 1000
    printed = tool(
        version,
        "console-consumer",
        *("--bootstrap-server", matrix.bootstrap, "--topic", topic, "--partition", "1", "--offset", str(start)),
        *(formatter, "print.key=true", formatter, "key.separator=|", "--max-messages", str(count)),
    )
    assert printed.encode().splitlines() == [key + b"|" + value for key, value in wanted[1][start:]]


@pytest.mark.parametrize("version", judged_by(KAFKAS, KAFKAS[-1:]))
def test_producer_perf_test_and_get_offsets(matrix: Matrix, version: str) -> None:
    topic, count = f"perf-{version}", 100_000
    matrix.create([topic])
    report = tool(
        version,
        "producer-perf-test",
        *("--topic", topic, "--num-records", str(count), "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={matrix.bootstrap}", "acks=all", "linger.ms=5"),
    )
    assert f"{count} records sent" in report, report
    option = "--broker-list" if version.startswith("2.") else "--bootstrap-server"
    printed = tool(version, "get-offsets", option, matrix.bootstrap, "--topic", topic, "--time", "-1")
    ends = dict(line.removeprefix(f"{topic}:").split(":") for line in printed.split())
    assert sorted(ends) == ["0", "1", "2"]
    assert sum(map(int, ends.values())) == count


@pytest.mark.parametrize("version", judged_by(KAFKAS, KAFKAS[-1:]))
def test_broker_api_versions(matrix: Matrix, version: str) -> None:
    printed = tool(version, "broker-api-versions", "--bootstrap-server", matrix.bootstrap)
    assert "ERROR" not in printed, printed
    seen = {
        name: (int(low), int(high or low))
        for name, low, high in re.findall(r"(\w+)\(\d+\): (\d+)(?: to (\d+))? \[usable", printed)
    }
    renamed = {"OffsetsForLeaderEpoch": "OffsetForLeaderEpoch"}
    seen = {renamed.get(name, name): span for name, span in seen.items()}
    assert {name: seen.get(name) for name in RANGES} == RANGES
