"""The HTTP side: /metrics, /healthz and /readyz, served by tasks of the broker's own loop.

That it is the broker's loop is the point of /healthz: an answer means that the loop turns.

The port may have TLS, and a password for /metrics (`doors`). The process behind it has clients to serve, so everything
that somebody can do here has a bound: connections, the time that a request takes to come and an answer takes to be
read, and the memory of answers that nobody reads. It speaks HTTP/1.1 alone. A scrape is written to memory first,
between other work of the loop, and sent then: a client that does not read holds up nobody else.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import h11
import trio
import trio.abc

from ottla.metrics import doors, exposition
from ottla.metrics.doors import Secured
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.metrics.families import Family

logger = logging.getLogger("ottla.metrics")

#: Connections at a time. One more takes the place of the one that has been without a request for longest; where all are
#: being answered it is closed at once.
CONNECTIONS_MAX: Final = 64
#: Bytes of a request's head.
HEAD_BYTES_MAX: Final = 16 * 1024
#: How long a request may take to come, from its first byte, or from the connection's start.
HEAD_S: Final = 10.0
#: How long a connection may be without a request after an answer.
IDLE_S: Final = 75.0
#: How long an answer may take to be read.
ANSWER_S: Final = 30.0
#: Scrapes that wait for the one that is written; more are sent away.
SCRAPES_MAX: Final = 8
#: Bytes of answers that are being sent, from which on scrapes are sent away.
SENDING_BYTES_MAX: Final = 64 * 1024 * 1024
#: How long the end of TLS may take to be sent.
CLOSE_S: Final = 1.0
#: An answer to a wrong password comes so much later.
REFUSAL_S: Final = 0.1
OPEN: Final = Secured()
#: Those who ask whether a broker lives have no password, as a rule.
UNGUARDED: Final = ("/healthz", "/readyz")
CHALLENGE: Final = ("www-authenticate", 'Basic realm="ottla", charset="UTF-8"')


class Watched(Protocol):
    """The state that the endpoints show."""

    def metrics(self) -> Iterator[tuple[Family, exposition.Rows]]:
        """Every metric that there is now; rows are made as they are asked for."""

    def not_ready(self) -> Mapping[str, str]:
        """Why no traffic should be sent here: which part, and what it is about. Empty if some may be."""


class Answer:
    """An answer of which all is known."""

    def __init__(self, status: int, content_type: str, pieces: list[bytes], *headers: tuple[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.content_type = content_type
        self.pieces = pieces
        self.length = sum(map(len, pieces))


def _text(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", [text.encode()])


def _json(status: int, value: object) -> Answer:
    return Answer(status, "application/json", [json.dumps(value).encode()])


class Pages:
    """The three pages."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._writing = trio.Lock()
        self.sending_bytes = 0

    async def answer(self, method: str, path: str) -> Answer:
        if method not in ("GET", "HEAD"):
            return _text(405, "only GET\n")
        match path.partition("?")[0]:
            case "/metrics":
                return await self._metrics()
            case "/healthz":
                return _json(200, {"status": "alive"})
            case "/readyz":
                reasons = self._watched.not_ready()
                return (
                    _json(503, {"status": "not ready", "reasons": dict(reasons)})
                    if reasons
                    else _json(200, {"status": "ready"})
                )
        return _text(404, "only /metrics, /healthz and /readyz\n")

    async def _metrics(self) -> Answer:
        if self._writing.statistics().tasks_waiting >= SCRAPES_MAX or self.sending_bytes > SENDING_BYTES_MAX:
            return _text(503, "too many scrapes at a time\n")
        written: list[bytes] = []
        async with self._writing:
            slices = Slices(own=True)
            for family, rows in self._watched.metrics():
                for piece in exposition.pieces(family, rows):
                    written.append(piece)
                    await slices.end()
                await slices.end()
            written.append(exposition.process())
        return Answer(200, exposition.CONTENT_TYPE, written)


