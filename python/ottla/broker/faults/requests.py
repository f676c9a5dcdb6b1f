"""A request whose answer somebody has a hand in: for its handler it is the hub's request, and its call a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla._core import ProduceRow
from ottla.broker.call import AnyCall, Call
from ottla.broker.faults.names import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from ottla import _core
    from ottla.wire.schema import Message

#: Answers; it may be called later, or never.
Action: TypeAlias = Callable[[], object]


class FaultyRequest:
    """The hub's request, but for how it ends.

    `finish` gets each answer, to let it go, and whether it is one to be sent. `produce` is the Produce that was decoded
    already. With `error`, the rows of a Produce that `about` covers have this error whatever became of them.
    """

    def __init__(
        self,
        native: _core.Request,
        finish: Callable[[Action, bool], object],
        produce: _core.ProduceRequest | None = None,
        error: int | None = None,
        about: Names | None = None,
    ) -> None:
        self._native = native
        self._finish = finish
        self._produce = produce
        self._error = error
        self._about = about
        #: Rows of a Produce that have their results.
        self._done = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def __len__(self) -> int:
        return len(self._native)

    def produce(self) -> _core.ProduceRequest:
        return self._native.produce() if self._produce is None else self._produce

    def reply(self, body: Buffer) -> None:
        self._finish(lambda: self._native.reply(body), True)

    def reply_encoded(self, encoding: _core.Encoding) -> None:
        self._finish(lambda: self._native.reply_encoded(encoding), True)

    def put_results(self, results: Sequence[Any]) -> None:
        self._native.put_results(self._amended(results))

    def reply_produce(self, results: Sequence[Any]) -> None:
        amended = self._amended(results)
        self._finish(lambda: self._native.reply_produce(amended), True)

    def reply_fetch(self, rows: list[_core.FetchRow], **options: Any) -> None:
        self._finish(lambda: self._native.reply_fetch(rows, **options), True)

    def skip(self) -> None:
        """Ends a Produce without an answer: an error closes the connection, as ever."""
        if self._produce is not None and any(map(self._is_meant, range(len(self._produce)))):
            reason = f"a Produce with acks=0 failed with error {self._error}"
            self._finish(lambda: self._native.close(reason), False)
        else:
            self._finish(self._native.skip, False)

    def _amended(self, results: Sequence[Any]) -> list[Any]:
        start = self._done
        self._done += len(results)
        return [
            ProduceRow(self._error) if self._error is not None and self._is_meant(place) else result
            for place, result in enumerate(results, start)
        ]

    def _is_meant(self, place: int) -> bool:
        if self._error is None or self._produce is None:
            return False
        ((topic, partition, _),) = self._produce.some_partitions(place, place + 1)
        return self._about is None or self._about.covers(Names(topic, partition))


class FaultyCall(Call[Any, Any]):
    """A call of such a request. `message` is what the handler is to see, and `change` makes another answer of its."""

    __slots__ = ("_change",)

    def __init__(
        self,
        call: AnyCall,
        request: FaultyRequest,
        message: Message | None,
        change: Callable[[Message], Message] | None = None,
    ) -> None:
        # The session is made when somebody asks for it, of the hub's request.
        call.session  # noqa: B018
        for name in Call.__slots__:
            setattr(self, name, getattr(call, name))
        self.request = request  # type: ignore[assignment]  # it stands for one
        self._message = message
        self._change = change

    def reply(self, answer: Message) -> None:
        super().reply(answer if self._change is None else self._change(answer))

    def reply_encoded(self, body: bytes, error: int) -> None:
        if self._change is None:
            return super().reply_encoded(body, error)
        return self.reply(self.api.decode_response(self.version, body))

    async def reply_here(self, answer: Message) -> None:
        await super().reply_here(answer if self._change is None else self._change(answer))
