"""The coordination tree without ZooKeeper: a SQLite file, one thread that owns it, any number of sessions.

A session belongs to the loop that began it; there may be loops on several threads. No loop waits for the disk: every
operation is handed to the thread through a queue, and its answer comes back with one `run_sync_soon` per batch and
loop. The thread takes whatever is queued, applies it in order, commits once (one fsync for all of it), and only then
are watches and answers handed over: nobody learns of a change that a power cut could take back.

Ephemeral nodes belong to a session. Sessions end with `aclose`, with `expire` (a test's stand-in for a ZooKeeper
session that timed out) or with the process: what a killed process left is deleted when the file is opened again.

A disk without room is what a lost connection is to ZooKeeper: the change raises `ConnectionLoss`, and sessions are
SUSPENDED until there is room again. Reads are answered meanwhile. Some space is kept for the file from the start, so
that topics can still be deleted (`database.py`).

A commit that fails otherwise (I/O error) ends every session with `Unavailable`, because what memory and disk hold may
differ from then on; the broker above must stop.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import outcome
import trio

from ottla.coordination.database import TreeDatabase, is_full
from ottla.coordination.tree import (
    ConnectionLoss,
    Node,
    Operation,
    SessionExpired,
    SessionListener,
    SessionState,
    Stat,
    Tree,
    TreeError,
    Unavailable,
    Watch,
    WatchEvent,
    check_path,
)
from ottla.coordination.watches import Fired, Watches

logger = logging.getLogger(__name__)

TREE_FILE = "ottla-tree.sqlite"
"""Its name in a data directory; SQLite puts two more files beside it. Folders there would stop Kafka, files do not."""

BATCH_MAX = 256
"""Transactions that share one fsync: bounds how long the first of them waits."""

LOOK_SECONDS = 0.5
"""How often a full disk is looked at, and so how often changes that wait for room are tried."""


class _Request:
    """One call on its way through the thread and back."""

    __slots__ = ("call", "result", "task", "token")

    def __init__(self, call: Callable[[TreeDatabase], Any]) -> None:
        self.call = call
        self.token = trio.lowlevel.current_trio_token()
        self.task: trio.lowlevel.Task | None = None
        self.result: outcome.Outcome[Any] | None = None

    def wake(self) -> None:
        task, self.task = self.task, None
        if task is not None and self.result is not None:
            trio.lowlevel.reschedule(task, self.result)


class EmbeddedStore:
    """The file and its thread. `session()` gives a tree to the loop that calls it. `aclose()`, for the loop that opened
    the store, ends them all and closes the file; those of other loops are to be closed before.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._token = trio.lowlevel.current_trio_token()
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._watches = Watches()
        self._sessions: set[EmbeddedTree] = set()
        #: The loops of sessions, by their ids.
        self._loops: dict[int, trio.lowlevel.TrioToken] = {}
        #: The thread's: the state that all sessions were told.
        self._told = SessionState.CONNECTED
        self._failed: TreeError | None = None
        #: The thread's: the disk had no room when it last looked.
        self._is_full = False
        self._opened: outcome.Outcome[None] | None = None
        self._ready = trio.Event()
        self._stopped = trio.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-tree", daemon=True)

    @classmethod
    async def open(cls, path: str) -> EmbeddedStore:
        """Open or create the file. Raises Unavailable if another process has it or it is not a tree."""
        store = cls(path)
        store._thread.start()
        await store._ready.wait()
        assert store._opened is not None
        store._opened.unwrap()
        return store

    async def session(self) -> EmbeddedTree:
        tree = EmbeddedTree(self, await self.new_session())
        self._sessions.add(tree)
        return tree

    async def new_session(self) -> int:
        """The id of a new session of this loop's."""
        token = trio.lowlevel.current_trio_token()

        def call(database: TreeDatabase) -> int:
            session_id = database.new_session()
            self._loops[session_id] = token
            return session_id

        found: int = await self.call(call)
        return found

    async def end(self, session_id: int) -> None:
        """Ends a session: its ephemeral nodes go, and its watches hear that they are lost."""

        def call(database: TreeDatabase) -> _Changes:
            return _Changes(None, database.end_session(session_id), self._watches.drop_session(session_id))

        await self.call(call)
        self._loops.pop(session_id, None)

    async def aclose(self) -> None:
        if self._stopped.is_set():
            return
        with trio.CancelScope(shield=True):
            for tree in list(self._sessions):
                await tree.aclose()
            self._queue.put(None)
            await self._stopped.wait()

    async def call(self, call: Callable[[TreeDatabase], Any]) -> Any:
        """Run `call` on the thread, inside the current batch; return when the batch is committed."""
        if self._failed is not None or self._stopped.is_set():
            raise self._failed or Unavailable("/", f"{self.path} is closed")
        await trio.lowlevel.checkpoint_if_cancelled()
        request = _Request(call)
        request.task = trio.lowlevel.current_task()
        self._queue.put(request)

        def abort(_: Any) -> trio.lowlevel.Abort:
            request.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    # From here on: the thread.

    def _run(self) -> None:
        try:
            database = TreeDatabase(self.path)
        except BaseException as error:
            self._opened = outcome.Error(error)
            self._post(self._ready.set)
            return
        self._opened = outcome.Value(None)
        self._post(self._ready.set)
        while (batch := self._take()) is not None:
            if self._is_full:
                self._look_for_room(database)
            fired = self._apply_without_room(database, batch) if self._is_full else self._apply(database, batch)
            self._hand_over(batch, fired)
        database.close()
        self._post(self._stopped.set)

    def _take(self) -> list[_Request] | None:
        """The requests that wait: none if it is time to look for room. None if the store is closed."""
        try:
            first = self._queue.get(timeout=LOOK_SECONDS if self._is_full else None)
        except queue.Empty:
            return []
        if first is None:
            return None
        batch = [first]
        while len(batch) < BATCH_MAX:
            try:
                following = self._queue.get_nowait()
            except queue.Empty:
                break
            if following is None:
                self._queue.put(None)
                break
            batch.append(following)
        return batch

    def _hand_over(self, batch: list[_Request], fired: list[Fired]) -> None:
        """Gives each loop what it asked for and what its sessions watch, and all of them a change of the state."""
        state = SessionState.SUSPENDED if self._is_full else SessionState.CONNECTED
        shares: dict[trio.lowlevel.TrioToken, tuple[list[_Request], list[Fired]]] = {}
        if self._failed is not None or state is not self._told:
            shares = {token: ([], []) for token in [*self._loops.values()]}
            self._told = state
        for request in batch:
            shares.setdefault(request.token, ([], []))[0].append(request)
        for one in fired:
            if (token := self._loops.get(one.session_id)) is not None:
                shares.setdefault(token, ([], []))[1].append(one)
        for token, share in shares.items():
            self._post(partial(self._deliver, token, *share, state), token)

    def _apply(self, database: TreeDatabase, batch: list[_Request]) -> list[Fired]:
        fired: list[Fired] = []
        for request in batch:
            if self._failed is not None:
                request.result = outcome.Error(self._failed)
                continue
            try:
                value = request.call(database)
            except TreeError as error:
                request.result = outcome.Error(error)
                continue
            except Exception as error:
                if is_full(error):
                    return self._fill(database, batch, error)
                self._fail(database, error)
                request.result = outcome.Error(self._failed or error)
                continue
            if isinstance(value, _Changes):
                fired += value.lost
                fired += [one for event in value.events for one in self._watches.fired(event)]
                value = value.results
            request.result = outcome.Value(value)
        if self._failed is None:
            try:
                database.commit()
            except Exception as error:
                if is_full(error):
                    return self._fill(database, batch, error)
                self._fail(database, error)
        self._watches.committed()
        if self._failed is not None:
            fired = []
            for request in batch:
                request.result = outcome.Error(self._failed)
        return fired

    def _fill(self, database: TreeDatabase, batch: list[_Request], error: Exception) -> list[Fired]:
        logger.error(
            "no room on the disk for the coordination tree %s: its changes wait for some (%s)", self.path, error
        )
        self._is_full = True
        database.rollback()
        self._watches.rolled_back()
        return self._apply_without_room(database, batch)

    def _look_for_room(self, database: TreeDatabase) -> None:
        try:
            self._is_full = not database.has_room()
        except Exception as error:
            self._is_full = False
            self._fail(database, error)
        else:
            if not self._is_full:
                logger.info("the coordination tree %s has room again", self.path)

    def _apply_without_room(self, database: TreeDatabase, batch: list[_Request]) -> list[Fired]:
        """Reads are answered; what changes something is undone."""
        for request in batch:
            try:
                value = request.call(database)
                if not database.is_changed:
                    request.result = outcome.Value(value.results if isinstance(value, _Changes) else value)
                    continue
            except TreeError as error:
                request.result = outcome.Error(error)
                continue
            except Exception as error:
                if not is_full(error):
                    self._is_full = False
                    self._fail(database, error)
                    break
            database.rollback()
            request.result = outcome.Error(ConnectionLoss("/", f"{self.path}: there is no room on the disk"))
        if self._failed is not None:
            for request in batch:
                request.result = outcome.Error(self._failed)
        return []

    def _fail(self, database: TreeDatabase, error: Exception) -> None:
        logger.critical("the coordination tree %s failed and is closed: %s", self.path, error)
        self._failed = Unavailable("/", f"{self.path}: {error}")
        self._failed.__cause__ = error
        try:
            database.rollback()
        except Exception as again:
            logger.error("rolling back %s: %s", self.path, again)

    def _post(self, call: Callable[[], object], token: trio.lowlevel.TrioToken | None = None) -> None:
        """For a loop, or that which opened the store."""
        try:
            (token or self._token).run_sync_soon(call)
        except trio.RunFinishedError:
            logger.debug("the loop is gone; an answer of the tree is dropped")

    # Back on a loop. Must not raise: trio would end the run.

    def _deliver(
        self, token: trio.lowlevel.TrioToken, batch: list[_Request], fired: list[Fired], state: SessionState
    ) -> None:
        mine = [tree for tree in [*self._sessions] if self._loops.get(tree.session_id) is token]
        for tree in mine:
            if tree.state is not state and tree.state is not SessionState.EXPIRED:
                tree._change_state(state)
        for one in fired:
            try:
                one.watch(one.event)
            except Exception:
                logger.exception("a watch of %s raised", one.event.path)
        for request in batch:
            request.wake()
        if self._failed is not None:
            for tree in mine:
                tree._change_state(SessionState.CLOSED)
                self._sessions.discard(tree)


