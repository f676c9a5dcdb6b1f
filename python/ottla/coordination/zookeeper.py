"""The coordination tree in a ZooKeeper ensemble, through kazoo.

kazoo is made for threads; here its connection thread does nothing but hand things over. Three kinds of things come from
it: answers, watch events and changes of the session. kazoo would pass them through three queues with a thread each,
which loses their order: a watch could then arrive after the answer that already shows the change. `_Handler` replaces
those threads by one queue that the loop empties (`run_sync_soon`), so the order is that of the bytes from the server.

What else is done here because kazoo does not:

- **A window.** kazoo wakes its thread with a byte through a blocking socket pair; a few hundred calls while the
  ensemble is
  away would block our loop. At most `WINDOW` requests are with kazoo; the others wait here, also while the session is
  suspended, so that a write that was never sent is not reported as unknown.
- **Reads are repeated** after a lost connection. Writes are not: they raise ConnectionLoss, whose outcome is unknown.
- **No data is null.** Kafka makes its parent nodes with null; where it reads data it tells null from an empty string.
- **The chroot** is made if it is not there, as a Kafka broker does.

A session that times out is ended by the server; the client hears of it when it reconnects (`EXPIRED`), and kazoo then
begins a new one. Which session a request was sent in is remembered, since kazoo can lose one in the moment of the
change.
"""

from __future__ import annotations

import functools
import logging
import select
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import outcome
import trio
from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from ottla.coordination.tree import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Delete,
    EphemeralParent,
    EventKind,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SessionListener,
    SessionState,
    Set,
    Stat,
    Tree,
    TreeError,
    Unavailable,
    Watch,
    WatchEvent,
    check_path,
)

logger = logging.getLogger(__name__)

WINDOW = 100
"""Requests that are with kazoo at once: enough to keep a connection busy, fewer than its wake-up socket holds."""

SESSION_TIMEOUT_MS = 18_000
"""Kafka's default for `zookeeper.session.timeout.ms` since 2.5."""

_ERRORS: dict[type[Exception], type[TreeError]] = {
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: EphemeralParent,
    kazoo_errors.SessionExpiredError: SessionExpired,
    kazoo_errors.ConnectionLoss: ConnectionLoss,
    kazoo_errors.OperationTimeoutError: ConnectionLoss,
    kazoo_errors.ConnectionClosedError: Unavailable,
}
_KINDS = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILDREN,
    EventType.NONE: EventKind.LOST,
}


def _error(error: BaseException, path: str, index: int | None = None) -> BaseException:
    kind = next((ours for theirs, ours in _ERRORS.items() if isinstance(error, theirs)), None)
    if kind is None:
        kind = Unavailable if isinstance(error, kazoo_errors.KazooException) else None
    if kind is None:
        return error
    ours = kind(path, str(error) or type(error).__name__, index)
    ours.__cause__ = error
    return ours


class _Result(AsyncResult):  # type: ignore[misc]
    """kazoo's promise, whose callbacks run where it is kept: on the connection's thread."""

    def _do_callbacks(self) -> None:
        for callback in self._callbacks:
            callback(self)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's way to run things, without its threads for answers and watches, and with fewer system calls: a controller
    reads a hundred thousand nodes when it starts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._connection: _Buffered | None = None
        #: Called on the connection's thread when all that had come was read.
        self.all_read: Callable[[], None] = lambda: None

    def has_more(self) -> bool:
        """Whether something that came is still to be read; `all_read` follows."""
        return self._connection is not None and self._connection.pending() > 0

    def async_result(self) -> Any:
        return _Result(self)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        self._connection = _Buffered(super().create_connection(*arguments, **options))
        return self._connection

    def select(self, reading: Sequence[Any], writing: Sequence[Any], _: Any, timeout: float | None = None) -> Any:
        """As select.select, for any file descriptor. kazoo's own makes an epoll object each time, several times for
        each request.
        """
        buffered = [each for each in reading if isinstance(each, _Buffered) and each.pending()]
        if reading and not buffered:
            self.all_read()
        poll = select.poll()
        for sockets, events in (reading, select.POLLIN), (writing, select.POLLOUT):
            for each in sockets:
                poll.register(each, events)
        ready = {fd for fd, _ in poll.poll(0 if buffered else None if timeout is None else timeout * 1000)}
        ready.update(each.fileno() for each in buffered)
        return tuple([each for each in sockets if each.fileno() in ready] for sockets in (reading, writing, ()))

    def start(self) -> None:
        with self._state_change:
            self._running = True

    def stop(self) -> None:
        with self._state_change:
            self._running = False


