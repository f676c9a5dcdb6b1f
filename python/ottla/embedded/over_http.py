"""Brokers inside a program over HTTP, for tests that are not written in Python.

| request | answer |
|---|---|
| `POST /faults` with a JSON object | 201 and the fault: `{"id": 1, "broker": 1, "hits": 0}` |
| `GET /faults` | the faults that were added |
| `GET /faults/1` | the fault; with `?count=2&timeout_s=10` when it has 2 hits, or 504 if they do not come |
| `DELETE /faults/1`, `DELETE /faults` | 204; it is removed, or all are |
| `GET /brokers`, `GET /brokers/1` | `{"id": 1, "port": 9092, "is_running": true, "is_paused": false, ...}` |
| `POST /brokers/1/pause`, `resume`, `kill`, `stop`, `start` | the broker, when that is done |
| `POST /brokers/1/power_loss` | the same; `{"seed": 7}` says what a disk has kept |
| `POST /brokers/1/clock` with `{"jump_s": 3600}` | the same; `{"reset": true}` is the clock of the machine again |
| `POST /leaders` with `{"topic": "orders", "partition": 0, "to": 2}` | `{"broker": 2}`, when it leads |
| `POST /coordinators` with `{"group": "g", "to": 2}` or a `transactional_id` | `{"broker": 2}`, when it coordinates |
| `GET /leaders?topic=orders`, `GET /coordinators?group=g` | `{"broker": 2}`, null while there is none |

The object of a fault has the arguments of `Faults.add`, and `broker`, the id of one of several. Without `to` the next
broker leads or coordinates. What cannot be is 400, what does not exist is 404, what a broker is not in the state for is
409, and what does not come in time is 504; the answer says why: `{"error": "..."}`. It listens on 127.0.0.1 alone,
since nobody is asked who he is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from ottla.embedded.broker import Broker
from ottla.embedded.cluster import Cluster
from ottla.embedded.http_answers import Told, told
from ottla.embedded.http_brokers import BrokersById
from ottla.embedded.http_faults import FaultsById

#: The longest body that is read.
BODY_BYTES_MAX: Final = 1 << 16


class BrokersOverHttp:
    """Serves brokers, by their ids, from a thread of its own until `close`.

    port: The port on 127.0.0.1.
    """

    def __init__(self, brokers: Mapping[int, Broker], port: int = 0, *, cluster: Cluster | None = None) -> None:
        """Listens on the port; 0 is a free one. `cluster`: the cluster that the brokers are. Raises OSError."""
        of_cluster = BrokersById(brokers, cluster)
        self._collections = {
            "faults": FaultsById(brokers).answer,
            "brokers": of_cluster.of_brokers,
            "leaders": of_cluster.of_leaders,
            "coordinators": of_cluster.of_coordinators,
        }
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

    def _answer(self, method: str, target: str, body: bytes) -> tuple[HTTPStatus, object]:
        parts = urlsplit(target)
        collection, _, place = parts.path.strip("/").partition("/")
        if collection not in self._collections:
            known = ", ".join(f"/{name}" for name in self._collections)
            raise Told(HTTPStatus.NOT_FOUND, f"there is no {parts.path}; there are {known}")
        return self._collections[collection](method, place, parse_qs(parts.query), body)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Tells nobody: the test knows what it asks."""

            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                said: object
                try:
                    if size > BODY_BYTES_MAX:
                        raise ValueError(f"the body has {size} bytes, and {BODY_BYTES_MAX} are enough")
                    status, said = answer(self.command, self.path, self.rfile.read(size))
                except Exception as error:
                    known = told(error)
                    if known is None:
                        raise
                    status, said = known.status, {"error": str(known)}
                content = b"" if said is None else msgspec.json.encode(said) + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status is not HTTPStatus.NO_CONTENT:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = _serve

        return Handler
