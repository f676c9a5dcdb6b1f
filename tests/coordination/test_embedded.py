"""The particulars of the embedded tree: its thread, its fsync, its failures."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.coordination.database import TreeDatabase
from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from ottla.coordination.tree import (
    ConnectionLoss,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    TreeError,
    Unavailable,
    WatchEvent,
)
from tests.peers.disks import small_tmpfs
from tests.support.directories import fill
from tests.support.waiting import PATIENCE_S


@pytest.mark.trio
async def test_the_loop_never_touches_the_database(tmp_path: Path) -> None:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        thread = await tree._store.call(lambda _: threading.current_thread())
        assert thread is not threading.current_thread()
        assert thread.name == "ottla-tree"
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


async def busy(tree: EmbeddedTree, nursery: trio.Nursery) -> threading.Event:
    """The tree's thread does nothing until the event is set: what comes before that is one batch."""
    began, release = threading.Event(), threading.Event()

    def wait(_: TreeDatabase) -> None:
        began.set()
        release.wait(PATIENCE_S)

    nursery.start_soon(tree._store.call, wait)
    assert await trio.to_thread.run_sync(began.wait, PATIENCE_S)
    return release


@pytest.mark.trio
async def test_waiting_operations_share_a_commit(tmp_path: Path) -> None:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        commits = 0

        def count(database: TreeDatabase) -> None:
            def trace(statement: str) -> None:
                nonlocal commits
                commits += statement == "COMMIT"

            database._sql.set_trace_callback(trace)

        await tree._store.call(count)
        async with trio.open_nursery() as nursery:
            release = await busy(tree, nursery)
            for number in range(100):
                nursery.start_soon(tree.create, f"/{number}")
            await trio.testing.wait_all_tasks_blocked()
            release.set()
        assert len(await tree.children("/")) == 100
        assert commits == 1


@pytest.mark.trio
async def test_a_second_opening_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "tree")
    async with await EmbeddedTree.open(path):
        with pytest.raises(Unavailable, match="in use"):
            await EmbeddedTree.open(path)
    async with await EmbeddedTree.open(path):
        pass


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_tmpfs(tmp_path / "small", 12) as path:
        yield path


@pytest.mark.trio
async def test_a_full_disk_is_waited_for_and_nothing_half_written_is_there(small_disk: Path) -> None:
    path = str(small_disk / "tree")
    store = await EmbeddedStore.open(path)
    tree, other = await store.session(), await store.session()
    states: list[SessionState] = []
    other.listen(states.append)
    filler = fill(small_disk)
    # Space is kept for the tree.
    written = [await tree.create(f"/small-{number}", b"x" * 100) for number in range(500)]
    await tree.delete(written.pop())
    events: list[object] = []
    await other.children("/", events.append)
    with pytest.raises(ConnectionLoss, match="no room"):
        await tree.create("/large", b"x" * 8_000_000)
    assert (tree.state, states) == (SessionState.SUSPENDED, [SessionState.SUSPENDED])
    # Others that came at the same time: what reads is answered, what changes nothing is done.
    with pytest.raises(ConnectionLoss):
        await tree.create("/large", b"x" * 8_000_000)
    await trio.testing.wait_all_tasks_blocked()
    assert await other.children("/") == sorted(path.strip("/") for path in written)
    assert await tree.exists("/large") is None
    assert events == []
    filler.unlink()
    with trio.fail_after(PATIENCE_S):
        await tree.wait_connected()
    assert states[-1] is SessionState.CONNECTED
    await tree.create("/after", b"x" * 100)
    written.append("/after")
    assert len(events) == 1
    await store.aclose()
    async with await EmbeddedTree.open(path) as again:
        assert await again.children("/") == sorted(path.strip("/") for path in written)


@pytest.mark.trio
async def test_all_of_a_batch_that_finds_no_room_is_undone_and_its_reads_are_answered(small_disk: Path) -> None:
    async with await EmbeddedTree.open(str(small_disk / "tree")) as tree:
        await tree.create("/before")
        fill(small_disk)
        seen: dict[str, object] = {}

        async def note(name: str, call: Callable[[], Awaitable[object]]) -> None:
            try:
                seen[name] = await call()
            except TreeError as error:
                seen[name] = type(error)

        async with trio.open_nursery() as nursery:
            release = await busy(tree, nursery)
            for name, call in (
                ("small", lambda: tree.create("/small")),
                ("large", lambda: tree.create("/large", b"x" * 8_000_000)),
                ("again", lambda: tree.create("/before")),
                ("read", lambda: tree.children("/")),
            ):
                nursery.start_soon(note, name, call)
                await trio.testing.wait_all_tasks_blocked()
            release.set()
        assert seen == {"small": ConnectionLoss, "large": ConnectionLoss, "again": NodeExists, "read": ["before"]}


