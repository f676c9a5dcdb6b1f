"""Memory for what large requests are decoded to, which is there before they are decoded.

The rows of a request are objects, which take twenty times what its bytes do, and so do the rows of its answer. If many
clients sent the largest requests at once, all of that together would be more than any setting says. So a large request
takes its part of a sum, by the number of its array items, before the first of them is made, and keeps it until its rows
are freed. Where the sum is used up, requests wait in the order in which they came; meanwhile they keep nothing but
their frames, which are counted elsewhere (`rust/net/budget`). A request that finds nobody in its sum never waits, so
that each is answered.

There are three such sums. Requests with few rows do not wait behind those with many, and what controllers tell waits
for neither.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from ottla import garbage
from ottla.broker.freeing import free_soon, lists_of
from ottla.slices import Slices
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from ottla.wire.k19_create_topics import CREATE_TOPICS
from ottla.wire.schema import ITEMS_AT_ONCE, Api, Message

if TYPE_CHECKING:
    from ottla._core import Request

#: The bytes that an array item of a request takes, with its part of the answer and of what its handler looks up:
#: measured with 400,000 rows of ListOffsets.
ITEM_BYTES: Final = 350
#: As many items an item of these stands for: a topic that is created comes with all of its settings.
WEIGHTS: Final = {CREATE_TOPICS.key: 20}
#: A request with so few items takes hardly more than its frame.
FREE_ITEMS: Final = 64
#: A request with more items has many.
FEW_ITEMS: Final = 10_000
#: A request up to this size is checked without a thread.
CHECKED_BYTES: Final = 512 * 1024
#: Each sum is this part of `queued.max.request.bytes`.
PART: Final = 16

OF_CONTROLLERS: Final = frozenset({LEADER_AND_ISR.key, STOP_REPLICA.key, UPDATE_METADATA.key})


class RequestMemory:
    """The sums of one broker. `queued_bytes_max`: `queued.max.request.bytes`."""

    def __init__(self, queued_bytes_max: int) -> None:
        bound = queued_bytes_max // PART
        #: One thread checks requests: more would take the processors from the loop.
        self.checks = trio.CapacityLimiter(1)
        self._few, self._many, self._controllers = Sum(bound), Sum(bound), Sum(bound, own=True)

    async def take(self, api_key: int, items: int) -> Decoded:
        """Returns when a request with so many array items may be decoded. The result is to live as long as it does."""
        items *= WEIGHTS.get(api_key, 1)
        if items <= FREE_ITEMS:
            return Decoded(None, 0)
        memory = self._few if items <= FEW_ITEMS else self._many
        if api_key in OF_CONTROLLERS:
            memory = self._controllers
        return await memory.take(items * ITEM_BYTES)


class Decoded:
    """The bytes that one large request takes of a sum. Its last holder gives them back, when the rows of `message` are
    freed: in pieces, once nobody else has them.
    """

    __slots__ = ("_bytes", "_sum", "message")

    def __init__(self, taken_from: Sum | None, size_bytes: int) -> None:
        self._sum = taken_from
        self._bytes = size_bytes
        self.message: Message | None = None
        if taken_from is not None:
            garbage.hold()

    def __del__(self) -> None:
        lists = [] if self.message is None else lists_of(self.message)
        self.message = None
        free_soon(lists, self._give_back(), own=self._sum is not None and self._sum.own)

    def _give_back(self) -> _GiveBack | None:
        return None if self._sum is None else _GiveBack(self._sum, self._bytes)


class _GiveBack:
    """Called when the rows are freed."""

    __slots__ = ("_bytes", "_sum")

    def __init__(self, taken_from: Sum, size_bytes: int) -> None:
        self._sum = taken_from
        self._bytes = size_bytes

    def __call__(self) -> None:
        garbage.let_go()
        self._sum.give_back(self._bytes)


class _Waiting:
    """A request in line. `is_granted` says that its bytes are counted."""

    __slots__ = ("bytes", "is_granted", "told")

    def __init__(self, size_bytes: int) -> None:
        self.bytes = size_bytes
        self.is_granted = False
        self.told = trio.Event()


class Sum:
    """Bytes that are taken and given back: first come, first served. One who is alone may take more than there is.
    `own`: the rows are freed in slices of the broker's own work.
    """

    def __init__(self, bytes_max: int, *, own: bool = False) -> None:
        self.own = own
        self._bytes_max = bytes_max
        self.used = 0
        self._waiting: deque[_Waiting] = deque()

    async def take(self, size_bytes: int) -> Decoded:
        """Returns when so many bytes are there."""
        if self._waiting or not self._has(size_bytes):
            waiting = _Waiting(size_bytes)
            self._waiting.append(waiting)
            try:
                await waiting.told.wait()
            except BaseException:
                if waiting.is_granted:
                    self.give_back(size_bytes)
                else:
                    self._waiting.remove(waiting)
                    self._serve()
                raise
        else:
            self.used += size_bytes
        return Decoded(self, size_bytes)

    def give_back(self, size_bytes: int) -> None:
        self.used -= size_bytes
        self._serve()

    def _has(self, size_bytes: int) -> bool:
        return not self.used or self.used + size_bytes <= self._bytes_max

    def _serve(self) -> None:
        while self._waiting and self._has(self._waiting[0].bytes):
            waiting = self._waiting.popleft()
            self.used += waiting.bytes
            waiting.is_granted = True
            waiting.told.set()


async def decode(api: Api[Any, Any], request: Request, memory: RequestMemory) -> Decoded:
    """Decodes a large request in pieces, once there is memory for its rows. These are freed in pieces, when nobody has
    the result any more.
    """
    if len(request) > CHECKED_BYTES:
        # All of it is checked before anything is made of it: 2 ms for each megabyte.
        check = partial(api.decoding_request, request.api_version, request)
        decoding = await trio.to_thread.run_sync(check, limiter=memory.checks)
    else:
        decoding = api.decoding_request(request.api_version, request)
    decoded = await memory.take(api.key, decoding.items_count)
    slices = Slices(own=api.is_between_brokers)
    while decoding.go_on():
        await slices.row(ITEMS_AT_ONCE)
    decoded.message = decoding.message
    return decoded
