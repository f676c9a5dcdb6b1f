"""Questions of operators about a cluster with a hundred thousand partitions: answered in bounds of time and memory.

The cluster is made up: four addresses at which one server answers as brokers would. Three of them have all partitions,
of which a tenth is not in sync on the third; the first is preferred for two thirds of them, the second for the others;
and the fourth is new and empty.
"""

import json
import os
import re
import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.cli._output import ROWS_MAX
from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.k03_metadata import (
    METADATA,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey
from ottla.wire.k35_describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.wire.k46_list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.schema import Api

TOPICS, EACH = 1000, 100
ALL = TOPICS * EACH
HAVING, LAGGING, NEW = (1, 2, 3), 3, 4
BROKERS = (*HAVING, NEW)
END, LAG = 1000, 7
#: Of the command's process. A command that looks at all partitions for each partition takes hours, and so fails by the
#: time that any test may take.
MEMORY_MB_MAX = 400.0
APIS: dict[int, Api[Any, Any]] = {
    api.key: api for api in (API_VERSIONS, METADATA, LIST_OFFSETS, DESCRIBE_LOG_DIRS, LIST_PARTITION_REASSIGNMENTS)
}


class Front(socketserver.ThreadingTCPServer):
    """One broker's address."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, cluster: "MadeUp", broker_id: int) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.cluster = cluster
        self.id = broker_id


class Answers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        front = self.server
        assert isinstance(front, Front)
        while len(head := self.rfile.read(4)) == 4:
            frame = self.rfile.read(struct.unpack(">i", head)[0])
            key, version, correlation, client_id = struct.unpack_from(">hhih", frame)
            api = APIS[key]
            is_flexible = api.flexible_from is not None and version >= api.flexible_from
            request = api.decode_request(version, frame, 10 + max(0, client_id) + is_flexible)
            body = front.cluster.answer(front.id, api, version, request)
            header = struct.pack(">i", correlation) + b"\0" * (is_flexible and api is not API_VERSIONS)
            self.wfile.write(struct.pack(">i", len(header) + len(body)) + header + body)


class MadeUp:
    """All the brokers."""

    def __init__(self, stack: ExitStack) -> None:
        self.fronts = [stack.enter_context(Front(self, broker_id)) for broker_id in BROKERS]
        for front in self.fronts:
            threading.Thread(target=front.serve_forever, daemon=True).start()
            stack.callback(front.shutdown)
        self.bootstrap = f"127.0.0.1:{self.fronts[0].server_address[1]}"
        self._metadata: dict[int, bytes] = {}

    def answer(self, broker_id: int, api: Api[Any, Any], version: int, request: Any) -> bytes:
        if api is METADATA:
            if version not in self._metadata:
                self._metadata[version] = api.encode_response(version, self._told())
            return self._metadata[version]
        return api.encode_response(version, self._response(broker_id, api, request))

    def _response(self, broker_id: int, api: Api[Any, Any], request: Any) -> Any:
        if api is API_VERSIONS:
            rows = [ApiVersionsResponseKey(one.key, one.versions[0], one.versions[-1]) for one in APIS.values()]
            return ApiVersionsResponse(api_keys=rows)
        if api is LIST_OFFSETS:
            end = END - LAG if broker_id == LAGGING else END
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=end)
                            for row in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        if api is DESCRIBE_LOG_DIRS:
            topics = [
                DescribeLogDirsTopic(
                    name=topic.topic,
                    partitions=[DescribeLogDirsPartition(index, partition_size=10) for index in topic.partition_index],
                )
                for topic in request.topics
            ]
            return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/data", topics=topics)])
        assert api is LIST_PARTITION_REASSIGNMENTS
        return ListPartitionReassignmentsResponse(error_message=None)

    def _told(self) -> MetadataResponse:
        orders = ([1, 2, 3], [1, 2, 3], [2, 3, 1])
        rows = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=orders[index % 3][0],
                replica_nodes=orders[index % 3],
                isr_nodes=[broker for broker in orders[index % 3] if broker != LAGGING or index % 10],
            )
            for index in range(EACH)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(one.id, "127.0.0.1", one.server_address[1]) for one in self.fronts],
            cluster_id="made-up",
            controller_id=BROKERS[0],
            topics=[MetadataResponseTopic(name=f"topic-{number:04}", partitions=rows) for number in range(TOPICS)],
        )


@dataclass(frozen=True)
class Done:
    """The output of a command, and what its process used."""

    out: str
    cpu_s: float
    memory_mb: float


@pytest.fixture(scope="module")
def made_up() -> Iterator[MadeUp]:
    with ExitStack() as stack:
        yield MadeUp(stack)


#: Runs `ottla` and tells its memory at its end. What the kernel tells of a child counts what its parent had before.
TELLING = """
import atexit, runpy, sys
atexit.register(lambda: print(open("/proc/self/status").read(), file=sys.stderr))
runpy.run_module("ottla", run_name="__main__", alter_sys=True)
"""


def run(made_up: MadeUp, *arguments: str) -> Done:
    command = [sys.executable, "-c", TELLING, *arguments, "-b", made_up.bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    out = process.stdout.read()
    error = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    for stream in (process.stdout, process.stderr):
        stream.close()
    assert process.returncode == 0, out[-2000:] + error
    (peak_kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", error, re.MULTILINE)
    done = Done(out, used.ru_utime + used.ru_stime, int(peak_kib) * 1024 / 1e6)
    print(f"figures: {' '.join(arguments)}: {done.cpu_s:.1f} s of a processor, {done.memory_mb:.0f} MB")
    assert done.memory_mb <= MEMORY_MB_MAX
    return done


def test_status(made_up: MadeUp) -> None:
    """A line for each broker, and no more of what is behind than fits on a screen."""
    lines = run(made_up, "cluster", "status").out.splitlines()
    assert len(lines) <= ROWS_MAX + 20
    assert "100,000 partitions: 10,000 under-replicated, 0 offline, 0 not led by their preferred replica" in lines
    assert lines[-1] == f"... and {ALL // 10 - ROWS_MAX:,} more"


@pytest.mark.soak
def test_status_for_programs(made_up: MadeUp) -> None:
    found = json.loads(run(made_up, "cluster", "status", "--json").out)
    assert {row["id"]: (row["replicas"], row["out_of_sync"], row["lag"]) for row in found["brokers"]} == {
        1: (ALL, 0, 0),
        2: (ALL, 0, 0),
        LAGGING: (ALL, ALL // 10, ALL * LAG),
        NEW: (0, 0, 0),
    }
    assert len(found["behind"]) == ALL // 10


@pytest.mark.parametrize(
    ("how", "last"),
    [
        pytest.param((), "nothing to be done", marks=pytest.mark.soak),
        pytest.param(("--leaders",), "partitions", marks=pytest.mark.soak),
        pytest.param(("--replicas",), "75,000 replicas to copy", marks=pytest.mark.judge),
    ],
)
def test_balance(made_up: MadeUp, how: tuple[str, ...], last: str) -> None:
    """The plan, which is not carried out: with --replicas the new broker gets a quarter of everything."""
    lines = run(made_up, "broker", "balance", "--dry-run", *how).out.splitlines()
    assert len(lines) <= ROWS_MAX + 20
    assert last in lines[-1]
