"""The cost of a request in the hub: `.venv/bin/python benches/net_hub.py [SECONDS] [ROW...]`.

A server process on one core, its handler in Python, is kept busy by a client in Rust (benches/load) on another. CPU
is the server's, user and system, per request (and per MB where the answers are large). Each row is the median of three
runs; on a shared machine only ratios taken in one run count.

* echo: frames of 64 bytes, answered with 64 bytes.
* produce: one record of 100 bytes, appended to a real log, acks=1: three Rust calls of the handler.
* fetch: 1 MiB of a log's segment, by sendfile.
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio

from ottla._core import (
    DEBUG_BUILD,
    Hub,
    Log,
    LogConfig,
    LogDirectory,
    Request,
    encode_fetch_request,
    encode_produce_request,
)
from ottla.net import Server
from ottla.wire import api
from ottla.wire.headers import request_frame

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from benches.suite.generators import build_load  # noqa: E402
from tests.net.support import batch  # noqa: E402

PRODUCE, FETCH, METADATA = 0, 1, 3
FETCH_BYTES = 1 << 20
# (name, connections, requests in flight on each)
ROWS = [
    ("echo", 1, 1),
    ("echo", 50, 1),
    ("echo", 50, 16),
    ("echo", 500, 1),
    ("produce", 1, 1),
    ("produce", 50, 1),
    ("produce", 50, 5),
    ("fetch", 1, 1),
    ("fetch", 8, 1),
]


def handler_of(logs: dict[tuple[str, int], Log]) -> Callable[[Request], None]:
    """A handler that does the work of a broker on its hot path, without its decisions."""

    def produce(request: Request) -> None:
        asked = request.produce()
        results = []
        for index, (topic, partition, _) in enumerate(asked.partitions):
            info = logs[topic, partition].append(asked, index, 0, 0)
            assert info is not None
            results.append(info)
        request.reply_produce(results)

    def fetch(request: Request) -> None:
        asked = request.fetch()
        results = []
        for one in asked.partitions:
            row = asked.read(logs[one.key], one, asked.max_bytes, True, 0)
            assert row is not None
            results.append(row)
        request.reply_fetch(results)

    answer = bytes(60)
    handlers = {PRODUCE: produce, FETCH: fetch, METADATA: lambda request: request.reply(answer)}

    def handler(request: Request) -> None:
        handlers[request.api_key](request)

    return handler


def serve(folder: str) -> None:
    """The server process: says its port, serves until its input ends."""
    os.mkdir(folder)
    directory = LogDirectory.open(folder)
    logs = {(log.topic, log.partition): log for log in directory.create("bench", [0, 1], LogConfig())}
    for log in logs.values():
        log.begin_epoch(0)
    filler = batch(bytes(60_000))
    for _ in range(2 * FETCH_BYTES // len(filler)):
        logs["bench", 1].append_bytes(filler, 0)

    async def main() -> None:
        server = Server(Hub(supported={key: api(key) for key in (PRODUCE, FETCH, METADATA)}))
        print(server.listen("127.0.0.1", 0), flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, handler_of(logs))
            await trio.lowlevel.wait_readable(sys.stdin)
            server.stop()

    trio.run(main)
    directory.close()


def frame_of(name: str) -> bytes:
    if name == "produce":
        body = encode_produce_request(7, None, 1, 30_000, [("bench", 0, batch(bytes(100)))])
        return request_frame(PRODUCE, 7, 7, "bench", body)
    if name == "fetch":
        asked = [("bench", 1, 0, FETCH_BYTES, -1, -1, -1)]
        body = encode_fetch_request(11, asked, max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES)
        return request_frame(FETCH, 11, 7, "bench", body)
    return struct.pack(">ihhih", 64, METADATA, 1, 7, 5) + b"bench".ljust(54, b"\0")


def measure(load: str, name: str, connections: int, depth: int, seconds: float) -> list[float]:
    """Requests and MB per second, CPU us per request, CPU ms per MB, latencies in us."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["taskset", "-c", "0", sys.executable, __file__, "serve", f"{folder}/data"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        frame = Path(folder, "frame")
        frame.write_bytes(frame_of(name))
        asked = {
            "run": "drive",
            "address": f"127.0.0.1:{port}",
            "frames": [str(frame)],
            "connections": connections,
            "depth": depth,
            "seconds": seconds,
            "warm_up_s": 0.5,
            "pids": [server.pid],
        }
        command = ["taskset", "-c", "1", load, json.dumps(asked)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        server.stdin.close()
        server.wait(10)
    per_s, mb_per_s, cpu = found["requests_per_s"], found["received_mb_per_s"], found["cpu_s"] / found["seconds"]
    latencies_us = [found["latency"][name] for name in ("p50_us", "p99_us", "p999_us")]
    return [per_s, mb_per_s, cpu / per_s * 1e6, cpu / mb_per_s * 1e3, *latencies_us]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    if DEBUG_BUILD:
        sys.exit("the native module is a debug build")
    load = str(build_load())
    print(f"{os.cpu_count()} cores, {time.strftime('%F')}, load average {os.getloadavg()[0]:.1f}")
    print(
        f"{'row':>8} {'conns':>5} {'depth':>5} {'req/s':>8} {'MB/s':>6} {'us CPU':>7} {'ms/MB':>6} p50, p99, p99.9 us"
    )
    for name, connections, depth in ROWS:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        runs = [measure(load, name, connections, depth, seconds) for _ in range(3)]
        row = [statistics.median(column) for column in zip(*runs, strict=True)]
        latencies = " ".join(f"{one:>6.0f}" for one in row[4:])
        rates = f"{row[0]:>8.0f} {row[1]:>6.0f} {row[2]:>7.2f} {row[3]:>6.2f}"
        print(f"{name:>8} {connections:>5} {depth:>5} {rates} {latencies}", flush=True)


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["serve"] else main()
