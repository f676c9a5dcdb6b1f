"""Connections to the tree: bytes in and out, the clock, and the commits.

An answer waits for the commit of all that came before it. Requests that came together share one: a task takes what
its connection has received, then another one commits and lets all answers go. The commit is done on the loop, which
has nothing else to do meanwhile.

So is a multi, whole. Between two of its items nobody may read, since he would see what never was, and another change
would have to wait for it anyway. A multi as large as a frame may be takes 0.6 s (19,000 creations) to 1.5 s (55,000
checks), and its commit up to 0.3 s more, as measured on two cores of a shared machine. A topic with 5,000 partitions
has some 10,000 nodes. No session is over because of that (`Listener._expire`).

Each connection costs at most: one frame that is being received (1 MiB) and what it was sent before, `UNREAD_BYTES_MAX`
and the answer to one request above that. A client that does not read what it asked for is not listened to any longer,
so its session ends.

A disk without room is a lost connection to all clients, whose outcomes are unknown. Another error of the disk ends the
server.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import Final

import trio

from ottla.coordination.database import is_full
from ottla.coordination.server.frames import FRAME_BYTES_MAX, Malformed
from ottla.coordination.server.nodes import ServedNodes
from ottla.coordination.server.requests import Client, Service
from ottla.coordination.tree import Unavailable

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
CONNECTIONS_MAX: Final = 500
UNREAD_BYTES_MAX: Final = 4 << 20
RECEIVE_BYTES: Final = 64 << 10
BURST_MAX: Final = 64
"""Requests of one connection that are taken before others have their turn."""
CONNECT_S: Final = 10.0
"""How long a connection may be there without a first request."""
LEAVE_S: Final = 5.0
"""How long a client is given to read its last answers."""
LOOK_S: Final = 0.5
"""How often the ends of sessions are looked for."""
SRVR: Final = b"srvr"
"""The word that asks a server how it is."""


class Connection:
    """One connection. `client` is how the service knows it."""

    def __init__(self, listener: Listener, stream: trio.SocketStream) -> None:
        self.client = Client(self._tell, self._leave)
        self._listener = listener
        self._stream = stream
        self._scope = trio.CancelScope()
        #: Frames that wait for a commit, and bytes that may be sent.
        self._held: list[bytes] = []
        self._unsent = bytearray()
        self._sending = 0
        self._is_leaving = self._is_cut = False
        self._changed = trio.Event()

    async def run(self) -> None:
        """Serves it until it is closed by either side."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                try:
                    await self._receive()
                except Malformed as error:
                    logger.info("a connection is closed: %s", error)
                    self.cut()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.cut()

    def cut(self) -> None:
        """Closes it now, with nothing sent any more."""
        self._is_cut = True
        self._held.clear()
        self._unsent.clear()
        self._scope.cancel()

    def release(self) -> None:
        """All that it was told is committed."""
        for frame in self._held:
            self._unsent += frame
        self._held.clear()
        self._wake()

    def _tell(self, frame: bytes) -> None:
        if not self._is_cut and not self._is_leaving:
            self._held.append(frame)
            self._listener.told(self)

    def _leave(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._scope.deadline = trio.current_time() + LEAVE_S
            self._listener.told(self)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    @property
    def _unread(self) -> int:
        return sum(map(len, self._held)) + len(self._unsent) + self._sending

    async def _receive(self) -> None:
        received = bytearray()
        with trio.move_on_after(CONNECT_S) as patience:
            first = await self._first(received)
        if patience.cancelled_caught:
            raise Malformed(f"it asked for no session in {CONNECT_S:g} s")
        if first is None:
            self.cut()
            return
        service = self._listener.service
        self._step(service.connect, first)
        while not self._is_leaving:
            for _ in range(BURST_MAX):
                if self._ends or self._unread > UNREAD_BYTES_MAX or (frame := self._next(received)) is None:
                    break
                self._step(service.take, frame)
            await trio.lowlevel.checkpoint()
            if self._unread > UNREAD_BYTES_MAX:
                await self._changed.wait()
            elif not self._is_whole(received) and not await self._more(received):
                self.cut()

    @property
    def _ends(self) -> bool:
        return self._is_leaving or self._is_cut

    async def _first(self, received: bytearray) -> bytes | None:
        """The first frame; None if none comes, or another question was asked and answered."""
        while await self._more(received):
            if received.startswith(SRVR):
                await self._stream.send_all(self._listener.description().encode())
                return None
            if (frame := self._next(received)) is not None:
                return frame
        return None

    def _step(self, step: Callable[[Client, bytes, float], None], frame: bytes) -> None:
        """Does what a frame asks for. Raises Malformed, sqlite3.Error."""
        try:
            self._listener.do(lambda now: step(self.client, frame, now))
        except (Malformed, sqlite3.Error):
            raise
        except Exception as error:
            # A mistake of ours is not to end other sessions.
            logger.exception("a request failed")
            raise Malformed(f"its request failed: {error!r}") from error

    async def _more(self, received: bytearray) -> bool:
        """Appends what came; False if the client has closed the connection."""
        part = await self._stream.receive_some(RECEIVE_BYTES)
        received += part
        return bool(part)

    def _is_whole(self, received: bytearray) -> bool:
        """True if a whole frame was received. Raises Malformed."""
        if len(received) < 4:
            return False
        size = int.from_bytes(received[:4], "big", signed=True)
        if not 0 < size <= FRAME_BYTES_MAX:
            raise Malformed(f"a frame of {size} bytes, where {FRAME_BYTES_MAX} are the most")
        return len(received) >= 4 + size

    def _next(self, received: bytearray) -> bytes | None:
        """Takes a whole frame off what was received; None while there is none. Raises Malformed."""
        if not self._is_whole(received):
            return None
        end = 4 + int.from_bytes(received[:4], "big")
        frame = bytes(received[4:end])
        del received[:end]
        return frame

    async def _send(self) -> None:
        try:
            while not (self._is_leaving and not self._unsent and not self._held):
                if self._unsent:
                    part, self._unsent = self._unsent, bytearray()
                    self._sending = len(part)
                    await self._stream.send_all(part)
                    self._sending = 0
                    self._wake()
                else:
                    await self._changed.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._scope.cancel()


class Listener:
    """The server. One task of the caller's runs it."""

    def __init__(self, database: ServedNodes) -> None:
        self.service = Service(database)
        self._connections: set[Connection] = set()
        self._told: dict[Connection, None] = {}
        self._is_wanted = trio.Event()
        self._is_full = False

    async def serve(self, port: int = 0, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves at 127.0.0.1 until it is cancelled; tells the port when clients can come.

        Raises OSError if the port is in use; Unavailable, in a group, if the disk fails.
        """
        listeners = await trio.open_tcp_listeners(port, host=HOST)
        found: int = listeners[0].socket.getsockname()[1]
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._commit_what_changed)
                nursery.start_soon(self._expire)
                nursery.start_soon(trio.serve_listeners, self._serve_one, listeners)
                task_status.started(found)
        except* sqlite3.Error as failed:
            raise Unavailable("/", f"the file of the tree failed: {failed.exceptions[0]}") from failed

    def description(self) -> str:
        """For one who asks `srvr`."""
        return (
            f"Ottla's coordination tree, for laptops and tests\nConnections: {len(self._connections)}\n"
            f"Sessions: {len(self.service.sessions)}\nZxid: {self.service.database.zxid:#x}\nMode: standalone\n"
        )

    def told(self, connection: Connection) -> None:
        """A connection has something to send after the next commit."""
        self._told[connection] = None
        self._is_wanted.set()

    def do(self, step: Callable[[float], None]) -> None:
        """Does something to the tree. Without room on the disk, all connections are lost instead. Raises Malformed,
        sqlite3.Error.
        """
        try:
            step(trio.current_time())
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            self._lose_all(error)

    def _lose_all(self, error: Exception) -> None:
        if not self._is_full:
            logger.error(
                "no room on the disk for the coordination tree: its clients lose their connections (%s)", error
            )
        self._is_full = True
        self.service.rollback()
        self._told.clear()
        for connection in self._connections:
            connection.cut()

    async def _commit_what_changed(self) -> None:
        while True:
            await self._is_wanted.wait()
            # The others that have received something take it first.
            await trio.lowlevel.checkpoint()
            self._is_wanted = trio.Event()
            self.do(lambda _: self._commit())

    def _commit(self) -> None:
        if self.service.is_changed:
            self.service.commit()
            self._is_full = False
        told, self._told = self._told, {}
        for connection in told:
            connection.release()

    async def _expire(self) -> None:
        while True:
            due = trio.current_time() + LOOK_S
            await trio.sleep_until(due)
            if (late := trio.current_time() - due) > LOOK_S:
                # The process was stopped, or computed: what clients said meanwhile is not read yet.
                logger.warning("the coordination tree stood still for %.1f s", late)
                self.service.sessions.stood_still(late)
            self.do(self.service.expire)
            self._is_wanted.set()

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            logger.warning("there are %d connections, and no more are taken", CONNECTIONS_MAX)
            await trio.aclose_forcefully(stream)
            return
        connection = Connection(self, stream)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self.service.gone(connection.client)
            await trio.aclose_forcefully(stream)
