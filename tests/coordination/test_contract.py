"""The contract of every coordination tree: the same tests for the embedded one and for a real ZooKeeper server."""

from __future__ import annotations

import pytest
import trio

from ottla.coordination.tree import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Delete,
    EphemeralParent,
    EventKind,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    Set,
    Tree,
    Unavailable,
    WatchEvent,
    in_batches,
)
from tests.coordination.conftest import Trees
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


class Events:
    """Collects what a watch is told."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[WatchEvent](100)

    def __call__(self, event: WatchEvent) -> None:
        self._send.send_nowait(event)

    async def next(self) -> WatchEvent:
        with trio.fail_after(PATIENCE_S):
            return await self._receive.receive()

    def none(self) -> bool:
        return self._receive.statistics().current_buffer_used == 0


async def test_create_get_set_delete(tree: Tree) -> None:
    assert await tree.create("/a", b"one") == "/a"
    data, stat = await tree.get("/a")
    assert data == b"one"
    assert (stat.version, stat.data_length, stat.children_count, stat.ephemeral_owner) == (0, 3, 0, 0)
    assert stat.czxid == stat.mzxid > 0
    assert stat.ctime_ms == stat.mtime_ms > 1_600_000_000_000

    changed = await tree.set("/a", b"three")
    assert (changed.version, changed.data_length, changed.czxid) == (1, 5, stat.czxid)
    assert changed.mzxid > stat.mzxid
    assert await tree.exists("/a") == changed

    await tree.delete("/a")
    assert await tree.exists("/a") is None


async def test_what_others_wrote_is_read_after_a_sync(trees: Trees) -> None:
    ours, theirs = await trees.open(), await trees.open()
    await theirs.create("/a", b"written")
    await ours.sync()
    assert (await ours.get("/a")).data == b"written"


async def test_errors_say_what_is_wrong(tree: Tree) -> None:
    await tree.create("/a")
    await tree.create("/a/b")
    with pytest.raises(NodeExists):
        await tree.create("/a")
    with pytest.raises(NoNode):
        await tree.create("/missing/child")
    with pytest.raises(NoNode):
        await tree.get("/missing")
    with pytest.raises(NoNode):
        await tree.set("/missing", b"")
    with pytest.raises(NoNode):
        await tree.delete("/missing")
    with pytest.raises(NoNode):
        await tree.children("/missing")
    with pytest.raises(NotEmpty):
        await tree.delete("/a")
    with pytest.raises(BadVersion):
        await tree.set("/a", b"x", 7)
    with pytest.raises(BadVersion):
        await tree.delete("/a/b", 7)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\0"])
async def test_paths_that_are_none(tree: Tree, path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        await tree.get(path)
    with pytest.raises(ValueError, match="not a path"):
        await tree.create(path)


async def test_conditional_set_is_a_compare_and_set(tree: Tree) -> None:
    await tree.create("/a", b"0")
    stat = await tree.set("/a", b"1", 0)
    with pytest.raises(BadVersion):
        await tree.set("/a", b"2", 0)
    assert (await tree.set("/a", b"2", stat.version)).version == 2


async def test_get_many_marks_what_is_missing(tree: Tree) -> None:
    await tree.create("/a", b"1")
    await tree.create("/c", b"3")
    nodes = await tree.get_many(["/a", "/b", "/c"])
    assert [node and node.data for node in nodes] == [b"1", None, b"3"]
    assert await tree.get_many([]) == []


async def test_get_many_watches_each_that_is_there(trees: Trees) -> None:
    tree, other = await trees.open(), await trees.open()
    for path in ("/a", "/c", "/d"):
        await tree.create(path, path.encode())
    paths = ["/a", "/b", "/c", "/d"]
    heard = [Events() for _ in paths]
    nodes = await tree.get_many(paths, heard)
    assert [node and node.data for node in nodes] == [b"/a", None, b"/c", b"/d"]
    await other.create("/b")
    await other.set("/a", b"2")
    await other.delete("/c")
    await other.set("/a", b"3")
    assert await heard[0].next() == WatchEvent(EventKind.CHANGED, "/a")
    assert await heard[2].next() == WatchEvent(EventKind.DELETED, "/c")
    assert [each.none() for each in heard] == [True] * 4
    assert await tree.get_many([], []) == []


async def test_children_are_names_in_order(tree: Tree) -> None:
    await tree.create("/a")
    for name in ("z", "10", "2", "ä"):
        await tree.create(f"/a/{name}")
    assert await tree.children("/a") == ["10", "2", "z", "ä"]
    stat = await tree.exists("/a")
    assert stat is not None
    assert stat.children_count == 4
    assert stat.cversion == 4
    await tree.delete("/a/z")
    after = await tree.exists("/a")
    assert after is not None
    assert (after.children_count, after.cversion, after.version) == (3, 5, 0)
    assert after.pzxid > stat.pzxid


async def test_sequential_numbers_never_repeat(tree: Tree) -> None:
    await tree.create("/q")
    first = await tree.create("/q/n_", b"x", sequential=True)
    await tree.delete(first)
    second = await tree.create("/q/n_", b"y", sequential=True)
    assert (first, second) == ("/q/n_0000000000", "/q/n_0000000001")
    assert (await tree.get(second)).data == b"y"


async def test_ephemeral_nodes_go_with_their_session(trees: Trees) -> None:
    one, other = await trees.open(), await trees.open()
    await one.create("/mine", b"x", ephemeral=True)
    stat = await other.exists("/mine")
    assert stat is not None
    assert stat.ephemeral_owner == one.session_id != 0
    with pytest.raises(EphemeralParent):
        await one.create("/mine/child")
    gone = Events()
    await other.exists("/mine", gone)
    await one.aclose()
    assert await gone.next() == WatchEvent(EventKind.DELETED, "/mine")
    assert await other.exists("/mine") is None


async def test_multi_is_all_or_nothing(tree: Tree) -> None:
    await tree.create("/a", b"0")
    with pytest.raises(BadVersion) as failure:
        await tree.multi([Create("/b"), Set("/a", b"1"), Check("/a", 5), Delete("/a")])
    assert failure.value.index == 2
    assert await tree.exists("/b") is None
    assert (await tree.get("/a")).data == b"0"

    results = await tree.multi(
        [Check("/a", 0), Create("/b", b"b"), Create("/b/n-", b"", sequential=True), Set("/a", b"1", 0), Delete("/a")]
    )
    assert results[:3] == [None, "/b", "/b/n-0000000000"]
    assert results[3].version == 1
    assert results[4] is None
    assert await tree.exists("/a") is None
    node = await tree.exists("/b")
    child = await tree.exists("/b/n-0000000000")
    assert node is not None
    assert child is not None
    assert node.czxid == child.czxid == results[3].mzxid


@pytest.mark.parametrize(
    ("operation", "error"),
    [(Create("/a"), NodeExists), (Create("/x/y"), NoNode), (Delete("/p"), NotEmpty), (Set("/x", b""), NoNode)],
)
async def test_multi_names_the_operation_that_failed(tree: Tree, operation: Create, error: type[Exception]) -> None:
    await tree.multi([Create("/a"), Create("/p"), Create("/p/q")])
    with pytest.raises(error) as failure:
        await tree.multi([Check("/a", 0), operation, Create("/never")])
    assert failure.value.index == 1  # type: ignore[attr-defined]
    assert await tree.exists("/never") is None


async def test_a_check_of_any_version_wants_the_node(tree: Tree) -> None:
    await tree.create("/a")
    await tree.set("/a", b"1")
    assert await tree.multi([Check("/a", ANY_VERSION), Create("/b")]) == [None, "/b"]
    with pytest.raises(NoNode) as failed:
        await tree.multi([Set("/a", b"2"), Check("/c", ANY_VERSION)])
    assert failed.value.index == 1
    assert (await tree.get("/a")).data == b"1"


async def test_what_is_ensured_may_be_more_than_one_transaction_holds(tree: Tree) -> None:
    names = ["x" * 100_000 + str(number) for number in range(7)]
    await tree.ensure(*(f"/above/{name}" for name in names))
    assert await tree.children("/above") == names


async def test_a_sequence_and_a_set_in_one_multi_see_each_other(tree: Tree) -> None:
    """How a broker registers: the version in the second operation is that of the first one's node."""
    results = await tree.multi([Create("/a", b"", ephemeral=True), Set("/a", b"data", 0)])
    node = await tree.get("/a")
    assert node.data == b"data"
    assert node.stat == results[1]
    assert node.stat.czxid == node.stat.mzxid


