"""Faults of brokers over HTTP, for tests that are not written in Python.

| request | answer |
|---|---|
| `POST /faults` with a JSON object | 201 and the fault: `{"id": 1, "broker": 1, "hits": 0}` |
| `GET /faults` | the faults that were added |
| `GET /faults/1` | the fault; with `?count=2&timeout_s=10` when it has 2 hits, or 504 if they do not come |
| `DELETE /faults/1`, `DELETE /faults` | 204; it is removed, or all are |

The object has the arguments of `Faults.add`, and `broker`, the id of one of several. What cannot be is 400, and the
answer says why: `{"error": "..."}`. It listens on 127.0.0.1 alone, since nobody is asked who he is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

from ottla.embedded.broker import Broker
from ottla.embedded.handle import Handle
from ottla.embedded.hits import PATIENCE_S

#: The longest body that is read.
BODY_BYTES_MAX: Final = 1 << 16


class NewFault(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The arguments of `Faults.add`, and the broker that is to have the fault."""

    broker: int | None = None
    api: str | None = None
    error: str | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    client_id: str | None = None
    times: int | None = None
    after: int = 0
    when: Literal["before", "after"] = "before"
    delay: float = 0.0
    answer: bool = True
    close: Literal["before", "after"] | None = None
    disk: Literal["read", "write", "sync"] | None = None
    lost: bool = False


class Described(msgspec.Struct):
    """A fault as it is told."""

    id: int
    broker: int
    hits: int


class Told(Exception):
    """An answer other than success."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class FaultsOverHttp:
    """Serves the faults of brokers, by their ids, from a thread of its own until `close`.

    port: The port on 127.0.0.1.
    """

    def __init__(self, brokers: Mapping[int, Broker], port: int = 0) -> None:
        """Listens on the port; 0 is a free one. Raises OSError."""
        self._brokers = brokers
        self._faults: dict[int, tuple[int, Handle]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        # Somebody may wait for hits that do not come.
        self._server.block_on_close = False
        self.port: Final = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="ottla-faults", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listens no more. The faults stay."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- what is asked ---

    def add(self, body: bytes) -> Described:
        wanted = msgspec.json.decode(body or b"{}", type=NewFault)
        given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if name != "broker"}
        number = wanted.broker
        if number is None and len(self._brokers) == 1:
            (number,) = self._brokers
        if number is None or number not in self._brokers:
            raise ValueError(f"broker is {number}; say which of {', '.join(map(str, self._brokers))}")
        fault = self._brokers[number].faults.add(**given)
        with self._lock:
            place = max(self._faults, default=0) + 1
            self._faults[place] = number, fault
        return Described(place, number, fault.hits)

    def all(self) -> list[Described]:
        with self._lock:
            return [Described(place, number, fault.hits) for place, (number, fault) in self._faults.items()]

    def one(self, place: str, query: Mapping[str, list[str]]) -> Described:
        number, fault = self._found(place)
        if "count" in query:
            try:
                fault.wait(int(query["count"][0]), float(query.get("timeout_s", [str(PATIENCE_S)])[0]))
            except TimeoutError as late:
                raise Told(HTTPStatus.GATEWAY_TIMEOUT, str(late)) from None
        return Described(int(place), number, fault.hits)

    def remove(self, place: str) -> None:
        _, fault = self._found(place)
        fault.remove()
        with self._lock:
            self._faults.pop(int(place), None)

    def clear(self) -> None:
        with self._lock:
            faults = [fault for _, fault in self._faults.values()]
            self._faults.clear()
        for fault in faults:
            fault.remove()

    def _found(self, place: str) -> tuple[int, Handle]:
        with self._lock:
            found = self._faults.get(int(place)) if place.isdecimal() else None
        if found is None:
            raise Told(HTTPStatus.NOT_FOUND, f"there is no fault {place}")
        return found

    def _answer(self, method: str, target: str, body: bytes) -> tuple[HTTPStatus, object]:
        parts = urlsplit(target)
        collection, _, place = parts.path.strip("/").partition("/")
        if collection != "faults":
            raise Told(HTTPStatus.NOT_FOUND, f"there is no {parts.path}; faults are at /faults")
        if method == "POST" and not place:
            return HTTPStatus.CREATED, self.add(body)
        if method == "GET":
            return HTTPStatus.OK, self.one(place, parse_qs(parts.query)) if place else self.all()
        if method == "DELETE":
            if place:
                self.remove(place)
            else:
                self.clear()
            return HTTPStatus.NO_CONTENT, None
        raise Told(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} {parts.path} does nothing")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Tells nobody: the test knows what it asks."""

            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                told: object
                try:
                    if size > BODY_BYTES_MAX:
                        raise ValueError(f"the body has {size} bytes, and {BODY_BYTES_MAX} are enough")
                    status, told = answer(self.command, self.path, self.rfile.read(size))
                except Told as error:
                    status, told = error.status, {"error": str(error)}
                except ValueError as error:
                    status, told = HTTPStatus.BAD_REQUEST, {"error": str(error)}
                content = b"" if told is None else msgspec.json.encode(told) + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status is not HTTPStatus.NO_CONTENT:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = _serve

        return Handler
