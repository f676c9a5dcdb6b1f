"""One request while it is served.

A handler is `handle(call, rooms)`. The call has what a client asks, and answers it. The rooms are the parts of the
broker that the handler works in (`rooms.py`). A handler answers each call once, now or later: by `reply`, or by closing
the connection; Produce and Fetch by the hub's own request (`call.request`), which encodes their rows without Python.

Few rows are done at once, in the hub's turn. A handler that may have many rows is a generator that yields between them
and replies at its end (`in_slices`), or a task (`async def handle`). Such an answer tells what was looked up before the
first yield, or what may change between rows without harm: a handler says which.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sized
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, TypeVarTuple

from ottla.broker.answer_memory import FEW_ROWS, AnswerMemory
from ottla.broker.freeing import Rows, free, free_soon, lists_of
from ottla.broker.quotas.cost import Cost
from ottla.broker.quotas.mutations import Mutations
from ottla.broker.quotas.timing import resumed, timed
from ottla.broker.request_memory import decode
from ottla.broker.session import Session
from ottla.coordination.tree import TreeError
from ottla.errors import ProtocolError
from ottla.net.server import refuse
from ottla.slices import LARGE_BYTES, ROWS, Slices, serve
from ottla.wire.error_codes import error_codes
from ottla.wire.schema import ITEMS_AT_ONCE, Api, Message

if TYPE_CHECKING:
    from ottla._core import Encoding, Request
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.quotas.clients import Client, ClientQuotas
    from ottla.broker.request_memory import Decoded
    from ottla.broker.serving import Serving

Asked = TypeVar("Asked", bound=Message)
Answer = TypeVar("Answer", bound=Message)
Arguments = TypeVarTuple("Arguments")
#: An answer of fewer pieces is freed in one go: half a millisecond. To look for its lists takes longer.
PIECES_FREED_AT_ONCE = 4


def count_of(lists: Iterable[Sized]) -> int:
    """How many rows these lists have together; more than `ROWS` are not counted on, which would take the loop
    itself. A list counts as a row at least: a request may have any number of empty ones.
    """
    rows = 0
    for one in lists:
        rows += len(one) or 1
        if rows > ROWS:
            break
    return rows


class Call(Generic[Asked, Answer]):
    """One request, from its dispatch to its answer. All methods are for the loop's thread.

    api: The declaration of the API.
    version: The version in which the client speaks, and is answered.
    request: The hub's own request.
    """

    __slots__ = ("_cost", "_decoded", "_memory", "_message", "_serving", "_session", "api", "request", "version")

    def __init__(self, serving: Serving, api: Api[Asked, Answer], request: Request) -> None:
        self._serving = serving
        self.api = api
        self.request = request
        self.version = request.api_version
        self._message: Asked | None = None
        #: The decoded request, with the memory that a large one takes of that for such requests; None before.
        self._decoded: Decoded | None = None
        self._memory: AnswerMemory | None = None
        self._session: Session | None = None
        #: None while there are no quotas.
        self._cost: Cost | None = None

    # --- what is asked, and by whom ---

    @property
    def message(self) -> Asked:
        """The decoded request. Raises RemoteProtocolError for bytes that are no message."""
        if self._message is None:
            self._message = self.api.decode_request(self.version, self.request)
        return self._message

    def check(self) -> None:
        """Raises RemoteProtocolError if the request is no message of its API."""
        self.message  # noqa: B018

    @property
    def session(self) -> Session:
        """Who asks."""
        if self._session is None:
            self._session = Session(self.request, self._serving.config, self._serving.users)
        return self._session

    @property
    def rights(self) -> Rights | None:
        """The rights of the client; None if everybody may do everything. Raises NoPrincipal."""
        authorizer = self._serving.authorizer
        return None if authorizer is None else authorizer.rights(self.session, self.client_id, self.api.name)

    @property
    def client(self) -> Client:
        """Whose quotas hold."""
        return self.session.principal, self.client_id

    @property
    def client_id(self) -> str:
        """How the client names itself; empty if it does not."""
        return self.request.client_id or ""

    @property
    def is_large(self) -> bool:
        """True if the request has so many bytes that it is decoded in a task, and its rows are freed in slices."""
        return len(self.request) > LARGE_BYTES

    # --- how it goes on ---

    def in_slices(self, rows: int, work: Iterable[int | None]) -> None:
        """Does the work for a call of so many rows, at once or in a task (see `ottla.slices.serve`)."""
        serve(self, rows, work, own=self.api.is_between_brokers)

    def slices(self) -> Slices:
        """The slices of a task of this call. Requests between brokers do not wait in line with those of clients."""
        return Slices(own=self.api.is_between_brokers)

    def in_background(self, work: Callable[[*Arguments], Coroutine[Any, Any, None]], *arguments: *Arguments) -> None:
        """Goes on in a task, whose failure costs the call's connection. A call that is timed goes on to be."""
        self._serving.nursery.start_soon(self._run, work, arguments)

    async def _run(self, work: Callable[[*Arguments], Coroutine[Any, Any, None]], arguments: tuple[*Arguments]) -> None:
        try:
            if self._cost is None:
                await work(*arguments)
            else:
                await timed(self._cost, work(*arguments))
        except BaseException as error:
            self.fail(error)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """In the block the call goes on outside of its handler and its tasks: what it waited for has happened."""
        if self._cost is None:
            yield
        else:
            with resumed(self._cost):
                yield

    async def decode_in_slices(self) -> None:
        """Decodes a large request, once there is memory for its rows."""
        self._decoded = await decode(self.api, self.request, self._serving.request_memory)
        self._message = self._decoded.message  # type: ignore[assignment]  # the API's own

    async def weigh(self, items: int) -> None:
        """Returns when there is memory for a call that stands for so many array items, though it is not large."""
        self._decoded = await self._serving.request_memory.take(self.api.key, items)

    # --- what it costs ---

    @property
    def quotas(self) -> ClientQuotas | None:
        """None while there are none."""
        return self._serving.quotas

    def measure(self, quotas: ClientQuotas) -> None:
        """From now on the call is measured for these quotas."""
        self._cost = Cost(quotas, self.api, self.request, self.client)

    def mutations(self, strict_since: int) -> Mutations:
        """Takes what the call changes from the quota of changes. See `Mutations`."""
        return Mutations(self.quotas, self.api, self.request, self.client, strict_since)

    @property
    def memory(self) -> AnswerMemory:
        """Memory for a large answer, to be waited for before its rows are made."""
        if self._memory is None:
            bytes_max = self._serving.config.get_int("socket.request.max.bytes")
            self._memory = AnswerMemory(self._serving.server, self.request, bytes_max)
        return self._memory

    @asynccontextmanager
    async def large_answer(self, rows: int, size_bytes: int) -> AsyncIterator[None]:
        """Inside the block the `rows` of an answer are made and encoded (`reply_here`), which takes `size_bytes` in the
        end. Nothing there waits for anything but its slice, or it would keep others from theirs.

        Raises RemoteProtocolError if the answer is too large, or its client is gone.
        """
        if rows <= FEW_ROWS:
            yield
            return
        await self.memory.add(size_bytes)
        async with self._serving.large_answers:
            yield

    def leave(self, lists: list[Rows]) -> None:
        """Rows that the handler made of a large request are freed in slices, when the handler has returned. Rows of a
        small request are freed with it.
        """
        if self.is_large:
            free_soon(lists, own=self.api.is_between_brokers)

    # --- how it ends ---

    def reply(self, answer: Answer) -> None:
        """Answers: at once if the answer has few rows, else in slices. Nothing may change the rows any more. The error
        codes of the answer are counted if the broker has metrics.
        """
        encoding = self.api.encoding_response(self.version, answer)
        if encoding.is_done:
            if self._serving.is_measured:
                self._serving.note_errors(self.api.key, list(error_codes(answer)))
            self.request.reply_encoded(encoding)
            return

        async def rest() -> None:
            nonlocal answer, encoding
            await self._encode(answer, encoding)
            # The handler has returned, so that nobody has the answer any more, as a rule.
            lists = lists_of(answer)
            del answer, encoding
            await free(lists, own=self.api.is_between_brokers)

        self.in_background(rest)

    def reply_encoded(self, body: bytes, error: int) -> None:
        """Answers with an encoded body, whose one error code is `error`."""
        self._serving.note_errors(self.api.key, [error])
        self.request.reply(body)

    async def reply_here(self, answer: Answer) -> None:
        """The same; returns when the request is answered, and the answer's rows are freed as far as nobody else has
        them. The caller has no name for the answer.
        """
        encoding = self.api.encoding_response(self.version, answer)
        pieces = await self._encode(answer, encoding)
        lists = [] if pieces < PIECES_FREED_AT_ONCE else lists_of(answer)
        del answer, encoding
        await free(lists, own=self.api.is_between_brokers)

    async def _encode(self, answer: Answer, encoding: Encoding) -> int:
        """Returns the number of pieces after the first one."""
        slices = self.slices()
        pieces = 0
        while encoding.go_on():
            pieces += 1
            await slices.row()
        if self._serving.is_measured:
            codes = error_codes(answer)
            while some := list(islice(codes, ITEMS_AT_ONCE)):
                await slices.row()
                self._serving.note_errors(self.api.key, some)
            del codes
        self.request.reply_encoded(encoding)
        return pieces

    def refuse(self, reason: str) -> None:
        """Closes the connection; the hub tells whose it was, and this reason."""
        self.request.close(reason)

    def fail(self, error: BaseException) -> None:
        """Closes the connection after an error; where the mistake is ours its traceback is logged too. A tree that is
        out of reach is nobody's mistake: what was asked for may have happened or not.
        """
        if isinstance(error, ProtocolError | TreeError):
            self.refuse(str(error))
        else:
            refuse(self.request, error)


#: Of any API.
AnyCall: TypeAlias = Call[Any, Any]
