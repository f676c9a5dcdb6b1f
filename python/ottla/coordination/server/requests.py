"""The requests: each changes or reads the nodes in the file, sessions, or watches. No I/O but the file's, no clock.

Everything runs in the order in which it came: a client's requests, and the changes of others. What a client is told,
answers and events, goes to its `tell` in that order too, so an event comes before any answer that shows the state after
the change, and after the answer to the read that armed its watch. Nothing may reach a client before `commit`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.coordination.server import frames
from ottla.coordination.server.frames import Change, Code, Connect, Malformed, Op, Reader, Refused
from ottla.coordination.server.nodes import ServedNodes
from ottla.coordination.server.sessions import Session, Sessions
from ottla.coordination.tree import (
    Check,
    Create,
    EventKind,
    NoNode,
    Operation,
    Set,
    Stat,
    TreeError,
    WatchEvent,
)
from ottla.coordination.watches import Watches

logger = logging.getLogger(__name__)

WATCHES_MAX: Final = 100_000
"""Armed by one client at a time, some 300 bytes each. One that arms more loses its connection."""
ANSWER_BYTES_MAX: Final = 4 << 20
"""Of many reads in one request, which are done in one go: some 0.5 s at most. Clients read answers of 1 MiB, unless
they are told otherwise (`jute.maxbuffer`)."""


class Client:
    """A connection, as this module sees it. `tell` takes a frame that is for it, `leave` is called when no further one
    comes: the connection is to be closed behind the last.
    """

    def __init__(self, tell: Callable[[bytes], None], leave: Callable[[], None]) -> None:
        self.tell = tell
        self.leave = leave
        self.session: Session[Client] | None = None
        #: Its watches: whether it is one of children, and the path.
        self.armed: set[tuple[bool, str]] = set()


class Service:
    """All sessions, and the file. `take` and the others are called one at a time.

    sqlite3.Error comes out of every method if the disk fails, or has no room. Then `rollback`; no client may be told
    anything that was not committed.
    """

    def __init__(self, database: ServedNodes) -> None:
        self.database = database
        self.sessions: Sessions[Client] = Sessions()
        self._watches = Watches()
        self._clients: dict[int, Client] = {}
        #: Sessions that are over and whose nodes may still be in the file, until that is committed.
        self._over: set[int] = set()

    # --- the life of a session ---

    def connect(self, client: Client, frame: bytes, now: float) -> None:
        """A connection's first request. It is given a session, or hears that its session is over.

        Raises Malformed for what is no such request, for one of a client that has seen more than this file has, and for
        too many sessions.
        """
        asked = Connect.decode(frame)
        if asked.last_zxid > self.database.zxid:
            raise Malformed(f"it has seen transaction {asked.last_zxid}, and the last one here is {self.database.zxid}")
        if asked.session_id == 0:
            if self.sessions.is_full:
                raise Malformed(f"there are {len(self.sessions)} sessions")
            # By itself, so that no rollback takes the number back.
            self.commit()
            session = self.sessions.begin(self.database.new_session(), asked.timeout_ms, client, now)
        else:
            found = self.sessions.resume(asked.session_id, asked.password, asked.timeout_ms, client, now)
            if found is None:
                client.tell(frames.EXPIRED)
                client.leave()
                return
            session, former = found
            if former is not None:
                self._detach(former)
                former.leave()
        client.session = session
        self._clients[id(client)] = client
        client.tell(frames.connected(session.id, session.password, session.timeout_ms))

    def gone(self, client: Client) -> None:
        """Its connection is closed. Its session waits for another one."""
        if client.session is not None and client.session.client is client:
            client.session.client = None
        self._detach(client)

    def expire(self, now: float) -> None:
        """Ends the sessions whose timeouts have passed."""
        for session in self.sessions.over(now):
            logger.info("session %d is over: nothing was heard for %d ms", session.id, session.timeout_ms)
            self._end(session)
        for session_id in self._over:
            self._fire(self.database.end_session(session_id))

    def _end(self, session: Session[Client]) -> None:
        self.sessions.end(session)
        self._over.add(session.id)
        client, session.client = session.client, None
        if client is not None:
            self._detach(client)
            client.leave()
        self._fire(self.database.end_session(session.id))

    def _detach(self, client: Client) -> None:
        """Nothing more is for this client: its watches go."""
        if self._clients.pop(id(client), None) is not None:
            self._watches.drop_session(id(client))
        client.armed.clear()
        client.session = None

    # --- the file ---

    @property
    def is_changed(self) -> bool:
        """True if there is something to commit."""
        return self.database.is_changed

    def commit(self) -> None:
        """Makes all changes durable."""
        self.database.commit()
        self._watches.committed()
        self._over.clear()

    def rollback(self) -> None:
        """Forgets the changes since the last commit. Clients were told of them by `tell`: all of them must lose their
        connections before any of that is sent. Sessions that ended stay over.
        """
        self.database.rollback()
        self._watches.committed()

    # --- requests ---

    def take(self, client: Client, frame: bytes, now: float) -> None:
        """One request of a client with a session. Raises Malformed for one whose header cannot be read."""
        session = client.session
        if session is None:
            return
        session.heard(now)
        reader = Reader(frame)
        xid, kind = reader.int32(), reader.int32()
        code, body = Code.OK, b""
        try:
            body = self._answer(client, session, kind, reader)
        except Refused as refused:
            code = refused.code
        except Malformed:
            code = Code.MARSHALLING_ERROR
        except TreeError as error:
            code = frames.CODES[type(error)]
        client.tell(frames.reply(xid, self.database.zxid, code, body))
        if code is Code.AUTH_FAILED:
            client.leave()
        if kind == Op.CLOSE_SESSION:
            # Its own watches hear nothing more; the answer is the last frame.
            self._end(session)

    def _answer(self, client: Client, session: Session[Client], kind: int, reader: Reader) -> bytes:
        """The body of the answer. Raises Refused, Malformed, TreeError."""
        match kind:
            case Op.PING | Op.CLOSE_SESSION:
                return b""
            case Op.EXISTS | Op.GET_DATA | Op.GET_CHILDREN | Op.GET_CHILDREN_2:
                return self._read(client, kind, reader)
            case Op.CREATE | Op.CREATE_2 | Op.DELETE | Op.SET_DATA | Op.CHECK:
                change = frames.change(kind, reader)
                return self._changed(change, self._change([change], session)[0])
            case Op.MULTI:
                return self._multi(session, reader)
            case Op.MULTI_READ:
                return self._multi_read(client, reader)
            case Op.SYNC:
                return frames.text(reader.text())
            case Op.GET_ACL:
                return frames.rules([frames.OPEN]) + frames.stat(self.database.get(frames.path_of(reader)).stat)
            case Op.SET_ACL:
                path = frames.path_of(reader)
                frames.check_rules(reader.rules())
                return frames.stat(self.database.get(path).stat)
            case Op.SET_WATCHES:
                return self._set_watches(client, reader)
            case Op.CHECK_WATCHES | Op.REMOVE_WATCHES:
                return self._watches_of(client, reader, remove=kind == Op.REMOVE_WATCHES)
            case Op.AUTH:
                raise Refused(Code.AUTH_FAILED)
            case _:
                raise Refused(Code.UNIMPLEMENTED)

    def _read(self, client: Client, kind: int, reader: Reader) -> bytes:
        path, watched = frames.path_of(reader), reader.boolean()
        if kind == Op.EXISTS:
            node = self.database.get_or_none(path)
            if watched:
                self._arm(client, path, children=False)
            if node is None:
                raise NoNode(path)
            return frames.stat(node.stat)
        node = self.database.get(path)
        if watched:
            self._arm(client, path, children=kind != Op.GET_DATA)
        if kind == Op.GET_DATA:
            return frames.data(self.database.data(path, node)) + frames.stat(node.stat)
        names = frames.texts(self.database.children(path))
        return names + frames.stat(node.stat) if kind == Op.GET_CHILDREN_2 else names

    def _change(self, changes: list[Change], session: Session[Client]) -> list[object]:
        results, events = self.database.multi([change.operation for change in changes], session.id)
        for change, result in zip(changes, results, strict=True):
            if isinstance(change.operation, Create | Set):
                path = result if isinstance(result, str) else change.operation.path
                is_empty = not change.operation.data and not change.is_null
                self.database.wrote(path, is_empty=is_empty)
        self._fire(events)
        return results

    def _changed(self, change: Change, result: object) -> bytes:
        """The body of the answer to one change by itself."""
        if isinstance(change.operation, Check):
            return frames.stat(self.database.get(change.operation.path).stat)
        done = _done(change.operation, result)
        return done + frames.stat(self.database.get(str(result)).stat) if change.kind == Op.CREATE_2 else done

    def _multi(self, session: Session[Client], reader: Reader) -> bytes:
        kinds: list[int] = []
        try:
            changes = [*self._items(reader, kinds)]
            results = self._change(changes, session)
        except Refused as refused:
            if refused.index is None:
                raise
            return _failed(len(kinds), refused.index, refused.code)
        except TreeError as error:
            return _failed(len(kinds), error.index or 0, frames.CODES[type(error)])
        made = iter(self.database.created)
        answers: list[bytes] = []
        for change, result in zip(changes, results, strict=True):
            answers.append(frames.item(change.kind) + _done(change.operation, result))
            if isinstance(change.operation, Create):
                stat = next(made)
                if change.kind == Op.CREATE_2:
                    answers.append(frames.stat(stat))
        return b"".join((*answers, frames.END))

    def _items(self, reader: Reader, kinds: list[int]) -> Iterator[Change]:
        """The items of a multi, whose types are put into `kinds`. All are read, then the first wrong one is Refused."""
        wrong: Refused | None = None
        while (kind := reader.item()) is not None:
            if kind not in frames.IN_MULTI:
                raise Refused(Code.UNIMPLEMENTED)
            kinds.append(kind)
            try:
                yield frames.change(kind, reader)
            except Refused as refused:
                wrong = wrong or Refused(refused.code, len(kinds) - 1)
        if wrong is not None:
            raise wrong

    def _multi_read(self, client: Client, reader: Reader) -> bytes:
        answers: list[bytes] = []
        size = 0
        while (kind := reader.item()) is not None:
            if kind not in (Op.GET_DATA, Op.GET_CHILDREN):
                raise Refused(Code.UNIMPLEMENTED)
            path, _ = reader.text(), reader.boolean()  # as with ZooKeeper, no watch is set by one of these
            try:
                frames.path_of(reader, path=path)
                node = self.database.get(path)
            except Refused as refused:
                answer = frames.failed_item(refused.code)
            except NoNode:
                answer = frames.failed_item(Code.NO_NODE)
            else:
                is_data = kind == Op.GET_DATA
                body = (
                    frames.data(self.database.data(path, node)) + frames.stat(node.stat)
                    if is_data
                    else frames.texts(self.database.children(path))
                )
                answer = frames.item(kind) + body
            answers.append(answer)
            size += len(answer)
            if size > ANSWER_BYTES_MAX:
                raise Refused(Code.MARSHALLING_ERROR)
        return b"".join((*answers, frames.END))

    # --- watches ---

    def _set_watches(self, client: Client, reader: Reader) -> bytes:
        """The watches of a client that is back, with the last transaction that it has seen: what it has missed since
        fires at once.
        """
        seen = reader.int64()
        of_data, of_nothing, of_children = reader.texts(), reader.texts(), reader.texts()
        for path in (*of_data, *of_nothing, *of_children):
            frames.path_of(reader, path=path)
        for path in of_data:
            node = self.database.get_or_none(path)
            is_new = node is not None and node.stat.mzxid > seen
            missed = EventKind.DELETED if node is None else EventKind.CHANGED if is_new else None
            self._arm_or_tell(client, path, missed)
        for path in of_nothing:
            self._arm_or_tell(client, path, None if self.database.get_or_none(path) is None else EventKind.CREATED)
        for path in of_children:
            node = self.database.get_or_none(path)
            is_new = node is not None and node.stat.pzxid > seen
            missed = EventKind.DELETED if node is None else EventKind.CHILDREN if is_new else None
            self._arm_or_tell(client, path, missed, children=True)
        return b""

    def _arm_or_tell(self, client: Client, path: str, missed: EventKind | None, *, children: bool = False) -> None:
        if missed is None:
            self._arm(client, path, children=children)
        else:
            client.tell(frames.event(WatchEvent(missed, path), self.database.zxid))

    def _arm(self, client: Client, path: str, *, children: bool) -> None:
        if len(client.armed) >= WATCHES_MAX and (children, path) not in client.armed:
            logger.warning("a client has %d watches and asks for more: its connection is closed", WATCHES_MAX)
            client.leave()
            raise Refused(Code.BAD_ARGUMENTS)
        client.armed.add((children, path))
        self._watches.arm(path, id(client), _heard, children=children)

    def _watches_of(self, client: Client, reader: Reader, *, remove: bool) -> bytes:
        """Refused unless the client has watches of this type at a path; with `remove` they go."""
        path, wanted = frames.path_of(reader), frames.watcher_type(reader)
        found = [(children, path) for children in wanted if (children, path) in client.armed]
        if not found:
            raise Refused(Code.NO_WATCHER)
        for key in found if remove else ():
            client.armed.remove(key)
            self._watches.disarm(path, id(client), _heard, children=key[0])
        return b""

    def _fire(self, events: Iterable[WatchEvent]) -> None:
        for event in events:
            if event.kind is EventKind.DELETED:
                self.database.deleted(event.path)
            # A client with both watches of a node hears once that it is gone.
            for key in dict.fromkeys(one.session_id for one in self._watches.fired(event)):
                client = self._clients[key]
                client.armed -= {(children, event.path) for children in _ARMED_FOR[event.kind]}
                client.tell(frames.event(event, self.database.zxid))


_ARMED_FOR: Final = {
    EventKind.CREATED: (False,),
    EventKind.CHANGED: (False,),
    EventKind.DELETED: (False, True),
    EventKind.CHILDREN: (True,),
}
"""Which watches an event disarms: those of the node itself, of its children."""


def _heard(_: WatchEvent) -> None:
    """Stands for a watch where the client alone says who is told."""


def _done(operation: Operation, result: object) -> bytes:
    """The body of the answer to a change in a multi: the path of what was created, or the Stat after it was set."""
    match operation:
        case Create():
            assert isinstance(result, str)
            return frames.text(result)
        case Set():
            assert isinstance(result, Stat)
            return frames.stat(result)
        case _:
            return b""


def _failed(count: int, index: int, code: Code) -> bytes:
    """The answer to a multi that was not done, since the item `index` could not be."""
    codes = [Code.OK] * index + [code] + [Code.RUNTIME_INCONSISTENCY] * (count - index - 1)
    return b"".join((*map(frames.failed_item, codes), frames.END))
