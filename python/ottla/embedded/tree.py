"""The coordination tree of a cluster inside a program: one file and one thread, with a session for each broker."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import trio

from ottla.coordination import znodes
from ottla.coordination.embedded import TREE_FILE, EmbeddedStore, EmbeddedTree
from ottla.coordination.tree import Tree, get_or_none
from ottla.coordination.znodes import PartitionState


class Silence:
    """The time in which nothing is heard of a session."""

    def __init__(self, session_id: int, timeout_s: float) -> None:
        self.session_id = session_id
        self.timeout_s = timeout_s
        self.scope = trio.CancelScope()
        #: One of both becomes true first, in the loop of the tree.
        self.is_heard = self.is_over = False


class ClusterTree:
    """Is what ZooKeeper is to brokers that are processes: it lives while they come and go, and a session outlives a
    broker that was killed, for as long as its timeout is.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / TREE_FILE
        self.place = f"this process, at {self._file}"
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="ottla-cluster-tree", daemon=True)

    def start(self) -> None:
        """Returns when there is a tree. Raises Unavailable, OSError."""
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """Closes the file. The brokers have ended before."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._serves.cancel)
            self._thread.join()

    async def session(self) -> Tree:
        """A session of the loop that calls it."""
        return await self._store.session()

    def left(self, tree: Tree, timeout_s: float) -> None:
        """A broker ends without closing its session, which ends after its timeout."""
        assert isinstance(tree, EmbeddedTree)
        tree.leave()
        self.unheard(tree, timeout_s)

    def unheard(self, tree: Tree, timeout_s: float) -> Silence:
        """Nothing is heard from now on of the session that a broker has. It ends after its timeout, unless it is
        `heard`.
        """
        silence = Silence(tree.session_id, timeout_s)
        self._token.run_sync_soon(lambda: self._nursery.start_soon(self._end, silence))
        return silence

    def heard(self, silence: Silence) -> bool:
        """The session is heard again. Returns whether it is there still. Any thread may call it but the tree's."""
        is_there: Future[bool] = Future()

        def hear() -> None:
            silence.scope.cancel()
            silence.is_heard = True
            is_there.set_result(not silence.is_over)

        self._token.run_sync_soon(hear)
        return is_there.result()

    async def _end(self, silence: Silence) -> None:
        with silence.scope:
            await trio.sleep(silence.timeout_s)
        if not silence.is_heard:
            silence.is_over = True
            await self._store.end(silence.session_id)

    def controller(self) -> int | None:
        """The id of the broker that is the controller; None while there is none."""
        data = self._read(znodes.CONTROLLER)
        return None if data is None else znodes.decode_controller(data)

    def state(self, topic: str, partition: int) -> PartitionState | None:
        """Who leads a partition, and who is in sync; None if there is no such partition."""
        path = znodes.state_path(topic, partition)
        data = self._read(path)
        return None if data is None else PartitionState.decode(path, data)

    def _read(self, path: str) -> bytes | None:
        async def read() -> bytes | None:
            node = await get_or_none(self._tree, path)
            return None if node is None else node.data

        return trio.from_thread.run(read, trio_token=self._token)

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._store = await EmbeddedStore.open(str(self._file))
        try:
            self._tree = await self._store.session()
            async with trio.open_nursery() as self._nursery:
                self._serves = self._nursery.cancel_scope
                self._started.set_result(None)
                await trio.sleep_forever()
        finally:
            await self._store.aclose()