class _Changes:
    """A result together with what watches are to see, for the thread to tell apart from a plain result."""

    __slots__ = ("events", "lost", "results")

    def __init__(self, results: Any, events: list[WatchEvent], lost: Sequence[Fired] = ()) -> None:
        self.results = results
        self.events = events
        self.lost = lost


class EmbeddedTree(Tree):
    """One session with an `EmbeddedStore`."""

    def __init__(self, store: EmbeddedStore, session_id: int, *, owns_store: bool = False) -> None:
        self._store = store
        self._session_id = session_id
        self._owns_store = owns_store
        self._state = SessionState.CONNECTED
        self._is_left = False
        self._listeners: dict[object, SessionListener] = {}

    @classmethod
    async def open(cls, path: str) -> EmbeddedTree:
        """The tree in the file at `path`, created if it is not there, with one session that closes it again."""
        store = await EmbeddedStore.open(path)
        tree = await store.session()
        tree._owns_store = True
        return tree

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    async def sync(self) -> None:
        await trio.lowlevel.checkpoint()

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        check_path(path)
        watches, session_id = self._store._watches, self._session_id

        def call(database: TreeDatabase) -> Node:
            node = database.get(path)
            if watch is not None:
                watches.arm(path, session_id, watch, children=False)
            return node

        node: Node = await self._call(call)
        return node

    async def get_many(self, paths: Sequence[str], watches: Sequence[Watch] | None = None) -> list[Node | None]:
        for path in paths:
            check_path(path)
        armed, session_id = self._store._watches, self._session_id

        def call(database: TreeDatabase) -> list[Node | None]:
            nodes = [database.get_or_none(path) for path in paths]
            for path, node, watch in zip(paths, nodes, watches, strict=True) if watches is not None else ():
                if node is not None:
                    armed.arm(path, session_id, watch, children=False)
            return nodes

        nodes: list[Node | None] = await self._call(call)
        return nodes

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        watches, session_id = self._store._watches, self._session_id

        def call(database: TreeDatabase) -> Stat | None:
            node = database.get_or_none(path)
            if watch is not None:
                watches.arm(path, session_id, watch, children=False)
            return None if node is None else node.stat

        stat: Stat | None = await self._call(call)
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        check_path(path)
        watches, session_id = self._store._watches, self._session_id

        def call(database: TreeDatabase) -> list[str]:
            names = database.children(path)
            if watch is not None:
                watches.arm(path, session_id, watch, children=True)
            return names

        names: list[str] = await self._call(call)
        return names

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        for operation in operations:
            # A sequential node may have an empty name before its number.
            check_path(operation.path + "0" if getattr(operation, "sequential", False) else operation.path)
        session_id = self._session_id
        results: list[Any] = await self._call(lambda database: _Changes(*database.multi(operations, session_id)))
        return results

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def expire(self) -> None:
        """End the session as ZooKeeper does when it heard nothing for the session's timeout, and begin a new one."""
        await self._store.end(self._session_id)
        self.has_expired()
        await self.renew()

    def has_expired(self) -> None:
        """The store has ended the session (`EmbeddedStore.end`), and its owner hears of it now. `renew` follows."""
        self._change_state(SessionState.EXPIRED)

    async def renew(self) -> None:
        """Begins a new session in place of the one that has expired."""
        self._session_id = await self._store.new_session()
        self._change_state(SessionState.CONNECTED)

    def leave(self) -> None:
        """Has `aclose` leave the session open, as a process that is killed does; `EmbeddedStore.end` ends it."""
        self._is_left = True

    async def aclose(self) -> None:
        if self._is_left:
            self._store._sessions.discard(self)
            return
        with trio.CancelScope(shield=True):
            if self._state is not SessionState.CLOSED:
                try:
                    await self._store.end(self._session_id)
                except (ConnectionLoss, Unavailable):
                    # Its ephemeral nodes go when the file is opened again.
                    logger.debug("the tree failed before its session was closed")
                self._store._sessions.discard(self)
                self._change_state(SessionState.CLOSED)
            if self._owns_store:
                await self._store.aclose()

    async def _call(self, call: Callable[[TreeDatabase], Any]) -> Any:
        if self._state is SessionState.CLOSED:
            raise Unavailable("/", "the tree is closed")
        if self._state is SessionState.EXPIRED:
            raise SessionExpired("/", "the session has ended, and the next one has not begun")
        session_id = self._session_id
        result = await self._store.call(call)
        if session_id != self._session_id:
            raise SessionExpired("/", "the session ended meanwhile")
        return result

    def _change_state(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners.values()):
            try:
                listener(state)
            except Exception:
                logger.exception("a session listener raised")
