"""The one task over the hub.

A task per connection costs 10-12 us a wake-up, and a task per request 7 us more. So Rust owns the readiness of all
sockets. Each wake-up is one *turn*: the hub hands out requests one by one, until `hub.next()` returns None, and the
answers of a turn leave with one system call per socket. Nor is the wait trio's (`idle.py`): handlers are called in no
task at all, between trio's passes. Only where that cannot be, the task waits for the hub's own descriptor.

The handler is called with each request as it starts. It is synchronous and quick: it answers, or it keeps the request
and answers later (from a task, or from the callback of a completion). What takes long never happens in it: a disk is
waited for by a Rust thread, whose result comes back as a completion.
"""

import itertools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from ottla._core import Completion, Disconnected, Hub, Request, Served, Tls
from ottla.logging_setup import Repeated
from ottla.net.guard import failed
from ottla.net.idle import Event, Turns, is_taken

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The place that is said to have failed, by the kind of the event.
_PLACES: dict[type, str] = {
    Served: "the end of a turn",
    Disconnected: "what follows the end of a connection",
    Completion: "the callback of a completion",
}

Handler = Callable[[Request], None]
"""Takes one request that starts, and sees to it that it is answered (`reply`, `skip` or `close`), now or later."""

Callback = Callable[[Any, BaseException | None], None]
"""Takes the value of a completion, or the error in place of it."""


def about(request: Request) -> dict[str, object]:
    """The fields of a log line about a request."""
    return {
        "api_key": request.api_key,
        "api_version": request.api_version,
        "client_id": request.client_id,
        "connection": request.connection_id,
    }


def refuse(request: Request, error: BaseException) -> None:
    """Closes the connection of a request whose handler failed."""
    place = f"API key {request.api_key} version {request.api_version} of client {request.client_id!r}"
    failed(place, error, about(request))
    request.close("the request could not be handled")