async def test_zxids_grow(tree: Tree) -> None:
    await tree.create("/a")
    await tree.delete("/a")
    await tree.create("/a")
    second = await tree.exists("/a")
    await tree.delete("/a")
    await tree.create("/a")
    third = await tree.exists("/a")
    assert second is not None
    assert third is not None
    assert second.czxid < third.czxid


async def test_data_watches_fire_once(trees: Trees) -> None:
    tree, other = await trees.open(), await trees.open()
    await tree.create("/a", b"0")
    events = Events()
    await tree.get("/a", events)
    await tree.get("/a", events)
    await other.set("/a", b"1")
    assert await events.next() == WatchEvent(EventKind.CHANGED, "/a")
    await other.set("/a", b"2")
    assert (await tree.get("/a")).data == b"2"
    assert events.none()


async def test_exists_watches_fire_on_creation_and_deletion(tree: Tree) -> None:
    events = Events()
    assert await tree.exists("/a", events) is None
    await tree.create("/a")
    assert await events.next() == WatchEvent(EventKind.CREATED, "/a")
    await tree.exists("/a", events)
    await tree.delete("/a")
    assert await events.next() == WatchEvent(EventKind.DELETED, "/a")


async def test_get_of_nothing_arms_nothing(tree: Tree) -> None:
    events = Events()
    with pytest.raises(NoNode):
        await tree.get("/a", events)
    await tree.create("/a")
    await tree.exists("/a")
    assert events.none()