class _Connections:
    def __init__(self, pages: Pages, secured: Secured = OPEN) -> None:
        self._pages = pages
        self._secured = secured
        self._count = 0
        #: Those without a request, the longest first.
        self._idle: dict[trio.CancelScope, None] = {}

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serves one connection until its end. Raises nothing that a client can cause."""
        if self._count >= CONNECTIONS_MAX and not self._end_idle():
            await trio.aclose_forcefully(stream)
            return
        self._count += 1
        address = _address(stream)
        try:
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
            if self._secured.tls is not None:
                stream = trio.SSLStream(stream, self._secured.tls(), server_side=True, https_compatible=True)
            try:
                wait_s = HEAD_S
                while await self._exchange(stream, connection, address, wait_s):
                    connection.start_next_cycle()
                    wait_s = IDLE_S
            finally:
                with trio.move_on_after(CLOSE_S):
                    await stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass
        finally:
            self._count -= 1

    async def _answer(self, request: h11.Request, address: str) -> Answer:
        path, login = request.target.decode("latin-1"), self._secured.login
        if login is not None and path.partition("?")[0] not in UNGUARDED:
            given = next((value.decode("latin-1") for name, value in request.headers if name == b"authorization"), None)
            if not login().fits(given):
                if self._secured.refused is not None:
                    self._secured.refused(address, doors.claimed(given))
                await trio.sleep(REFUSAL_S)
                return Answer(401, "text/plain; charset=utf-8", [b"a name and a password are needed\n"], CHALLENGE)
        return await self._pages.answer(request.method.decode(), path)

    def _end_idle(self) -> bool:
        """Ends a connection that nobody uses; False if there is none. Idle ones must not keep a scraper out, nor who
        asks whether the broker is alive.
        """
        for scope in self._idle:
            del self._idle[scope]
            scope.cancel()
            return True
        return False

    async def _exchange(self, stream: trio.abc.Stream, connection: h11.Connection, address: str, wait_s: float) -> bool:
        """One request and its answer; whether another request may come."""
        try:
            request = None
            with trio.CancelScope() as idle:
                self._idle[idle] = None
                try:
                    request = await _request(stream, connection, wait_s)
                finally:
                    self._idle.pop(idle, None)
            if request is None:
                return False
            answer = await self._answer(request, address)
            is_whole = type(connection.next_event()) is h11.EndOfMessage
        except h11.RemoteProtocolError as error:
            if connection.our_state is not h11.IDLE:
                return False
            request, is_whole = None, False
            answer = _text(error.error_status_hint, f"{error}\n")
        self._pages.sending_bytes += answer.length
        try:
            with trio.fail_after(ANSWER_S):
                await _send(stream, connection, answer, is_head=request is not None and request.method == b"HEAD")
        finally:
            self._pages.sending_bytes -= answer.length
        # A request with a body is answered, and its body is not read.
        return is_whole and connection.our_state is h11.DONE


def _address(stream: trio.abc.Stream) -> str:
    """Of the client; empty at a socket of the file system."""
    if not isinstance(stream, trio.SocketStream):
        return ""
    with contextlib.suppress(OSError):
        name = stream.socket.getpeername()
        return str(name[0]) if isinstance(name, tuple) else ""
    return ""


async def _request(stream: trio.abc.Stream, connection: h11.Connection, wait_s: float) -> h11.Request | None:
    """The next request; None at the connection's end. Raises TooSlowError, RemoteProtocolError."""
    with trio.fail_after(wait_s) as scope:
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(HEAD_BYTES_MAX))
            # From its first byte on a request has so long; more bytes do not give it more.
            scope.deadline = min(scope.deadline, trio.current_time() + HEAD_S)
    return event if isinstance(event, h11.Request) else None


async def _send(stream: trio.abc.Stream, connection: h11.Connection, answer: Answer, *, is_head: bool) -> None:
    headers = [
        ("content-type", answer.content_type),
        ("content-length", str(answer.length)),
        *answer.headers,
    ]
    head = connection.send(h11.Response(status_code=answer.status, headers=headers))
    assert head is not None
    await stream.send_all(head)
    for piece in () if is_head else answer.pieces:
        await stream.send_all(connection.send(h11.Data(data=piece)) or b"")
    await stream.send_all(connection.send(h11.EndOfMessage()) or b"")


async def serve(
    watched: Watched,
    host: str,
    port: int,
    secured: Secured = OPEN,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until cancelled; started with the URL, when it listens. Raises OSError if the address is not to be had."""
    shown = f"[{host}]" if ":" in host else host
    try:
        listeners = await doors.tcp(host, port)
    except OSError as problem:
        why = problem.strerror or problem
        raise OSError(problem.errno, f"metrics.listener: cannot listen on {shown}:{port}: {why}") from None
    scheme = "http" if secured.tls is None else "https"
    url = f"{scheme}://{shown}:{listeners[0].socket.getsockname()[1]}"
    await _serve(watched, listeners, url, secured, task_status)


async def serve_unix(
    watched: Watched, path: str, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """The same at a socket of the file system, which is gone in the end."""
    try:
        listeners = doors.unix(path)
    except OSError as problem:
        why = problem.strerror or problem
        raise OSError(problem.errno, f"metrics.listener: cannot listen on {path}: {why}") from None
    try:
        await _serve(watched, listeners, f"{doors.UNIX}{path}", OPEN, task_status)
    finally:
        Path(path).unlink(missing_ok=True)


async def _serve(
    watched: Watched,
    listeners: list[trio.SocketListener],
    url: str,
    secured: Secured,
    task_status: trio.TaskStatus[str],
) -> None:
    logger.info("metrics, healthz and readyz are at %s", url)
    task_status.started(url)
    await trio.serve_listeners(_Connections(Pages(watched), secured).serve, listeners)
