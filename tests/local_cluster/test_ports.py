"""Ports are claimed by one start at a time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.local_cluster import LocalClusterError, running
from ottla.local_cluster.ports import Claims, is_free
from tests.support.waiting import PATIENCE_S

STARTS = 8


def some_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return found


def test_starts_at_the_same_moment_choose_different_ports() -> None:
    ports = some_ports(STARTS)
    together, chosen = threading.Barrier(STARTS), threading.Barrier(STARTS)
    found: list[int | None] = []

    def choose() -> None:
        with Claims() as claims:
            together.wait(PATIENCE_S)
            found.append(claims.take_first(ports))
            # The processes would listen only later.
            chosen.wait(PATIENCE_S)

    threads = [threading.Thread(target=choose) for _ in range(STARTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(one for one in found if one is not None) == sorted(ports)


def test_a_claim_ends_with_its_block_and_its_process() -> None:
    (port,) = some_ports(1)
    with Claims() as one, Claims() as other:
        assert one.take(port)
        assert one.take(port), "it is its own"
        assert not other.take(port)
        assert other.take_first([port]) is None
        assert is_free(port), "a claim listens nowhere"
    with Claims() as another:
        assert another.take(port)
    lines = f"""
from ottla.local_cluster.ports import Claims
import time
print(Claims().take({port}), flush=True)
claims = Claims()
print(claims.take({port}), flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["True\n", "True\n"]
        with Claims() as claims:
            assert not claims.take(port)
            process.kill()
            process.wait(PATIENCE_S)
            assert claims.take(port)


def test_a_port_of_another_program_is_not_claimed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, Claims() as claims:
        port = listener.getsockname()[1]
        assert not claims.take(port)
        listener.close()
        assert claims.take(port)


def test_a_cluster_does_not_start_at_the_ports_of_another_start(tmp_path: Path) -> None:
    port = next(one for one in some_ports(20) if one < 65_000 and all(is_free(one + more) for more in range(3)))
    with Claims() as others:
        assert others.take(port + 1)
        with pytest.raises(LocalClusterError, match=f"another cluster is being started at .*:{port + 1}: "):
            running.start(tmp_path, count=3, port=port)
    with Claims() as claims:
        assert all(claims.take(port + more) for more in range(3)), "it has given its claims back"
