"""A connection to one broker under trio: many calls at once, answers matched in order.

There is no background task, so a connection needs no nursery and can live in any object. Of the callers that wait,
one reads the socket for all; when its own answer has come, it hands the reading to the caller who waits longest. A
caller that is cancelled while it waits leaves its place in the order behind, and its answer is dropped when it comes.
A caller that is cancelled while its request is half sent has broken the stream, so the connection closes.

A SASL session may have an end (KIP-368). Whoever sends when most of its time is over authenticates again first, on the
same connection; answers that were under way come meanwhile, and other senders wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import trio

from ottla.client.errors import BadAddress, ConnectionLost, NotABroker, broke, check_address, ended, place, unreachable
from ottla.client.frames import FRAME_BYTES_MAX, FrameReader
from ottla.client.protocol import Protocol
from ottla.client.refusal import refused
from ottla.errors import RemoteProtocolError, SaslAuthenticationFailed
from ottla.wire.k18_api_versions import API_VERSIONS
from ottla.wire.schema import Api, Request, Response

if TYPE_CHECKING:
    from ottla.client.security import Security

RECEIVE_BYTES = 256 * 1024
TIMEOUT_MS = 30_000


def need_trio() -> None:
    """Called where a client begins, since without a run trio would fail with names of its inside.

    Raises:
        RuntimeError: this is no task of trio's.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError("ottla.client runs under trio; asyncio has ottla.client.aio, and no loop ottla.client.sync")


class _Waiter:
    """One request under way. `woken` is set when the answer is there, the connection ended, or this caller is
    to read next.
    """

    __slots__ = ("answer", "done", "woken")

    def __init__(self) -> None:
        self.woken: trio.Event | None = None
        self.answer: Any = None
        self.done = False


