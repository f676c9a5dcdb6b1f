"""What a request costs in the hub: `.venv/bin/python benches/net_hub.py [SECONDS]`.

A server process on one core answers frames of 64 bytes with frames of 64 bytes, by a Python handler; a client in Rust
(benches/load.rs) on the other core keeps it busy. CPU is the server's, user and system, per request. Each row is the
median of three runs; on a shared machine only ratios taken in one run count.
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import trio

from ottla._core import DEBUG_BUILD, Hub, Request
from ottla.net import Server

ROOT = Path(__file__).parent.parent
METADATA = 3


def serve() -> None:
    """The server process: says its port, serves until its input ends."""
    answer = bytes(60)

    def handler(request: Request) -> None:
        request.reply(answer)

    async def main() -> None:
        server = Server(Hub(supported={METADATA: (0, 9)}))
        print(server.listen("127.0.0.1", 0), flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, handler)
            await trio.lowlevel.wait_readable(sys.stdin)
            server.stop()

    trio.run(main)


def load_binary() -> str:
    """Builds the client and returns its path."""
    command = ["cargo", "build", "--profile", "quick", "--no-default-features", "--bench", "load"]
    messages = subprocess.run([*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    built = [json.loads(line) for line in messages.splitlines()]
    return next(one["executable"] for one in built if one.get("executable"))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(load: str, port: int, pid: int, connections: int, depth: int, seconds: float, frame: Path) -> list[float]:
    before = cpu_s(pid)
    command = ["taskset", "-c", "1", load, f"127.0.0.1:{port}", *map(str, (connections, depth, seconds, frame))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    per_s, _, *latencies_us = map(float, output.split())
    # The warm-up of half a second costs CPU too.
    return [per_s, (cpu_s(pid) - before) / (per_s * (seconds + 0.5)) * 1e6, *latencies_us]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    if DEBUG_BUILD:
        sys.exit("the native module is a debug build")
    load = load_binary()
    print(f"{'connections':>11} {'depth':>5} {'requests/s':>10} {'CPU us':>7} {'p50':>6} {'p99':>6} {'p99.9':>6} us")
    for connections, depth in ((1, 1), (50, 1), (50, 16), (500, 1)):
        command = ["taskset", "-c", "0", sys.executable, __file__, "serve"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with tempfile.NamedTemporaryFile() as file:
            head = struct.pack(">hhih", METADATA, 1, 7, 5) + b"bench"
            Path(file.name).write_bytes(struct.pack(">i", 64) + head.ljust(64, b"\0"))
            runs = [measure(load, port, server.pid, connections, depth, seconds, Path(file.name)) for _ in range(3)]
        server.stdin.close()
        server.wait(10)
        row = [statistics.median(column) for column in zip(*runs, strict=True)]
        print(
            f"{connections:>11} {depth:>5} {row[0]:>10.0f} {row[1]:>7.2f} "
            + " ".join(f"{one:>6.0f}" for one in row[2:])
        )


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