class _Buffered:
    """A connected socket that takes what has come in one call; kazoo reads each answer in two. It asks `pending`, which
    is meant for TLS, before it waits.
    """

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self._bytes = b""
        self._at = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def pending(self) -> int:
        inner = getattr(self._wrapped, "pending", None)
        return len(self._bytes) - self._at or (0 if inner is None else inner())

    def recv(self, count: int) -> bytes:
        if self._at == len(self._bytes):
            self._bytes, self._at = self._wrapped.recv(max(count, 65536)), 0
        taken = self._bytes[self._at : self._at + count]
        self._at += len(taken)
        return taken


class _Request:
    """One request: how to make it, and the task that waits for its answer."""

    __slots__ = ("batch", "index", "is_read", "path", "submit")

    def __init__(self, batch: _Batch, index: int, path: str, submit: Callable[[], Any], *, is_read: bool) -> None:
        self.batch = batch
        self.index = index
        self.path = path
        self.submit = submit
        self.is_read = is_read


class _Batch:
    """Requests that one task waits for together."""

    __slots__ = ("left", "results", "task")

    def __init__(self, count: int) -> None:
        self.results: list[outcome.Outcome[Any]] = [outcome.Value(None)] * count
        self.left = count
        self.task: trio.lowlevel.Task | None = None

    def finish(self, index: int, result: outcome.Outcome[Any]) -> None:
        self.results[index] = result
        self.left -= 1
        if self.left == 0 and self.task is not None:
            task, self.task = self.task, None
            trio.lowlevel.reschedule(task)


class _Watcher:
    """What kazoo calls for a watch. Equal for equal watches, because kazoo keeps them in a set."""

    __slots__ = ("children", "path", "tree", "watch")

    def __init__(self, tree: ZooKeeperTree, path: str, watch: Watch, *, children: bool) -> None:
        self.tree = tree
        self.path = path
        self.watch = watch
        self.children = children

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watcher) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.tree, self.path, self.children, self.watch

    def __call__(self, event: Any) -> None:
        kind = _KINDS.get(event.type, EventKind.LOST)
        self.tree._hand_over(functools.partial(self.tree._fire, self.watch, WatchEvent(kind, self.path)))