class Connection:
    """A connection whose versions are negotiated. Any number of tasks of one trio run may call at the same time.

    `call` raises `ConnectionLost` when the connection ends before the answer; the object is then useless, make a new
    one.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        client_id: str | None = "ottla",
        *,
        host: str = "",
        port: int = 0,
        security: Security | None = None,
        is_known: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self._place = place(host, port)
        self.protocol = Protocol(client_id, self._place)
        self._security = security
        self._is_known = is_known
        self._renew_at: float | None = None
        self._stream = stream
        self._frames = FrameReader()
        self._waiters: deque[_Waiter] = deque()
        self._sending = trio.Lock()
        self._reading = False
        self._lost: ConnectionLost | RemoteProtocolError | None = None
        self._heard_at = 0.0
        """When something last came, or was sent to a broker that owed nothing."""

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        client_id: str | None = "ottla",
        *,
        timeout_ms: float = TIMEOUT_MS,
        negotiate: bool = True,
        security: Security | None = None,
        is_known: bool = False,
    ) -> Self:
        """Connects and, unless told not to, negotiates versions. With `security`, TLS comes first and SASL last.
        `is_known`: brokers have served this client as it is, so no error guesses that they want something else.

        Raises:
            OSError: nothing listens there, or not within `timeout_ms` (TimeoutError).
            ConnectionLost: it closed the connection. NotABroker: it does not speak Kafka's protocol.
            SaslAuthenticationFailed, UnsupportedSaslMechanism, IllegalSaslState: it does not take us.
            TlsFailed: it cannot be trusted, or has no TLS in common with us.
            ValueError: what `security` names cannot be read. RuntimeError: this is not trio.
        """
        need_trio()
        stream: trio.abc.Stream | None = None
        connection: Self | None = None
        try:
            check_address(host, port)
            with trio.fail_after(timeout_ms / 1000):
                stream = await trio.open_tcp_stream(host, port)
                if security is not None and security.tls:
                    from ottla.client.tls import encrypted

                    stream = await encrypted(stream, host, port, security)
                connection = cls(stream, client_id, host=host, port=port, security=security, is_known=is_known)
                if negotiate:
                    await connection.introduce()
        except BaseException as problem:
            if stream is not None:
                await trio.aclose_forcefully(stream)
            if isinstance(problem, trio.TooSlowError):
                raise TimeoutError(f"{place(host, port)} did not answer within {timeout_ms / 1000:g} s") from None
            if isinstance(problem, NotABroker):
                raise
            says_nothing = connection is not None and not connection._frames.is_amid
            if isinstance(problem, ConnectionLost) and says_nothing and not is_known:
                raise refused(problem, security, place(host, port)) from problem
            if stream is None and isinstance(problem, OSError) and not isinstance(problem, BadAddress):
                raise unreachable(host, port, problem) from problem
            raise
        return connection

    async def introduce(self) -> None:
        """Negotiates, and says who this is where SASL is wanted; `connect` has done this. Errors as `connect`."""
        await self.negotiate()
        if self._security is not None and self._security.sasl:
            await self._authenticate(self._security)

    async def negotiate(self) -> None:
        """Asks the broker for its versions; `connect` has done this. Raises NotABroker: it does not speak Kafka's
        protocol. Others as `call`; KafkaError: it refuses to answer.
        """
        from ottla.client.strangers import FIRST_ANSWER_BYTES_MAX, is_no_broker

        self._frames.bytes_max = FIRST_ANSWER_BYTES_MAX
        version: int | None = API_VERSIONS.versions[-1]
        try:
            while version is not None:
                answer = await self.call(API_VERSIONS, self.protocol.negotiation_request(), version)
                version = self.protocol.negotiated(version, answer)
        except RemoteProtocolError as problem:
            raise is_no_broker(self._place, self._frames.rest(), problem) from problem
        self._frames.bytes_max = FRAME_BYTES_MAX

    @property
    def closed(self) -> bool:
        """Whether the connection is known to have ended. An idle connection notices at the next call."""
        return self._lost is not None

    def silent_s(self) -> float:
        """For how many seconds nothing has come although an answer is owed; 0 if none is."""
        return trio.current_time() - self._heard_at if self._waiters else 0.0

    async def call(
        self,
        api: Api[Request, Response],
        message: Request,
        version: int | None = None,
        *,
        timeout_ms: float = TIMEOUT_MS,
        in_pieces: bool = False,
    ) -> Response:
        """Sends a request and gives its answer. Errors inside the answer are the caller's to look at. With `in_pieces`
        others are served while a large request is encoded; nothing may change it meanwhile.

        Raises:
            ConnectionLost: it ended first. RemoteProtocolError: what came was no answer; the connection is closed.
            LocalProtocolError: the broker has no such API or version, or the message cannot be written in it.
            TimeoutError: no answer within `timeout_ms`; the connection stays usable.
        """
        with trio.move_on_after(timeout_ms / 1000):
            waiter = await self._send(api, message, version, in_pieces=in_pieces)
            return await self._answer(waiter)  # type: ignore[no-any-return]
        raise self._silent(api, timeout_ms)

    async def send(
        self, api: Api[Request, Response], message: Request, *, timeout_ms: float = TIMEOUT_MS
    ) -> Callable[[], Awaitable[Response]]:
        """Sends a request and returns when it is on its way, with what waits for its answer. Whoever sends the next one
        then is carried out after it. Errors as `call`; after one of `send` itself the connection is closed.
        """
        with trio.move_on_after(timeout_ms / 1000):
            waiter = await self._send(api, message, None)

            async def answer() -> Response:
                with trio.move_on_after(timeout_ms / 1000):
                    return await self._answer(waiter)  # type: ignore[no-any-return]
                raise self._silent(api, timeout_ms)

            return answer
        raise self._silent(api, timeout_ms)

    def _silent(self, api: Api[Any, Any], timeout_ms: float) -> TimeoutError:
        return TimeoutError(f"no answer to {api.name} from {self._place} within {timeout_ms / 1000:g} s")

    async def post(self, api: Api[Request, Any], message: Request, version: int | None = None) -> None:
        """Sends a request that a broker never answers: Produce with acks=0."""
        await self._send(api, message, version, answered=False)

    async def _send(
        self,
        api: Api[Any, Any],
        message: Any,
        version: int | None,
        *,
        answered: bool = True,
        in_pieces: bool = False,
    ) -> _Waiter:
        async with self._sending:
            if self._renew_at is not None and trio.current_time() >= self._renew_at:
                assert self._security is not None
                await self._authenticate(self._security)
            body = await self._encoded(api, message, version) if in_pieces else None
            return await self._put(api, message, version, answered, body)

    async def _encoded(self, api: Api[Any, Any], message: Any, version: int | None) -> bytes:
        encoding = api.encoding_request(self.protocol.version(api) if version is None else version, message)
        while not encoding.is_done:
            await trio.lowlevel.checkpoint()
            encoding.go_on()
        return encoding.bytes

    async def _put(
        self, api: Api[Any, Any], message: Any, version: int | None, answered: bool, body: bytes | None = None
    ) -> _Waiter:
        """Caller holds `_sending`. `body` is the message in this version, if it is encoded already."""
        waiter = _Waiter()
        self._check()
        if body is None:
            frame = self.protocol.encode(api, message, version, answered=answered)
        else:
            version = self.protocol.version(api) if version is None else version
            frame = self.protocol.framed(api, version, body, answered=answered)
        if answered:
            if not self._waiters:
                self._heard_at = trio.current_time()
            self._waiters.append(waiter)
        try:
            await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
            await self._lose(ConnectionLost(f"{self._place} closed the connection"))
            raise self._lost_error() from problem
        except trio.Cancelled:
            await self._lose(ConnectionLost("a request was cancelled half sent"))
            raise
        return waiter

    async def _authenticate(self, security: Security) -> None:
        """While nobody else sends: what came between would be refused."""
        from ottla.client import oauth
        from ottla.client.sasl import authentication, renewal_s

        token = ""
        if security.tokens is not None:
            token = await trio.to_thread.run_sync(oauth.token, security.tokens, self._place, abandon_on_cancel=True)
        conversation = authentication(security, self._place, token)
        try:
            api, message = next(conversation)
            while True:
                waiter = await self._put(api, message, None, True)
                api, message = conversation.send(await self._answer(waiter))
        except StopIteration as end:
            after_s = renewal_s(end.value)
            self._renew_at = None if after_s is None else trio.current_time() + after_s
        except BaseException as problem:
            if security.tokens is not None and isinstance(problem, SaslAuthenticationFailed):
                oauth.forget(security.tokens, token)
            await self._lose(ConnectionLost(f"{self._place}: authentication did not come to its end"))
            raise

    async def _answer(self, waiter: _Waiter) -> Any:
        try:
            while not waiter.done:
                self._check()
                if self._reading:
                    waiter.woken = trio.Event()
                    await waiter.woken.wait()
                    waiter.woken = None
                else:
                    await self._read(waiter)
        finally:
            waiter.woken = None
            if not self._reading:
                self._wake_next_reader()
        return waiter.answer

    async def _read(self, waiter: _Waiter) -> None:
        """Reads for everybody until this caller's answer is there."""
        self._reading = True
        try:
            while not waiter.done:
                data = await self._stream.receive_some(RECEIVE_BYTES)
                # What was read is given back a pass of the loop later: somebody may have closed it meanwhile.
                self._check()
                self._heard_at = trio.current_time()
                if not data:
                    begins = self._security is None and not self._is_known and self.protocol.begins
                    raise ended(self._place, begins=begins, is_amid=self._frames.is_amid)
                for frame in self._frames.feed(data):
                    self._deliver(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as problem:
            await self._lose(broke(self._place, problem))
            raise self._lost_error() from problem
        except ConnectionLost as problem:
            await self._lose(problem)
            raise
        except RemoteProtocolError as problem:
            # While versions are asked, who asks says whose answer it is.
            where = "" if self.protocol.versions is None else f"{self._place}: "
            await self._lose(RemoteProtocolError(f"{where}{problem}"))
            raise self._lost_error() from problem
        finally:
            self._reading = False

    def _wake_next_reader(self) -> None:
        for other in self._waiters:
            if other.woken is not None:
                other.woken.set()
                break

    def _deliver(self, frame: memoryview) -> None:
        _, answer = self.protocol.decode(frame)
        waiter = self._waiters.popleft()
        waiter.answer = answer
        waiter.done = True
        if waiter.woken is not None:
            waiter.woken.set()

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost_error()

    def _lost_error(self) -> Exception:
        """A fresh exception for each caller: one object raised in many tasks would mix their tracebacks."""
        assert self._lost is not None
        return type(self._lost)(*self._lost.args)

    async def _lose(self, problem: ConnectionLost | RemoteProtocolError) -> None:
        if self._lost is None:
            self._lost = problem
        for waiter in self._waiters:
            if waiter.woken is not None:
                waiter.woken.set()
        self._waiters.clear()
        await trio.aclose_forcefully(self._stream)

    async def aclose(self) -> None:
        """Closes the connection; calls under way end with `ConnectionLost`. May be called more than once."""
        await self._lose(ConnectionLost("the connection was closed here"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