async def test_children_watches(tree: Tree) -> None:
    await tree.create("/a")
    events = Events()
    await tree.children("/a", events)
    await tree.set("/a", b"its own data are not its children")
    await tree.create("/a/b")
    assert await events.next() == WatchEvent(EventKind.CHILDREN, "/a")
    await tree.children("/a", events)
    await tree.set("/a/b", b"nor are its children's data")
    await tree.create("/a/b/c")
    await tree.delete("/a/b/c")
    assert events.none()
    await tree.delete("/a/b")
    assert await events.next() == WatchEvent(EventKind.CHILDREN, "/a")
    await tree.children("/a", events)
    await tree.delete("/a")
    assert await events.next() == WatchEvent(EventKind.DELETED, "/a")


async def test_a_watch_is_told_before_the_answer_that_shows_the_change(trees: Trees) -> None:
    tree, other = await trees.open(), await trees.open()
    await tree.create("/a", b"0")
    for turn in range(1, 30):
        events = Events()
        await tree.get("/a", events)
        await other.set("/a", b"%d" % turn)
        with trio.fail_after(PATIENCE_S):
            while (await tree.get("/a")).data != b"%d" % turn:
                pass
        assert not events.none()


async def test_a_change_between_an_event_and_the_next_read_is_seen(trees: Trees) -> None:
    """Two changes, one event: what matters is that the read which arms again returns the second."""
    tree, other = await trees.open(), await trees.open()
    await tree.create("/a", b"0")
    events = Events()
    await tree.get("/a", events)
    await other.set("/a", b"1")
    await other.set("/a", b"2")
    assert (await events.next()).kind is EventKind.CHANGED
    node = await tree.get("/a", events)
    assert (node.data, node.stat.version) == (b"2", 2)
    await other.set("/a", b"3")
    assert (await events.next()).kind is EventKind.CHANGED


async def test_a_watch_of_a_multi_fires_after_all_of_it(trees: Trees) -> None:
    tree, other = await trees.open(), await trees.open()
    await tree.create("/a")
    events = Events()
    await tree.children("/a", events)
    await other.multi([Create("/a/1"), Create("/a/2"), Create("/a/3")])
    assert await events.next() == WatchEvent(EventKind.CHILDREN, "/a")
    assert await tree.children("/a") == ["1", "2", "3"]
    assert events.none()


