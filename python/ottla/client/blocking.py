"""The same connection over a plain blocking socket: for Spark's tasks, threads and small tools, where there is no
event loop.

`send` and `receive` are apart, so that a reader can ask for the next fetch before it works on the last one.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.errors import ConnectionLost, NotABroker, broke, check_address, ended, place, unreachable
from ottla.client.frames import FRAME_BYTES_MAX, FrameReader
from ottla.client.protocol import Protocol
from ottla.client.refusal import refused
from ottla.errors import RemoteProtocolError, SaslAuthenticationFailed
from ottla.wire.k18_api_versions import API_VERSIONS
from ottla.wire.schema import Api, Request, Response

if TYPE_CHECKING:
    from ottla.client.security import Security

TIMEOUT_MS = 30_000
# A fetch of megabytes arrives faster when the kernel may hold more of it while the reader decodes.
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024


class BlockingConnection:
    """For one thread at a time. After any error of these methods it is closed; make a new one."""

    def __init__(
        self,
        endpoint: socket.socket,
        client_id: str | None = "ottla",
        *,
        timeout_ms: float = TIMEOUT_MS,
        place: str = "the broker",
        security: Security | None = None,
    ) -> None:
        self.protocol = Protocol(client_id, place)
        self.timeout_ms = timeout_ms
        self.place = place
        self._security = security
        self._renew_at: float | None = None
        self._socket = endpoint
        self._frames = FrameReader()
        self._answers: list[Any] = []
        self._closed = False

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        client_id: str | None = "ottla",
        *,
        timeout_ms: float = TIMEOUT_MS,
        security: Security | None = None,
    ) -> Self:
        """Connects and negotiates versions. With `security`, TLS comes first and SASL last.

        Raises:
            OSError: nothing listens there, or not within `timeout_ms` (TimeoutError).
            ConnectionLost: it closed the connection. NotABroker: it does not speak Kafka's protocol.
            SaslAuthenticationFailed, UnsupportedSaslMechanism, IllegalSaslState: it does not take us.
            TlsFailed: it cannot be trusted, or has no TLS in common with us.
            ValueError: what `security` names cannot be read.
        """
        where = place(host, port)
        connection: Self | None = None
        check_address(host, port)
        try:
            endpoint = socket.create_connection((host, port), timeout_ms / 1000)
        except TimeoutError:
            raise TimeoutError(f"{where} did not answer within {timeout_ms / 1000:g} s") from None
        except OSError as problem:
            raise unreachable(host, port, problem) from problem
        try:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            if security is not None and security.tls:
                from ottla.client.tls import encrypted_socket

                endpoint = encrypted_socket(endpoint, host, port, security)
            connection = cls(endpoint, client_id, timeout_ms=timeout_ms, place=where, security=security)
            connection._negotiate()
            if security is not None and security.sasl:
                connection._authenticate(security)
        except BaseException as problem:
            endpoint.close()
            if isinstance(problem, NotABroker):
                raise
            if isinstance(problem, ConnectionLost) and connection is not None and not connection._frames.is_amid:
                raise refused(problem, security, where) from problem
            raise
        return connection

    def _negotiate(self) -> None:
        from ottla.client.strangers import FIRST_ANSWER_BYTES_MAX, is_no_broker

        self._frames.bytes_max = FIRST_ANSWER_BYTES_MAX
        version: int | None = API_VERSIONS.versions[-1]
        try:
            while version is not None:
                answer = self.call(API_VERSIONS, self.protocol.negotiation_request(), version)
                version = self.protocol.negotiated(version, answer)
        except RemoteProtocolError as problem:
            raise is_no_broker(self.place, self._frames.rest(), problem) from problem
        self._frames.bytes_max = FRAME_BYTES_MAX

    @property
    def closed(self) -> bool:
        """Whether it was closed here or found closed by the other side."""
        return self._closed

    def call(
        self,
        api: Api[Request, Response],
        message: Request,
        version: int | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Response:
        """Sends a request and gives its answer; only while no earlier `send` waits for its `receive`."""
        assert not self.protocol.in_flight, "receive() what was sent before"
        self.send(api, message, version)
        return self.receive(timeout_ms=timeout_ms)  # type: ignore[no-any-return]

    def send(self, api: Api[Request, Any], message: Request, version: int | None = None) -> None:
        """Sends a request; `receive` gives the answers in the order of sending."""
        if self._closed:
            raise ConnectionLost("the connection was closed here")
        if self._renew_at is not None and time.monotonic() >= self._renew_at:
            assert self._security is not None
            self._authenticate(self._security)
        self._put(api, message, version)

    def post(self, api: Api[Request, Any], message: Request) -> None:
        """Sends a request that a broker never answers: Produce with acks=0."""
        self._put(api, message, answered=False)

    def _put(self, api: Api[Any, Any], message: Any, version: int | None = None, *, answered: bool = True) -> None:
        frame = self.protocol.encode(api, message, version, answered=answered)
        try:
            self._socket.settimeout(self.timeout_ms / 1000)
            self._socket.sendall(frame)
        except TimeoutError:
            self.close()
            raise
        except OSError as problem:
            self.close()
            raise broke(self.place, problem) from problem

    def receive(self, *, timeout_ms: float | None = None) -> Any:
        """The next answer.

        Raises:
            TimeoutError: not within `timeout_ms` (the connection's, unless given).
            ConnectionLost: it ended first.
        """
        self._receive(1, self.timeout_ms if timeout_ms is None else timeout_ms)
        return self._answers.pop(0)

    def _receive(self, count: int, limit_ms: float) -> None:
        """Until there are so many answers."""
        deadline = time.monotonic() + limit_ms / 1000
        try:
            while len(self._answers) < count:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                size = self._socket.recv_into(self._frames.buffer())
                if not size:
                    begins = self._security is None and self.protocol.begins
                    raise ended(self.place, begins=begins, is_amid=self._frames.is_amid)
                self._frames.received(size)
                self._answers.extend(self.protocol.decode(frame)[1] for frame in self._frames.frames())
        except TimeoutError:
            self.close()
            raise TimeoutError(f"no answer from {self.place} within {limit_ms / 1000:g} s") from None
        except ConnectionLost:
            self.close()
            raise
        except RemoteProtocolError as problem:
            self.close()
            # While versions are asked, who asks says whose answer it is.
            where = "" if self.protocol.versions is None else f"{self.place}: "
            raise RemoteProtocolError(f"{where}{problem}") from problem
        except OSError as problem:
            self.close()
            raise broke(self.place, problem) from problem

    def _authenticate(self, security: Security) -> None:
        """At first, and again before the session ends (KIP-368). Answers that are under way come before."""
        from ottla.client import oauth
        from ottla.client.sasl import authentication, renewal_s

        token = "" if security.tokens is None else oauth.token(security.tokens, self.place)
        conversation = authentication(security, self.place, token)
        try:
            api, message = next(conversation)
            while True:
                self._put(api, message)
                self._receive(len(self._answers) + len(self.protocol.in_flight), self.timeout_ms)
                api, message = conversation.send(self._answers.pop())
        except StopIteration as end:
            after_s = renewal_s(end.value)
            self._renew_at = None if after_s is None else time.monotonic() + after_s
        except BaseException as problem:
            if security.tokens is not None and isinstance(problem, SaslAuthenticationFailed):
                oauth.forget(security.tokens, token)
            self.close()
            raise

    def close(self) -> None:
        """May be called more than once."""
        self._closed = True
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
