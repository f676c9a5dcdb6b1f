"""Something between a broker and everybody else, as a firewall or a balancer is: while it is shut, it closes what came
through it and refuses the rest, as the machine of a dead process does. The broker behind it lives.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

from tests.cluster.stand import Member
from tests.support.waiting import PATIENCE_S, eventually

#: Closing resets the connection: the other side need not send anything to hear of it.
RESETS = struct.pack("ii", 1, 0)


class Gate:
    """Listens on a port of the broker's node and relays to the broker. `address` is HOST:PORT.

    `open` and `shut` may follow each other as often as a test likes; `through` is the number of connections that are
    open now, by the address that they come from.
    """

    def __init__(self, member: Member, usual_port: int) -> None:
        self._member = member
        with member.node.inside():
            self.port = member.node.port(usual_port)
        self.address = f"{member.node.address}:{self.port}"
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Gate:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def open(self) -> None:
        assert self._listener is None
        with self._member.node.inside():
            self._listener = socket.create_server((self._member.node.address, self.port))
        self._start(self._accept, self._listener)

    def shut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # it wakes the thread that accepts
            listener.close()
        with self._lock:
            clients = [*self._pairs]
        for client in clients:
            self._end(client)

    @property
    def through(self) -> set[str]:
        """The addresses from which connections are open."""
        with self._lock:
            return {client.getpeername()[0] for client in self._pairs}

    def is_watched_by(self, *members: Member) -> None:
        """Waits until these brokers have connections through it."""
        wanted = {member.node.address for member in members}
        eventually(f"{wanted} are connected", lambda: self.through >= wanted, facts=lambda: self.through)

    def _start(self, target: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                with self._member.node.inside():
                    broker = socket.create_connection((self._member.node.address, self._member.port), PATIENCE_S)
            except OSError:  # between its death and its next start
                client.close()
                continue
            broker.settimeout(None)
            for one in (client, broker):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs[client] = broker
                is_shut = self._listener is not listener
            if is_shut:
                self._end(client)
                return
            self._start(self._relay, client, client, broker)
            self._start(self._relay, client, broker, client)

    def _relay(self, client: socket.socket, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self._end(client)

    def _end(self, client: socket.socket) -> None:
        with self._lock:
            broker = self._pairs.pop(client, None)
        if broker is not None:
            for one in (client, broker):
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