async def test_operations_keep_the_order_in_which_they_were_started(tree: Tree) -> None:
    await tree.create("/a", b"")
    done: list[int] = []

    async def write(turn: int, started: trio.Event, previous: trio.Event | None) -> None:
        if previous is not None:
            await previous.wait()
        started.set()
        await tree.set("/a", b"%d" % turn, turn)
        done.append(turn)

    async with trio.open_nursery() as nursery:
        previous = None
        for turn in range(50):
            started = trio.Event()
            nursery.start_soon(write, turn, started, previous)
            previous = started
    # Each write expected the version that the one before it left; the tasks themselves wake in any order.
    assert sorted(done) == list(range(50))


async def test_a_session_that_expires(trees: Trees) -> None:
    tree, other = await trees.open(), await trees.open()
    states: list[SessionState] = []
    tree.listen(states.append)
    await tree.create("/mine", b"x", ephemeral=True)
    await tree.create("/kept", b"x")
    old_session = tree.session_id
    events, gone = Events(), Events()
    await tree.get("/kept", events)
    await other.exists("/mine", gone)

    await trees.expire(tree)
    assert await gone.next() == WatchEvent(EventKind.DELETED, "/mine")
    assert await events.next() == WatchEvent(EventKind.LOST, "/kept")
    with trio.fail_after(PATIENCE_S):
        while SessionState.CONNECTED not in states:
            await wait_for_change(tree)
    assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert tree.session_id not in (0, old_session)
    assert await tree.exists("/mine") is None
    await tree.create("/mine", ephemeral=True)
    stat = await other.exists("/mine")
    assert stat is not None
    assert stat.ephemeral_owner == tree.session_id
    # A watch of the dead session stays dead, one of the new session works.
    await tree.get("/kept", events)
    await other.set("/kept", b"y")
    assert await events.next() == WatchEvent(EventKind.CHANGED, "/kept")
    assert events.none()


async def wait_for_change(tree: Tree) -> None:
    changed = trio.Event()
    remove = tree.listen(lambda _: changed.set())
    await changed.wait()
    remove()


async def test_calls_under_way_when_the_session_ends_do_not_hang(trees: Trees) -> None:
    tree = await trees.open()
    await tree.create("/a")
    outcomes: list[str] = []

    async def write() -> None:
        try:
            await tree.set("/a", b"x")
            outcomes.append("done")
        except (SessionExpired, ConnectionLoss):
            outcomes.append("unknown")

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(write)
            nursery.start_soon(trees.expire, tree)
            for _ in range(20):
                nursery.start_soon(write)
    assert len(outcomes) == 40


async def test_a_closed_tree_refuses(trees: Trees) -> None:
    tree = await trees.open()
    await tree.aclose()
    assert tree.state is SessionState.CLOSED
    with pytest.raises(Unavailable):
        await tree.get("/")
    with pytest.raises(Unavailable):
        await tree.wait_connected()
    await tree.aclose()


async def test_cancelling_a_call_leaves_the_tree_usable(tree: Tree) -> None:
    await tree.create("/a")
    for _ in range(20):
        with trio.CancelScope() as scope:
            scope.cancel()
            await tree.set("/a", b"x")
        with trio.move_on_after(0.0001):
            await tree.set("/a", b"y")
    assert (await tree.set("/a", b"z")).version > 0


async def test_ensure_and_delete_all(tree: Tree) -> None:
    await tree.ensure("/a/b/c")
    await tree.ensure("/a/b/c")
    await tree.ensure("/a/b/d")
    assert await tree.children("/a/b") == ["c", "d"]
    await tree.delete_all("/a")
    await tree.delete_all("/a")
    assert await tree.exists("/a") is None


async def test_a_topic_of_2000_partitions_in_batches(tree: Tree) -> None:
    await tree.create("/epoch", b"1")
    await tree.create("/t")
    nodes = [Create(f"/t/{i}", b"x" * 100) for i in range(2000)]
    batches = in_batches(nodes, bytes_max=100_000)
    assert sum(map(len, batches)) == 2000
    for batch in batches:
        assert len(await tree.multi([Check("/epoch", 0), *batch])) == 1 + len(batch)
    found = await tree.get_many([f"/t/{i}" for i in range(2001)])
    assert [node is None for node in found] == [False] * 2000 + [True]
    assert len(await tree.children("/t")) == 2000


async def test_a_megabyte_is_not_too_much(tree: Tree) -> None:
    await tree.create("/large", b"x" * 1_000_000)
    assert len((await tree.get("/large")).data) == 1_000_000