@pytest.mark.trio
async def test_another_failure_closes_the_tree(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    tree = await store.session()
    states: list[SessionState] = []
    tree.listen(states.append)

    def fail(_: TreeDatabase) -> None:
        raise OSError(errno.EIO, "a disk that fails")

    with pytest.raises(Unavailable, match="a disk that fails"):
        await store.call(fail)
    with pytest.raises(Unavailable):
        await tree.create("/small")
    await trio.testing.wait_all_tasks_blocked()
    assert states == [SessionState.CLOSED]
    await store.aclose()


@pytest.mark.trio
async def test_an_error_in_a_watch_does_not_end_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:

        def bad(_: object) -> None:
            raise RuntimeError("a bug")

        await tree.exists("/a", bad)
        await tree.create("/a")
        await tree.get("/a")
    assert "a watch of /a raised" in caplog.text


CRASH = """
import os, sys, trio
from ottla.coordination.embedded import EmbeddedTree

async def main():
    tree = await EmbeddedTree.open(sys.argv[1])
    await tree.create("/mine", b"x", ephemeral=True)
    number = 0
    while True:
        await tree.create(f"/{number}", b"x" * 100)
        os.write(1, b"%d\\n" % number)
        number += 1

trio.run(main)
"""


def test_kill_9_keeps_every_answered_write(tmp_path: Path) -> None:
    path = str(tmp_path / "tree")
    process = subprocess.Popen([sys.executable, "-c", CRASH, path], stdout=subprocess.PIPE, env={**os.environ})
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    told += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
    process.wait()
    process.stdout.close()
    database = TreeDatabase(path)
    assert {str(number) for number in told} <= set(database.children("/"))
    with pytest.raises(NoNode):
        database.get("/mine")
    database.close()


@pytest.mark.trio
async def test_opening_takes_little(tmp_path: Path) -> None:
    """Only files beside each other: no folder, which Kafka would refuse in a log directory."""
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        await tree.create("/a")
        assert all(entry.is_file() for entry in tmp_path.iterdir())


class OtherLoop:
    """A loop on a thread of its own, with a session of a store's. `do` runs something there."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=[self._run], daemon=True)

    async def _run(self) -> None:
        self.tree = await self._store.session()
        self.token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self._scope:
            self._ready.set()
            await trio.sleep_forever()

    async def __aenter__(self) -> OtherLoop:
        self._thread.start()
        await trio.to_thread.run_sync(self._ready.wait, PATIENCE_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await self.gone()

    async def gone(self) -> None:
        """The loop ends, and its session does not."""
        if self._thread.is_alive():
            self.token.run_sync_soon(self._scope.cancel)
            await trio.to_thread.run_sync(self._thread.join, PATIENCE_S)

    async def do(self, work: Callable[[], Awaitable[object]]) -> object:
        def call() -> object:
            return trio.from_thread.run(work, trio_token=self.token)

        return await trio.to_thread.run_sync(call)


@pytest.mark.trio
async def test_nothing_is_made_for_a_session_that_has_expired(tmp_path: Path) -> None:
    """Nobody would remove an ephemeral node of such a session."""
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    tree = await store.session()
    states: list[SessionState] = []
    tree.listen(states.append)
    former = tree.session_id
    await tree.create("/mine", ephemeral=True)
    await store.end(former)
    tree.has_expired()
    with pytest.raises(SessionExpired, match="has not begun"):
        await tree.create("/mine", ephemeral=True)
    await tree.renew()
    assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert tree.session_id > former
    assert await tree.exists("/mine") is None
    await tree.create("/mine", ephemeral=True)
    await store.aclose()


@pytest.mark.trio
async def test_sessions_of_two_loops_share_a_tree(tmp_path: Path) -> None:
    """Each hears in its own thread of what the other one does, and reads what the other one has written."""
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    here = await store.session()
    async with OtherLoop(store) as other:
        heard: list[tuple[str, str]] = []
        fired = trio.Event()

        def there(event: WatchEvent) -> None:
            heard.append((event.path, threading.current_thread().name))
            home.run_sync_soon(fired.set)

        home = trio.lowlevel.current_trio_token()
        await here.create("/a", b"1")
        assert await other.do(lambda: other.tree.exists("/a", there)) is not None
        await here.set("/a", b"2")
        with trio.fail_after(PATIENCE_S):
            await fired.wait()
        assert heard == [("/a", other._thread.name)]
        told = trio.Event()
        await here.exists("/mine", lambda _: told.set())
        await other.do(lambda: other.tree.create("/mine", ephemeral=True))
        with trio.fail_after(PATIENCE_S):
            await told.wait()
        # Its loop is gone, and its session is not: as that of a process that was killed.
        session_id = other.tree.session_id
        await other.gone()
        assert await here.exists("/mine") is not None
        gone = trio.Event()
        await here.exists("/mine", lambda _: gone.set())
        await store.end(session_id)
        with trio.fail_after(PATIENCE_S):
            await gone.wait()
        assert await here.exists("/mine") is None
    await store.aclose()


@pytest.mark.trio
async def test_sessions_of_all_loops_hear_that_the_tree_failed(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(str(tmp_path / "tree"))
    here = await store.session()
    async with OtherLoop(store) as other:
        home, states, told = trio.lowlevel.current_trio_token(), [], trio.Event()

        def listener(state: SessionState) -> None:
            states.append((state, threading.current_thread().name))
            home.run_sync_soon(told.set)

        other.tree.listen(listener)

        def fail(_: TreeDatabase) -> None:
            raise OSError(errno.EIO, "broken")

        with pytest.raises(Unavailable):
            await store.call(fail)
        with trio.fail_after(PATIENCE_S):
            await told.wait()
        assert states == [(SessionState.CLOSED, other._thread.name)]
        assert here.state is SessionState.CLOSED
    await store.aclose()
