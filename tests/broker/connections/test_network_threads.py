"""`num.network.threads`: how many threads serve, and its change while a broker runs (KIP-226)."""

import contextlib
import logging
import os
import sys
import threading
from pathlib import Path

import pytest
import trio

from ottla._core import Hub
from ottla.broker import network_threads
from ottla.broker.network_threads import SETTING, VARIABLE, wanted
from ottla.config import BrokerConfig
from ottla.net import Server
from tests.support.client import Client, values
from tests.support.leased import One, produce, started
from tests.support.settings import alter
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

INVALID_REQUEST = 42


@pytest.fixture(autouse=True)
def by_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight processors, and nothing in the environment."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(network_threads, "processors", lambda: 8)


@pytest.mark.parametrize(
    ("given", "processors", "threads"),
    [
        # One processor is the loop's.
        (None, 1, 0),
        (None, 2, 0),
        (None, 3, 2),
        (None, 4, 3),
        (None, 64, 3),
        ("1", 64, 0),
        ("2", 64, 2),
        ("3", 2, 2),
        ("3", 1, 0),
        ("2147483647", 4, 4),
    ],
)
async def test_how_many(given: str | None, processors: int, threads: int) -> None:
    assert wanted(BrokerConfig({} if given is None else {SETTING: given}), processors) == threads


async def test_processors_that_the_process_may_not_use() -> None:
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{one}]); from ottla._core import processors; print(processors())"
    done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True)
    assert done.stdout.strip() == b"1"


def running() -> int:
    """The network threads of this process."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            names.append((task / "comm").read_text())
    return sum(name.startswith("ottla-network") for name in names)


async def change(one: One, threads: str | None) -> tuple[int, str | None]:
    found: tuple[int, str | None] = await one.talk(lambda client: alter(client, SETTING, threads))
    return found


async def test_it_changes_while_clients_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch, **{SETTING: "1"}) as one:
        await one.create("t")
        hub, port = one.broker.server.hub, one.broker.addresses.listening[0].port
        is_over = threading.Event()
        counts = [0] * 4

        def work(number: int) -> None:
            with Client.connect("127.0.0.1", port, "test") as client:
                while not is_over.is_set():
                    code, offset = produce(client, "t", b"%d" % number)
                    assert code == 0
                    assert values(client.fetch("t", offset=offset))[0] == b"%d" % number
                    counts[number] += 1

        async with trio.open_nursery() as nursery:
            for number in range(len(counts)):
                nursery.start_soon(trio.to_thread.run_sync, work, number)
            try:
                with trio.fail_after(2 * PATIENCE_S):
                    for threads in ("2", "4", "2", "1", "2", "1"):
                        assert await change(one, threads) == (0, None)
                        beside = int(threads) if threads != "1" else 0
                        await comes_true("so many run", lambda beside=beside: running() == beside)
                        assert len(hub.threads) == beside
                        before = list(counts)
                        await comes_true("all go on", lambda before=before: all(map(int.__gt__, counts, before)))
            finally:
                is_over.set()
        assert hub.moved_total > 0
        assert one.broker.replicas.partitions["t", 0].log.end_offset == sum(counts)
    assert running() == 0


async def test_a_change_of_more_than_double_or_half_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch, **{SETTING: "2"}) as one:
        assert len(one.broker.server.hub.threads) == 2
        for threads in ("0", "5"):
            code, message = await change(one, threads)
            assert (code, SETTING in str(message)) == (INVALID_REQUEST, True)
        assert len(one.broker.server.hub.threads) == 2


async def test_the_default_set_by_hand_is_no_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are as many as the default on a large machine, and one more than on one with three processors."""
    monkeypatch.setattr(network_threads, "processors", lambda: 3)
    async with started(tmp_path, monkeypatch) as one:
        hub = one.broker.server.hub
        assert len(hub.threads) == 2
        assert await change(one, "3") == (0, None)
        await comes_true("three serve", lambda: len(hub.threads) == 3)
        assert await change(one, None) == (0, None)
        await comes_true("two serve", lambda: len(hub.threads) == 2)


async def test_more_than_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network_threads, "processors", lambda: 2)
    with caplog.at_level(logging.INFO, network_threads.__name__):
        async with started(tmp_path, monkeypatch, **{SETTING: "2147483647"}) as one:
            assert len(one.broker.server.hub.threads) == 2
    assert caplog.messages.count(f"{SETTING} is 2147483647, and 2 processors may be used: as many threads serve") == 1


async def test_a_system_that_gives_no_more_threads(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        threads = ((0, 0),)

        def serve_beside(self, threads: int) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

        def __getattr__(self, name: str) -> object:
            return getattr(hub, name)

    hub = Hub(supported={})
    server = Server(hub)
    server.serve_by(3)
    server.hub = Refusing()  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run, lambda request: None)
        await comes_true("a line says so", lambda: bool(caplog.messages))
        server.stop()
    (line,) = caplog.messages
    assert line.startswith("1 of 3 network threads serve, for the system gives no more: [Errno 11]")
