"""The waits of an honest client beside a hostile one: `python benches/hostile.py [--only TEXT] [--seconds N]`, by `make
bench-hostile`.

Each attack runs against a broker of its own, which has listeners with TLS and SASL too, while a client sends one
Produce of 100 B with acks=1 every 50 ms. The table has the 99th percentile and the longest of its waits, and the
largest resident memory of the broker. The exit code is 1 if one attack misses a goal: p99 at most 100 ms, no wait of a
second, and a memory of `queued.max.request.bytes`, a quarter of it for answers, and 64 MB.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches import strangers  # noqa: E402
from ottla._core import DEBUG_BUILD, BatchBuilder  # noqa: E402
from ottla.wire.headers import request_frame  # noqa: E402
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData  # noqa: E402
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest  # noqa: E402
from ottla.wire.k27_write_txn_markers import (  # noqa: E402
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.k49_alter_client_quotas import (  # noqa: E402
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.schema import Api  # noqa: E402
from tests.peers.ottla import Brokers  # noqa: E402
from tests.peers.ports import free_port  # noqa: E402
from tests.support.hostile import Honest, begun, closing, connect, send  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402

MIB = 1 << 20
QUEUED_BYTES = 256 * MIB
P99_S = 0.1
LONGEST_S = 1.0
RSS_BYTES = QUEUED_BYTES + QUEUED_BYTES // 4 + 64 * MIB
DESCRIBE_CONFIGS, FETCH, API_VERSIONS = 32, 1, 18

Attack = Callable[[int], contextlib.AbstractContextManager[None]]
ATTACKS: dict[str, Attack] = {}
#: The frames that an attack sends, where they take long to make.
FRAMES: dict[str, Callable[[], bytes]] = {}
TIMEOUT_MS = 60_000


def attack(name: str) -> Callable[[Callable[[int], Iterator[None]]], Attack]:
    def named(function: Callable[[int], Iterator[None]]) -> Attack:
        ATTACKS[name] = contextlib.contextmanager(function)
        return ATTACKS[name]

    return named


@attack("nobody")
def _nobody(port: int) -> Iterator[None]:
    yield


@attack("30 half frames of 60 MB, one after the other")
def _half(port: int) -> Iterator[None]:
    attackers = [begun(port) for _ in range(30)]
    with closing(attackers):
        for one in attackers:
            send(one, bytes(60_000_000))
        yield


@attack("3 frames of 98 MB without their ends")
def _three(port: int) -> Iterator[None]:
    attackers = [begun(port) for _ in range(3)]
    with closing(attackers):
        for one in attackers:
            send(one, bytes(98_000_000))
        yield


@attack("1,000 begun frames of 184 KB, and away")
def _away(port: int) -> Iterator[None]:
    attackers = [begun(port) for _ in range(1000)]
    with closing(attackers):
        for one in attackers:
            send(one, bytes(184_000), 0.02)
    yield


@attack("796 lengths of 99 MB, announced")
def _announced(port: int) -> Iterator[None]:
    with closing([begun(port) for _ in range(796)]):
        yield


@attack("50 DescribeConfigs of 1,000 rows, answers not read")
def _answers(port: int) -> Iterator[None]:
    row = struct.pack(">bh", 4, 4) + b"1001" + struct.pack(">i", -1)
    frame = request_frame(DESCRIBE_CONFIGS, 3, 1, "greedy", struct.pack(">i", 1000) + 1000 * row + b"\1\1")
    attackers = [connect(port) for _ in range(50)]
    with closing(attackers):
        for one in attackers:
            send(one, 20 * frame, 0.2)
        yield


@attack("10 that say to be brokers, 60 MB each")
def _brokers(port: int) -> Iterator[None]:
    fetch = request_frame(FETCH, 4, 1, "broker", struct.pack(">iiiibi", 666, 0, 0, 1, 0, 0))
    attackers = [connect(port) for _ in range(10)]
    with closing(attackers):
        for one in attackers:
            send(one, fetch + struct.pack(">i", 99_000_000))
        for one in attackers:
            send(one, bytes(60_000_000))
        yield


@attack("10 headers of 10 million tagged fields")
def _tagged(port: int) -> Iterator[None]:
    head = struct.pack(">hhih", API_VERSIONS, 3, 1, -1) + b"\x80\xad\xe2\x04" + bytes(20_000_000)
    attackers = [connect(port) for _ in range(10)]
    with closing(attackers):
        for one in attackers:
            send(one, struct.pack(">i", len(head)) + head)
        yield


def many_rows(name: str, api: Api[Any, Any], request: Callable[[], Any]) -> None:
    """An attack by one request, whose frame is made before the honest client begins."""

    @cache
    def frame() -> bytes:
        version = api.versions[-1]
        return request_frame(api.key, version, 1, "hostile", api.encode_request(version, request()))

    @attack(name)
    def _send(port: int) -> Iterator[None]:
        one = connect(port)
        with closing([one]):
            send(one, frame(), PATIENCE_S)
            yield

    FRAMES[name] = frame


many_rows(
    "CreateTopics of 2,000 topics",
    CREATE_TOPICS,
    lambda: CreateTopicsRequest([CreatableTopic(f"topic-{number}", 1, 1) for number in range(2_000)], TIMEOUT_MS),
)
many_rows(
    "CreateTopics of 20,000 names that are none",
    CREATE_TOPICS,
    lambda: CreateTopicsRequest([CreatableTopic(f"no name {number}", 1, 1) for number in range(20_000)], TIMEOUT_MS),
)
many_rows(
    "AlterClientQuotas of 3,000 clients",
    ALTER_CLIENT_QUOTAS,
    lambda: AlterClientQuotasRequest(
        [
            EntryData([EntityData("client-id", f"client-{number}")], [OpData("producer_byte_rate", 1e6, False)])
            for number in range(3_000)
        ],
        False,
    ),
)
many_rows(
    "WriteTxnMarkers of 100,000 markers",
    WRITE_TXN_MARKERS,
    lambda: WriteTxnMarkersRequest(
        [WritableTxnMarker(number, 0, True, [WritableTxnMarkerTopic("honest", [0])]) for number in range(100_000)]
    ),
)


def _batches() -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(0, None, b"x")
    rows = 200_000 * [PartitionProduceData(0, builder.finish())]
    return ProduceRequest(None, 1, TIMEOUT_MS, [TopicProduceData("honest", rows)])


many_rows("Produce of 200,000 batches", PRODUCE, _batches)


for name, function in (
    ("TLS handshakes, as many as there can be", strangers.handshakes),
    ("500 half handshakes, and away", strangers.half_handshakes),
    ("wrong passwords, as many as there can be", strangers.wrong_passwords),
    ("500 half tokens of 500 KB", strangers.slow_tokens),
):
    attack(name)(function)


def run(name: str, folder: Path, seconds: float) -> tuple[float, float, int]:
    """The honest client's p99 and longest wait in seconds, and the broker's memory in bytes."""
    if name in FRAMES:
        FRAMES[name]()
    with Brokers(folder) as brokers:
        port = free_port()
        settings = {"queued.max.request.bytes": QUEUED_BYTES, **strangers.settings(folder, port)}
        broker = brokers(port=port, settings=settings, arguments=("--log-level", "error"))
        with Honest(broker.port, broker.pid) as honest:
            end = time.monotonic() + seconds
            with ATTACKS[name](broker.port):
                while time.monotonic() < end and honest.error is None:
                    time.sleep(0.05)
        return honest.percentile_s(0.99), honest.longest_s, honest.rss_max


@click.command()
@click.option("--only", default="", help="Attacks whose names contain this.")
@click.option("--seconds", default=5.0, help="How long each attack lasts at least.")
def main(only: str, seconds: float) -> None:
    if DEBUG_BUILD:
        raise click.ClickException("this is a debug build: `make build` first")
    table = Table("attack", "p99 ms", "longest ms", "memory MiB", "")
    missed = False
    for name in ATTACKS:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            p99_s, longest_s, rss = run(name, Path(folder), seconds)
        is_kept = p99_s <= P99_S and longest_s < LONGEST_S and rss <= RSS_BYTES
        missed |= not is_kept
        row = f"{p99_s * 1000:.1f}", f"{longest_s * 1000:.1f}", f"{rss / MIB:.0f}", "" if is_kept else "MISSED"
        table.add_row(name, *row)
    Console().print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
