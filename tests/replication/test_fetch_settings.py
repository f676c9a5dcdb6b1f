"""The settings of a follower's Fetch: a native fetcher that is given what the settings say, and a leader that sees how
it asks.
"""

import os
import socket
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla._core import FetchRequest, FetchRow, Log, PartitionToFetch, Request
from tests.net.support import serving
from tests.replication import followers
from tests.replication.scripted_leader import Leader, fetcher, leading, listen
from tests.replication.scripted_leader import following as followed

__all__ = ["followed", "leading"]
pytestmark = pytest.mark.trio

OF_EACH = {
    "replica.fetch.wait.max.ms": "wait_max_ms",
    "replica.fetch.min.bytes": "bytes_min",
    "replica.fetch.response.max.bytes": "response_bytes_max",
    "replica.fetch.max.bytes": "partition_bytes_max",
    "replica.fetch.backoff.ms": "backoff_ms",
    "replica.socket.timeout.ms": "socket_timeout_ms",
    "replica.socket.receive.buffer.bytes": "receive_buffer_bytes",
}
NOT_LEADER_OR_FOLLOWER = 6


@pytest.fixture
def with_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Gives what a broker with these settings gives to its fetchers, as far as settings say it."""

    async def given(settings: dict[str, int]) -> dict[str, Any]:
        texts = {name: str(value) for name, value in settings.items()}
        async with followers.following(tmp_path / "broker", monkeypatch, **texts) as stand:
            await stand.follow(0)
            await stand.until(lambda: stand.fetchers)
            options = stand.fetchers[0].settings
            return {option: options[option] for option in OF_EACH.values()}

    return given


@pytest.mark.parametrize(
    ("setting", "value", "seen"),
    [
        ("replica.fetch.wait.max.ms", 321, lambda asked: asked.max_wait_ms),
        ("replica.fetch.min.bytes", 17, lambda asked: asked.min_bytes),
        ("replica.fetch.response.max.bytes", 54_321, lambda asked: asked.max_bytes),
        ("replica.fetch.max.bytes", 4_321, lambda asked: asked.partitions[0].bytes_max),
    ],
)
async def test_how_a_follower_asks(
    with_settings: Callable[..., Any],
    leading: list[Log],
    followed: list[Log],
    setting: str,
    value: int,
    seen: Callable[[FetchRequest], int],
) -> None:
    leader = Leader(leading)
    asked: list[int] = []

    def handler(request: Request) -> None:
        if (fetch := request.fetch()).session_epoch == 0:
            asked.append(seen(fetch))
        leader(request)

    options = await with_settings({setting: value})
    async with serving(handler) as one:
        with closing(fetcher(one, **options)) as fetching:
            fetching.add([PartitionToFetch("t", 0, followed[0], leader_epoch=4)])
            await one.until(lambda: asked)
    assert asked == [value]


async def test_a_partition_that_failed_is_asked_for_after_the_backoff(
    with_settings: Callable[..., Any], leading: list[Log], followed: list[Log]
) -> None:
    backoff_s = 1.4  # longer than the default
    leader = Leader(leading)
    leader.instead = {0: FetchRow(NOT_LEADER_OR_FOLLOWER)}
    times: list[float] = []

    def handler(request: Request) -> None:
        # The second one need not name the partition, which is in the session.
        times.append(time.monotonic())
        leader(request)

    options = await with_settings({"replica.fetch.backoff.ms": int(backoff_s * 1000)})
    async with serving(handler) as one:
        with closing(fetcher(one, **options)) as fetching:
            fetching.add([PartitionToFetch("t", 0, followed[0], leader_epoch=4)])
            await one.until(lambda: len(times) == 2)
    assert times[1] - times[0] >= backoff_s * 0.95


async def test_a_leader_that_does_not_answer_is_given_up_after_the_timeout(
    with_settings: Callable[..., Any], followed: list[Log]
) -> None:
    """Its connection is closed, and made anew. The default is longer than this test may take."""
    timeout_s = 0.6
    kept: list[Request] = []
    options = await with_settings({"replica.socket.timeout.ms": int(timeout_s * 1000)})
    async with serving(kept.append) as one:
        with closing(fetcher(one, **options)) as fetching:
            heard = listen(one, fetching)
            begin = time.monotonic()
            fetching.add([PartitionToFetch("t", 0, followed[0], leader_epoch=4)])
            await one.until(lambda: heard)
            assert time.monotonic() - begin >= timeout_s
            assert [event.kind for event in heard] == ["connection"]
            await one.until(lambda: len(kept) >= 2)


@pytest.mark.parametrize("size", [32_768, 131_072])
async def test_the_buffer_of_the_socket(
    with_settings: Callable[..., Any], leading: list[Log], followed: list[Log], size: int
) -> None:
    leader = Leader(leading)
    options = await with_settings({"replica.socket.receive.buffer.bytes": size})
    async with serving(leader) as one:
        with closing(fetcher(one, **options)) as fetching:
            fetching.add([PartitionToFetch("t", 0, followed[0], leader_epoch=4)])
            await one.until(lambda: leader.asked)
            # Linux takes as much again for its own accounts.
            assert received_into(one.port) == [2 * size]


def received_into(port: int) -> list[int]:
    """SO_RCVBUF of this process's sockets that are connected to the port."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not stat.S_ISSOCK(os.stat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family == socket.AF_INET and one.getpeername()[1] == port:
                    found.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    return found
