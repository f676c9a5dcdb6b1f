"""A leader that says what a test wants, and a follower that fetches from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla._core import (
    Fetcher,
    FetcherEvent,
    FetchRow,
    LargeAnswers,
    Log,
    LogConfig,
    LogDirectory,
    PartitionToRead,
    ReplicationQuota,
    Request,
)
from tests.net.support import Serving

TOKEN = 1 << 40


@pytest.fixture
def leading(tmp_path: Path) -> Iterator[list[Log]]:
    (tmp_path / "leader").mkdir()
    directory = LogDirectory.open(tmp_path / "leader")
    logs = directory.create("t", [0, 1], LogConfig())
    for log in logs:
        log.begin_epoch(4)
    yield logs
    directory.close()


@pytest.fixture
def following(tmp_path: Path) -> Iterator[list[Log]]:
    (tmp_path / "follower").mkdir()
    directory = LogDirectory.open(tmp_path / "follower")
    logs = directory.create("t", [0, 1], LogConfig())
    for log in logs:
        log.fence(4)
    yield logs
    directory.close()


class Leader:
    """Answers every Fetch from its logs, or as `instead` says. A Fetch that has nothing new to be told is kept."""

    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs
        self.instead: dict[int, FetchRow] = {}
        self.asked: list[tuple[int, int, list[tuple[int, int, int, int]]]] = []
        self.kept: Request | None = None
        #: The session: what is asked for next, and the high watermark that was told last.
        self.known: dict[int, tuple[int, int]] = {}

    def __call__(self, request: Request) -> None:
        asked = request.fetch()
        assert asked.replica_id == 2
        rows = [(row.key[1], row.offset, row.leader_epoch, row.last_fetched_epoch) for row in asked.partitions]
        self.asked.append((asked.session_id, asked.session_epoch, rows))
        self.kept = request
        if asked.session_epoch == 0:
            self.known.clear()
        for _, partition in asked.forgotten:
            del self.known[partition]
        for partition, offset, *_ in rows:
            self.known[partition] = (offset, -1)
        self.answer(is_due=asked.session_epoch == 0)

    def answer(self, is_due: bool = False) -> None:
        """Answers the Fetch that is kept, if there is something new."""
        rows = {}
        for partition, (offset, high_watermark) in self.known.items():
            log = self.logs[partition]
            if partition in self.instead:
                rows[partition] = self.instead[partition]
            elif offset < log.end_offset or high_watermark != log.high_watermark:
                records = log.read(offset, 1 << 20)
                self.known[partition] = (offset, log.high_watermark)
                rows[partition] = FetchRow(
                    high_watermark=log.high_watermark, log_start_offset=log.start_offset, records=records
                )
        if self.kept is not None and (rows or is_due):
            request, self.kept = self.kept, None
            of = [PartitionToRead(("t", partition), 0, 0) for partition in rows]
            request.reply_fetch([*rows.values()], of=of, session_id=7)


def fetcher(one: Serving, **changed: Any) -> Fetcher:
    settings: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": one.port,
        "replica_id": 2,
        "client_id": "broker-2-fetcher-0",
        "fetch_version": 12,
        "wait_max_ms": 500,
        "bytes_min": 1,
        "response_bytes_max": 10 << 20,
        "partition_bytes_max": 1 << 20,
        "batch_bytes_max": 1 << 20,
        "backoff_ms": 50,
        "socket_timeout_ms": 30_000,
        "receive_buffer_bytes": 65536,
        "quota": ReplicationQuota(11, 1),
        "large": LargeAnswers(1),
        "completions": one.hub.completions,
        "token": TOKEN,
    }
    return Fetcher(**{**settings, **changed})


def listen(one: Serving, fetching: Fetcher) -> list[FetcherEvent]:
    """The events of a fetcher, as its server's loop hears of them."""
    heard: list[FetcherEvent] = []

    def callback(value: object, error: BaseException | None) -> None:
        assert (value, error) == (None, None)
        heard.extend(fetching.events())

    one.server.listen_to(TOKEN, callback)
    return heard