class Server:
    """Serves the connections of one hub in one task.

    All methods are for the loop's thread. One server runs once: after `run` returned, its hub is closed.

    `disconnected` is called with every connection that ended, whoever ended it.
    """

    def __init__(
        self,
        hub: Hub,
        *,
        disconnected: Callable[[Disconnected], None] | None = None,
    ) -> None:
        self.hub = hub
        self._served: Callable[[], None] | None = None
        self._disconnected = disconnected
        self._callbacks: dict[int, Callback] = {}
        self._listening: dict[int, Callback] = {}
        #: Gives the next token: a number that no other work has. One that is not used costs nothing.
        self.token = itertools.count(1).__next__
        self._stopping = False
        self._closings = Repeated(log)
        #: How many threads serve beside this task, and whether they may.
        self._threads = 0
        self._runs = False
        self._scope = trio.CancelScope()
        self._drained = trio.Event()
        self._failure: BaseException | None = None

    def listen(self, host: str, port: int, name: str = "PLAINTEXT", tls: Tls | None = None) -> int:
        """Listens on an address and returns the port; port 0 takes any free one. With `tls`, connections are encrypted.

        Clients may connect from now on, and are served by `run`. Raises OSError if the address is not to be had.
        """
        port = self.hub.listen(host, port, name)
        if tls is not None:
            try:
                self.hub.secure(name, tls)  # nobody is accepted before this turn of the loop is over
            except OSError:
                self.hub.stop_listening(name)
                raise
        return port

    def stop_listening(self, name: str) -> None:
        """Closes the listeners of this name; their connections end when their requests are answered."""
        self.hub.stop_listening(name)

    def serve_by(self, threads: int) -> None:
        """Has so many threads serve beside this task, from now on or from when `run` begins. Without any, it serves.

        Where the system does not give as many, those that there are serve, and a line in the log says so.
        """
        self._threads = threads
        if not self._runs:
            return
        try:
            self.hub.serve_beside(threads)
        except OSError as error:
            log.warning(
                "%d of %d network threads serve, for the system gives no more: %s; look at its limits "
                "(ulimit -u, and pids.max of the container), or set num.network.threads lower",
                len(self.hub.threads),
                threads,
                error,
            )

    def submit(self, start: Callable[[int], T | None], callback: Callback) -> T | None:
        """Starts work that a Rust thread may do. `start` gets the token under which the thread would report.

        Returns what `start` returns. If that is None the work is under way, and `callback` gets its result, on the
        loop, once.
        """
        token = self.token()
        done = start(token)
        if done is None:
            self._callbacks[token] = callback
        return done

    def expect(self, token: int, callback: Callback) -> None:
        """The work of a `token` is under way on a Rust thread; `callback` gets its result, on the loop, once."""
        self._callbacks[token] = callback

    def listen_to(self, token: int, callback: Callback) -> None:
        """A Rust thread reports under a `token` again and again: `callback` gets each result, on the loop, until
        `forget`.
        """
        self._listening[token] = callback

    def forget(self, token: int) -> None:
        """Drops what is still reported under a `token`; without an error if nobody listens."""
        self._listening.pop(token, None)

    async def run(self, handler: Handler, served: Callable[[], None] | None = None) -> None:
        """Serves until `stop`, or until cancelled; in the end all connections are closed.

        `served` is called when all requests of a turn were handed out, before its answers leave: what handlers put off
        is done then, for all of them together.
        """
        self._served = served
        self._runs = True
        self.serve_by(self._threads)
        try:
            with self._scope:
                await self._serve(handler)
            if self._failure is not None:
                raise self._failure
        finally:
            self._runs = False
            self.hub.close()
            while (event := self.hub.next()) is not None:
                self._dispatch(event)

    def stop(self, grace_s: float = 0.0) -> None:
        """Ends `run` in good order: accepts and reads no more, lets what was read be answered and the answers leave.

        `run` returns when all connections are closed, at the latest after `grace_s` seconds.
        """
        self._stopping = True
        self.hub.drain()
        if self.hub.connections == 0:
            self._drained.set()
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + grace_s)

    async def _serve(self, handler: Handler) -> None:
        turns = self._turns(handler)
        if turns is not None:
            try:
                await self._drained.wait()
            finally:
                turns.end()
        while not self._drained.is_set():
            await trio.lowlevel.wait_readable(self.hub.fileno())
            self._turn(self.hub.next(), handler)

    def _turns(self, handler: Handler) -> Turns | None:
        if is_taken():
            return None
        try:
            return Turns(self.hub, lambda event: self._turn(event, handler), self._failed)
        except (ImportError, AttributeError) as unknown:
            log.warning(
                "every turn costs a pass of the scheduler, which this release of trio does not let avoid: %s", unknown
            )
            return None

    def _turn(self, event: Event | None, handler: Handler) -> None:
        """The rest of a turn, from its first event."""
        next_event = self.hub.next
        while event is not None:
            if type(event) is Request:
                try:
                    handler(event)
                except BaseException as error:
                    refuse(event, error)
            else:
                self._dispatch(event)
            event = next_event()

    def _failed(self, error: BaseException) -> None:
        """A turn outside the task failed: the task ends with its error."""
        self._failure = error
        self._scope.cancel()

    def _dispatch(self, event: Event) -> None:
        try:
            self._hand_on(event)
        except BaseException as error:
            failed(_PLACES[type(event)], error)

    def _hand_on(self, event: Event) -> None:
        if isinstance(event, Served):
            if self._served is not None:
                self._served()
        elif isinstance(event, Disconnected):
            if self._stopping and self.hub.connections == 0:
                self._drained.set()
            if event.reason is not None:
                host, port = event.peer_address
                # A client that is refused comes again at once, with the same in mind.
                self._closings.log(
                    logging.WARNING,
                    (event.client_id, host, event.listener, event.reason),
                    "closed the connection of client %r at %s:%d on %s: %s",
                    event.client_id,
                    host,
                    port,
                    event.listener,
                    event.reason,
                    extra={
                        "client_id": event.client_id,
                        "peer": f"{host}:{port}",
                        "listener": event.listener,
                        "connection": event.connection_id,
                    },
                )
            if self._disconnected is not None:
                self._disconnected(event)
        elif isinstance(event, Completion):
            callback = self._callbacks.pop(event.token, None) or self._listening.get(event.token)
            if callback is not None:
                callback(event.value, event.error)
