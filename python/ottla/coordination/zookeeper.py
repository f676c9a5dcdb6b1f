"""The coordination tree in a ZooKeeper ensemble, through kazoo.

kazoo is made for threads; here its connection thread does nothing but hand things over. Three kinds of things come from
it: answers, watch events and changes of the session. They come through one queue that the loop empties
(`run_sync_soon`), in the order of the bytes from the server (`kazoo_handler`).

What else is done here because kazoo does not:

- **A window.** kazoo wakes its thread with a byte through a blocking socket pair; a few hundred calls while the
  ensemble is away would block our loop. At most `WINDOW` requests are with kazoo; the others wait here, also while
  the session is suspended, so that a write that was never sent is not reported as unknown.
- **Many reads are one request** (`multi_read`) where the server knows it. Whether it does is asked on each connection
  with nothing else under way, since a server that does not (before 3.6) ends the connection. `connect` asks before
  anybody has used the tree; a server that says no later, to a session that moved there, costs what any lost connection
  costs. After one no, nodes are read one by one as long as this tree lives.
- **Reads are repeated** after a lost connection. Writes are not: they raise ConnectionLoss, whose outcome is unknown.
- **No data is null.** Kafka makes its parent nodes with null; where it reads data it tells null from an empty string.
- **The chroot** is made if it is not there, as a Kafka broker does.

A session that times out is ended by the server; the client hears of it when it reconnects (`EXPIRED`), and kazoo then
begins a new one. Which session a request was sent in is remembered, since kazoo can lose one in the moment of the
change.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import outcome
import trio
from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Permissions

from ottla.config.zookeeper import ZooKeeperServers
from ottla.coordination.digest_md5 import User
from ottla.coordination.kazoo_answers import EVENTS, error_of, stat_of
from ottla.coordination.kazoo_handler import Encrypt, Handler
from ottla.coordination.login import Login
from ottla.coordination.mistaken import none_answered
from ottla.coordination.multi_read import NODES_MAX, MultiRead, in_pieces
from ottla.coordination.rules import OPEN, is_open, rules_of
from ottla.coordination.tree import (
    BadVersion,
    Check,
    Create,
    Delete,
    EventKind,
    LoginRefused,
    Node,
    NoNode,
    NotAllowed,
    NoZooKeeper,
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

MULTI_READS = WINDOW // NODES_MAX
"""How many of them carry many reads: so many that there are no more nodes under way than if each were a request."""

NO_VERSION = 2**31 - 1
"""A version of a node's data that none has: it counts the changes."""

SESSION_TIMEOUT_MS = 18_000
"""Kafka's default for `zookeeper.session.timeout.ms` since 2.5."""

_REFUSALS = (kazoo_errors.UnimplementedError, kazoo_errors.MarshallingError)


class _Kind(enum.Enum):
    READ = enum.auto()
    MULTI_READ = enum.auto()
    WRITE = enum.auto()


class _MultiReads(enum.Enum):
    """The server's answer to reads in one request: not asked yet, known, or refused."""

    UNKNOWN = enum.auto()
    KNOWN = enum.auto()
    REFUSED = enum.auto()


class _Refused(Exception):
    """The server does not know many reads in one request; nothing was read."""


class _Request:
    """One request: how to make it, and the task that waits for its answer."""

    __slots__ = ("batch", "index", "kind", "path", "submit")

    def __init__(self, batch: _Batch, index: int, path: str, submit: Callable[[], Any], kind: _Kind) -> None:
        self.batch = batch
        self.index = index
        self.path = path
        self.submit = submit
        self.kind = kind


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
    """The function that kazoo calls for a watch. Equal for equal watches, because kazoo keeps them in a set."""

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
        kind = EVENTS.get(event.type, EventKind.LOST)
        self.tree._hand_over(functools.partial(self.tree._fire, self.watch, WatchEvent(kind, self.path)))