class ZooKeeperTree(Tree):
    """A session with a ZooKeeper ensemble. Make one with `connect`."""

    def __init__(self, client: KazooClient, handler: _Handler) -> None:
        self._client = client
        self._handler = handler
        handler.all_read = self._on_all_read
        self._token = trio.lowlevel.current_trio_token()
        self._state = SessionState.SUSPENDED
        self._session_id = 0
        self._stopped = False
        self._listeners: dict[object, SessionListener] = {}
        self._arrived: deque[Callable[[], None]] = deque()
        self._waiting: deque[_Request] = deque()
        self._in_flight: dict[_Request, None] = {}
        client.add_listener(self._on_kazoo_state)

    @classmethod
    async def connect(
        cls,
        servers: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connect_timeout_ms: int = SESSION_TIMEOUT_MS,
        create_chroot: bool = True,
    ) -> ZooKeeperTree:
        """Begin a session with `HOST:PORT,HOST:PORT/chroot`, Kafka's `zookeeper.connect`.

        Raises Unavailable if no server answered in time, and NoNode if the chroot is missing and is not to be made.
        """
        hosts, slash, chroot = servers.partition("/")
        handler = _Handler()
        client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_jitter=0.4, max_delay=1.0),
            logger=_quiet,
        )
        tree = cls(client, handler)
        try:
            await trio.to_thread.run_sync(client.start_async)
            with trio.move_on_after(connect_timeout_ms / 1000) as scope:
                await tree.wait_connected()
            if scope.cancelled_caught:
                raise Unavailable("/", f"no ZooKeeper server at {hosts} answered within {connect_timeout_ms} ms")
            if chroot.strip("/"):
                root = slash + chroot.rstrip("/")
                if create_chroot:
                    await tree.ensure(root)
                elif await tree.exists(root) is None:
                    raise NoNode(root, "the chroot does not exist")
                client.chroot = root
        except BaseException:
            await tree.aclose()
            raise
        return tree

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        check_path(path)
        watcher = None if watch is None else _Watcher(self, path, watch, children=False)
        data, stat = await self._one(path, lambda: self._client.get_async(path, watch=watcher), is_read=True)
        return Node(data or b"", _stat(stat))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        results = await self._all(
            [(path, functools.partial(self._client.get_async, path), True) for path in paths],
        )
        nodes: list[Node | None] = []
        for result in results:
            try:
                data, stat = result.unwrap()
            except NoNode:
                nodes.append(None)
            else:
                nodes.append(Node(data or b"", _stat(stat)))
        return nodes

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        watcher = None if watch is None else _Watcher(self, path, watch, children=False)
        stat = await self._one(path, lambda: self._client.exists_async(path, watch=watcher), is_read=True)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        check_path(path)
        watcher = None if watch is None else _Watcher(self, path, watch, children=True)
        names = await self._one(path, lambda: self._client.get_children_async(path, watch=watcher), is_read=True)
        return sorted(names)

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        if not operations:
            return []
        for operation in operations:
            check_path(operation.path + "0" if getattr(operation, "sequential", False) else operation.path)
        results = await self._one("/", lambda: self._transaction(operations), is_read=False)
        for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
            # The operations before the one that failed answer "rolled back", those after it "inconsistent".
            if isinstance(result, Exception) and not isinstance(result, kazoo_errors.RolledBackError):
                raise _error(result, operation.path, index)
        return [
            _stat(result) if isinstance(operation, Set) else result if isinstance(operation, Create) else None
            for operation, result in zip(operations, results, strict=True)
        ]

    def _transaction(self, operations: Sequence[Operation]) -> Any:
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequential):
                    # Not transaction.create(): that refuses to send null.
                    flags = (1 if ephemeral else 0) | (2 if sequential else 0)
                    transaction.operations.append(
                        KazooCreate(self._client.chroot + path, data or None, OPEN_ACL_UNSAFE, flags)
                    )
                case Set(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction.commit_async()

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        check_path(path + "0" if sequential else path)
        make = functools.partial(
            self._client.create_async, path, data or None, ephemeral=ephemeral, sequence=sequential
        )
        made: str = await self._one(path, make, is_read=False)
        return made

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        check_path(path)
        return _stat(await self._one(path, lambda: self._client.set_async(path, data, version), is_read=False))

    async def delete(self, path: str, version: int = -1) -> None:
        check_path(path)
        await self._one(path, lambda: self._client.delete_async(path, version), is_read=False)

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            if self._state is not SessionState.CLOSED:
                self._change_state(SessionState.CLOSED)
                self._fail_all(Unavailable("/", "the tree is closed"))
            if not self._stopped:
                self._stopped = True
                await trio.to_thread.run_sync(self._stop)

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    # Requests, on the loop.

    async def _one(self, path: str, submit: Callable[[], Any], *, is_read: bool) -> Any:
        return (await self._all([(path, submit, is_read)]))[0].unwrap()

    async def _all(self, calls: Sequence[tuple[str, Callable[[], Any], bool]]) -> list[outcome.Outcome[Any]]:
        if self._state is SessionState.CLOSED:
            raise Unavailable("/", "the tree is closed")
        await trio.lowlevel.checkpoint_if_cancelled()
        if not calls:
            return []
        batch = _Batch(len(calls))
        requests = [_Request(batch, i, path, submit, is_read=read) for i, (path, submit, read) in enumerate(calls)]
        self._waiting.extend(requests)
        batch.task = trio.lowlevel.current_task()
        self._pump()

        def abort(_: Any) -> trio.lowlevel.Abort:
            batch.task = None
            # What was not sent yet never will be; what was sent is answered to nobody.
            for request in requests:
                if request in self._waiting:
                    self._waiting.remove(request)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return batch.results

    def _pump(self) -> None:
        while self._waiting and len(self._in_flight) < WINDOW and self._state is SessionState.CONNECTED:
            request = self._waiting.popleft()
            self._in_flight[request] = None
            try:
                result = request.submit()
            except Exception as error:
                self._finish(request, outcome.Error(_error(error, request.path)))
            else:
                result.rawlink(functools.partial(self._on_kazoo_result, request))

    def _finish(self, request: _Request, result: outcome.Outcome[Any]) -> None:
        # A request that was already failed because its session ended is not in flight any more.
        if request in self._in_flight:
            del self._in_flight[request]
            request.batch.finish(request.index, result)

    def _fail_all(self, error: TreeError) -> None:
        for request in [*self._in_flight, *self._waiting]:
            request.batch.finish(request.index, outcome.Error(error))
        self._in_flight.clear()
        self._waiting.clear()

    # From kazoo's connection thread: only hand over.

    def _on_kazoo_result(self, request: _Request, result: Any) -> None:
        self._arrived.append(functools.partial(self._answered, request, result))
        # Answers that came together wake the loop together.
        if not self._handler.has_more():
            self._wake()

    def _on_kazoo_state(self, state: str) -> None:
        client = self._client
        over = client.client_state == KeeperState.EXPIRED_SESSION
        self._hand_over(functools.partial(self._session_changed, state, client._session_id or 0, is_expired=over))

    def _on_all_read(self) -> None:
        if self._arrived:
            self._wake()

    def _hand_over(self, call: Callable[[], None]) -> None:
        self._arrived.append(call)
        self._wake()

    def _wake(self) -> None:
        try:
            self._token.run_sync_soon(self._drain, idempotent=True)
        except trio.RunFinishedError:
            logger.debug("the loop is gone; what ZooKeeper said is dropped")

    # Back on the loop. Must not raise: trio would end the run.

    def _drain(self) -> None:
        while self._arrived:
            call = self._arrived.popleft()
            try:
                call()
            except Exception:
                logger.exception("handling what ZooKeeper said")

    def _fire(self, watch: Watch, event: WatchEvent) -> None:
        if self._state is not SessionState.CLOSED:
            watch(event)

    def _answered(self, request: _Request, result: Any) -> None:
        error = result.exception
        if error is not None and not isinstance(error, kazoo_errors.KazooException):
            # kazoo's thread met bytes that it does not understand, and gives the error to whose answer they seemed to
            # be.
            logger.error("kazoo failed: %r", error)
            error = kazoo_errors.ConnectionLoss()
        if isinstance(error, kazoo_errors.ConnectionLoss) and self._state is SessionState.CONNECTED:
            # kazoo fails what was under way before it says that the connection is gone; nobody may see it that way
            # round.
            self._change_state(SessionState.SUSPENDED)
        if error is None:
            self._finish(request, outcome.Value(result.value))
        elif request.is_read and isinstance(error, kazoo_errors.ConnectionLoss) and request in self._in_flight:
            del self._in_flight[request]
            self._waiting.appendleft(request)
        else:
            self._finish(request, outcome.Error(_error(error, request.path)))
        self._pump()

    def _session_changed(self, state: str, session_id: int, *, is_expired: bool) -> None:
        if self._state is SessionState.CLOSED:
            return
        if state == KazooState.CONNECTED:
            self._session_id = session_id
            self._change_state(SessionState.CONNECTED)
            self._pump()
        elif state == KazooState.SUSPENDED:
            self._change_state(SessionState.SUSPENDED)
        elif is_expired:
            self._fail_all(SessionExpired("/", "the ZooKeeper session is over"))
            self._change_state(SessionState.EXPIRED)
        else:
            # Nobody here asked for it: authentication failed, or kazoo's thread ended on an error of its own. It will
            # not come back, so whoever uses this tree must know.
            logger.critical("the connection to ZooKeeper ended for good")
            self._fail_all(Unavailable("/", "the connection to ZooKeeper ended for good"))
            self._change_state(SessionState.CLOSED)

    def _change_state(self, state: SessionState) -> None:
        if state is self._state:
            return
        logger.info("ZooKeeper session 0x%x is %s", self._session_id, state.value)
        self._state = state
        for listener in list(self._listeners.values()):
            try:
                listener(state)
            except Exception:
                logger.exception("a session listener raised")


def _stat(stat: Any) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        pzxid=stat.pzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        children_count=stat.numChildren,
    )


# kazoo logs every reconnection attempt; what matters of it is logged above.
_quiet = logging.getLogger("ottla.coordination.kazoo")
_quiet.setLevel(logging.ERROR)