class ZooKeeperTree(Tree):
    """A session with a ZooKeeper ensemble. Make one with `connect`."""

    def __init__(
        self, client: KazooClient, handler: Handler, *, login: Login | None = None, secures: bool = False
    ) -> None:
        self._client = client
        self._login = login
        if login is not None:
            login.ended = lambda: self._hand_over(self._login_ended)
        self._secures = secures
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
        self._multi_reads = _MultiReads.UNKNOWN
        self._multi_reads_in_flight = 0
        client.add_listener(self._on_kazoo_state)

    @classmethod
    async def connect(
        cls,
        servers: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connect_timeout_ms: int = SESSION_TIMEOUT_MS,
        create_chroot: bool = True,
        encrypt: Encrypt | None = None,
        user: User | None = None,
        secures: bool = False,
    ) -> ZooKeeperTree:
        """Begin a session with `HOST:PORT,HOST:PORT/chroot`, Kafka's `zookeeper.connect`. With `encrypt`, connections
        have TLS. With `user`, they are logged in. `secures`: nodes are made with access rules (`rules`), for which
        the session must be somebody, by `user` or by the certificate of `encrypt`.

        Raises ValueError for other text (`ZooKeeperServers`), Unavailable if no server answered in time (NoZooKeeper:
        nor will one; LoginRefused), and NoNode if the chroot is missing and is not to be made.
        """
        hosts, chroot = ZooKeeperServers.parse(servers)
        handler = Handler(encrypt)
        client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_jitter=0.4, max_delay=1.0),
            logger=_quiet,
        )
        login = None if user is None else Login(user)
        if login is not None:
            login.attach(client)
        tree = cls(client, handler, login=login, secures=secures)
        try:
            await trio.to_thread.run_sync(client.start_async)
            with trio.move_on_after(connect_timeout_ms / 1000) as scope:
                await tree._begin()
                await tree._ask_for_multi_reads()
            if scope.cancelled_caught and login is not None and login.refused is not None:
                raise LoginRefused("/", login.refused)
            if scope.cancelled_caught and handler.not_encrypted is not None:
                raise NoZooKeeper("/", f"no ZooKeeper server at {hosts} by TLS: {handler.not_encrypted}")
            if scope.cancelled_caught:
                raise await none_answered(hosts, connect_timeout_ms)
            if chroot:
                if create_chroot:
                    await tree.ensure(chroot)
                elif await tree.exists(chroot) is None:
                    raise NoNode(chroot, "the chroot does not exist")
                client.chroot = chroot
        except BaseException:
            await tree.aclose()
            raise
        return tree

    async def _begin(self) -> None:
        try:
            await self.wait_connected()
        except Unavailable:
            if self._login is None or self._login.refused is None:
                raise
            raise LoginRefused("/", self._login.refused) from None

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        check_path(path)
        watcher = None if watch is None else _Watcher(self, path, watch, children=False)
        data, stat = await self._one(path, lambda: self._client.get_async(path, watch=watcher))
        return Node(data or b"", stat_of(stat))

    async def sync(self) -> None:
        await self._one("/", lambda: self._client.sync_async("/"))

    async def get_many(self, paths: Sequence[str], watches: Sequence[Watch] | None = None) -> list[Node | None]:
        for path in paths:
            check_path(path)
        if watches is None and len(paths) > 1 and self._multi_reads is not _MultiReads.REFUSED:
            try:
                return await self._get_in_pieces(paths)
            except _Refused:
                pass
        nodes: list[Node | None] = []
        watchers: Sequence[_Watcher | None] = [None] * len(paths)
        if watches is not None:
            # No watch can be set by a request for many nodes; the window keeps the connection busy all the same.
            watchers = [_Watcher(self, path, watch, children=False) for path, watch in zip(paths, watches, strict=True)]
        reads = [
            (path, functools.partial(self._read_one, path, watcher))
            for path, watcher in zip(paths, watchers, strict=True)
        ]
        for result in await self._all(reads):
            try:
                data, stat = result.unwrap()
            except NoNode:
                nodes.append(None)
            else:
                nodes.append(Node(data or b"", stat_of(stat)))
        return nodes

    async def _get_in_pieces(self, paths: Sequence[str]) -> list[Node | None]:
        calls = [(piece[0], functools.partial(self._multi_read, piece)) for piece in in_pieces(paths)]
        found = [each for result in await self._all(calls, _Kind.MULTI_READ) for each in result.unwrap()]
        for at, each in enumerate(found):
            if isinstance(each, kazoo_errors.NoNodeError):
                found[at] = None
            elif isinstance(each, Exception):
                raise error_of(each, paths[at])
        return found

    def _multi_read(self, paths: Sequence[str]) -> Any:
        return self._submit(MultiRead([self._whole(path) for path in paths]))

    def _read_one(self, path: str, watcher: _Watcher | None = None) -> Any:
        return self._submit(GetData(self._whole(path), watcher))

    def _whole(self, path: str) -> str:
        chroot: str = self._client.chroot
        return path if not chroot else chroot if path == "/" else chroot + path

    def _submit(self, request: Any) -> Any:
        """As kazoo's own methods for requests end; they take the path apart and together again before."""
        result = self._handler.async_result()
        self._client._call(request, result)
        return result

    async def _ask_for_multi_reads(self) -> None:
        """Do one, so that the answer is known before anything would suffer from a lost connection."""
        with contextlib.suppress(_Refused, SessionExpired):
            await self._one("/", functools.partial(self._multi_read, ["/"]), _Kind.MULTI_READ)
        await self.wait_connected()

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        watcher = None if watch is None else _Watcher(self, path, watch, children=False)
        stat = await self._one(path, lambda: self._client.exists_async(path, watch=watcher))
        return None if stat is None else stat_of(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        check_path(path)
        watcher = None if watch is None else _Watcher(self, path, watch, children=True)
        names = await self._one(path, lambda: self._client.get_children_async(path, watch=watcher))
        return sorted(names)

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        if not operations:
            return []
        for operation in operations:
            check_path(operation.path + "0" if getattr(operation, "sequential", False) else operation.path)
        results = await self._one("/", lambda: self._transaction(operations), _Kind.WRITE)
        for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
            # The operations before the one that failed answer "rolled back", those after it "inconsistent".
            if isinstance(result, Exception) and not isinstance(result, kazoo_errors.RolledBackError):
                raise error_of(result, operation.path, index)
        return [
            stat_of(result) if isinstance(operation, Set) else result if isinstance(operation, Create) else None
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
                        KazooCreate(self._client.chroot + path, data or None, self._rules(path), flags)
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
            self._client.create_async,
            path,
            data or None,
            self._rules(path),
            ephemeral=ephemeral,
            sequence=sequential,
        )
        made: str = await self._one(path, make, _Kind.WRITE)
        return made

    def _rules(self, path: str) -> list[ACL]:
        return rules_of(path) if self._secures else OPEN

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        check_path(path)
        return stat_of(await self._one(path, lambda: self._client.set_async(path, data, version), _Kind.WRITE))

    async def delete(self, path: str, version: int = -1) -> None:
        check_path(path)
        await self._one(path, lambda: self._client.delete_async(path, version), _Kind.WRITE)

    async def guarded(self, paths: Sequence[str]) -> dict[str, str]:
        """Of these nodes those that cannot be changed from here, and who may change them. Missing ones are left out.

        Nothing is changed: a write with a version that no node has is refused for its rules first.
        """
        found = {}
        for path, acls in (await self._rules_now(paths)).items():
            if acls is None:
                found[path] = "somebody else"  # who may not even see who
            elif not is_open(acls):
                owners = [f"{acl.id.scheme}:{acl.id.id}" for acl in acls if acl.perms & Permissions.WRITE]
                found[path] = ", ".join(owners) or "nobody"
        tries = [(path, functools.partial(self._client.set_async, path, b"", NO_VERSION)) for path in found]
        for path, result in zip(list(found), await self._all(tries), strict=True):
            try:
                result.unwrap()
            except (BadVersion, NoNode):
                del found[path]
            except NotAllowed:
                continue
        return found

    async def left_open(self, paths: Sequence[str]) -> list[str]:
        """Of these nodes those that everybody may change, and nobody else could if they were made with rules."""
        now = await self._rules_now(paths)
        return [path for path, acls in now.items() if acls and is_open(acls) and rules_of(path) != OPEN]

    async def _rules_now(self, paths: Sequence[str]) -> dict[str, list[ACL] | None]:
        """The rules of nodes; None where they may not be seen. Missing nodes are left out."""
        found: dict[str, list[ACL] | None] = {}
        rules = await self._all([(path, functools.partial(self._client.get_acls_async, path)) for path in paths])
        for path, result in zip(paths, rules, strict=True):
            try:
                found[path] = result.unwrap()[0]
            except NoNode:
                continue
            except NotAllowed:
                found[path] = None
        return found

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

    async def _one(self, path: str, submit: Callable[[], Any], kind: _Kind = _Kind.READ) -> Any:
        return (await self._all([(path, submit)], kind))[0].unwrap()

    async def _all(
        self, calls: Sequence[tuple[str, Callable[[], Any]]], kind: _Kind = _Kind.READ
    ) -> list[outcome.Outcome[Any]]:
        if self._state is SessionState.CLOSED:
            raise Unavailable("/", "the tree is closed")
        await trio.lowlevel.checkpoint_if_cancelled()
        if not calls:
            return []
        batch = _Batch(len(calls))
        requests = [_Request(batch, i, path, submit, kind) for i, (path, submit) in enumerate(calls)]
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
        while self._waiting and self._may_send(self._waiting[0]):
            request = self._waiting.popleft()
            if request.kind is _Kind.MULTI_READ:
                if self._multi_reads is _MultiReads.REFUSED:
                    request.batch.finish(request.index, outcome.Error(_Refused()))
                    continue
                self._multi_reads_in_flight += 1
            self._in_flight[request] = None
            try:
                result = request.submit()
            except Exception as error:
                self._finish(request, outcome.Error(error_of(error, request.path)))
            else:
                result.rawlink(functools.partial(self._on_kazoo_result, request))

    def _may_send(self, request: _Request) -> bool:
        if self._state is not SessionState.CONNECTED or len(self._in_flight) >= WINDOW:
            return False
        if self._multi_reads is _MultiReads.UNKNOWN and self._multi_reads_in_flight:
            return False  # the first on a connection is under way, alone
        if request.kind is not _Kind.MULTI_READ or self._multi_reads is _MultiReads.REFUSED:
            return True
        at_once_max = MULTI_READS if self._multi_reads is _MultiReads.KNOWN else 1
        if self._multi_reads is _MultiReads.UNKNOWN and self._in_flight:
            return False
        return self._multi_reads_in_flight < at_once_max

    def _finish(self, request: _Request, result: outcome.Outcome[Any]) -> None:
        if self._took_back(request):
            request.batch.finish(request.index, result)

    def _took_back(self, request: _Request) -> bool:
        """Takes a request out of those in flight; False if it was not there. One that was already failed because its
        session ended is not any more.
        """
        if request not in self._in_flight:
            return False
        del self._in_flight[request]
        self._multi_reads_in_flight -= request.kind is _Kind.MULTI_READ
        return True

    def _fail_all(self, error: TreeError) -> None:
        for request in [*self._in_flight, *self._waiting]:
            request.batch.finish(request.index, outcome.Error(error))
        self._in_flight.clear()
        self._multi_reads_in_flight = 0
        self._waiting.clear()

    # From kazoo's connection thread: only hand over.

    def _on_kazoo_result(self, request: _Request, result: Any) -> None:
        if request.kind is _Kind.MULTI_READ and isinstance(result.exception, _REFUSALS):
            self._handler.drop()  # as the server is about to do: nothing more may be sent on it
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
        is_refused = request.kind is _Kind.MULTI_READ and isinstance(error, _REFUSALS)
        is_lost = is_refused or isinstance(error, kazoo_errors.ConnectionLoss)
        if is_lost and self._state is SessionState.CONNECTED:
            # kazoo fails what was under way before it says that the connection is gone; nobody may see it that way
            # round.
            self._change_state(SessionState.SUSPENDED)
        if error is None:
            if request.kind is _Kind.MULTI_READ:
                self._multi_reads = _MultiReads.KNOWN
            self._finish(request, outcome.Value(result.value))
        elif is_refused:
            logger.info("this ZooKeeper (before 3.6) reads nodes only one by one")
            self._multi_reads = _MultiReads.REFUSED
            self._finish(request, outcome.Error(_Refused()))
        elif is_lost and request.kind is not _Kind.WRITE and self._took_back(request):
            self._waiting.appendleft(request)
        else:
            self._finish(request, outcome.Error(error_of(error, request.path)))
        self._pump()

    def _login_ended(self) -> None:
        self._fail_all(Unavailable("/", "nobody is logged in at ZooKeeper"))
        self._change_state(SessionState.CLOSED)

    def _session_changed(self, state: str, session_id: int, *, is_expired: bool) -> None:
        if self._state is SessionState.CLOSED:
            return
        if state == KazooState.CONNECTED:
            self._session_id = session_id
            if self._multi_reads is _MultiReads.KNOWN:
                self._multi_reads = _MultiReads.UNKNOWN  # this server may be an older one
            self._change_state(SessionState.CONNECTED)
            self._pump()
        elif state == KazooState.SUSPENDED:
            self._change_state(SessionState.SUSPENDED)
        elif is_expired:
            self._fail_all(SessionExpired("/", "the ZooKeeper session is over"))
            self._change_state(SessionState.EXPIRED)
        else:
            # Nobody here asked for it: kazoo's thread ended on an error of its own. It will not come back, so the users
            # of this tree must know.
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


# kazoo logs every reconnection attempt; what matters of it is logged above.
_quiet = logging.getLogger("ottla.coordination.kazoo")
_quiet.setLevel(logging.ERROR)
