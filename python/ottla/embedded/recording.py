"""`broker.requests`: the requests that clients have sent."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from ottla.embedded.hits import PATIENCE_S
from ottla.embedded.kafka_names import known_api
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.faults.deeds import Asked
    from ottla.embedded.plan import Plan

#: How many requests a recording keeps, unless it says so.
LIMIT: Final = 10_000


class SeenRequest(NamedTuple):
    """A request as a client sent it.

    api: The name of its API, as Kafka has it: "Produce".
    version: The version of the API.
    client_id: How the client names itself; empty if it does not.
    message: The decoded request, with the fields of its class in `ottla.wire`. It cannot be changed: lists are tuples.
    at: When it came, by `time.monotonic()`.
    """

    api: str
    version: int
    client_id: str
    message: Any
    at: float


class Recording:
    """The requests of clients since it began, in their order: the last `limit` of them.

    It may be read from any thread, also while it goes on. `list(recording)` is what there is now.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}; a recording keeps at least 1 request")
        self._condition = threading.Condition()
        self._seen: deque[SeenRequest] = deque(maxlen=limit)
        self._total = 0

    def __repr__(self) -> str:
        return f"<recording of {self._total} requests>"

    def __iter__(self) -> Iterator[SeenRequest]:
        with self._condition:
            return iter([*self._seen])

    def __len__(self) -> int:
        return len(self._seen)

    def __getitem__(self, place: int) -> SeenRequest:
        return self._seen[place]

    @property
    def total(self) -> int:
        """How many came, those included that are not kept any more."""
        return self._total

    def of(self, api: str, client_id: str | None = None) -> list[SeenRequest]:
        """Those of one API, and of one client if it is named. Raises ValueError for a name that no API has."""
        known_api(api)
        return [one for one in self if one.api == api and client_id in (None, one.client_id)]

    def wait(self, api: str, count: int = 1, timeout: float = PATIENCE_S) -> list[SeenRequest]:
        """Returns the requests of `api` when there are `count`. It stops the thread that calls it: in an event loop
        call it by `asyncio.to_thread` or `trio.to_thread.run_sync`.

        Raises:
            TimeoutError: there are fewer after `timeout` seconds. ValueError: no API has this name.
        """
        known_api(api)
        found: list[SeenRequest] = []

        def are_there() -> bool:
            found[:] = [one for one in self._seen if one.api == api]
            return len(found) >= count

        with self._condition:
            if not self._condition.wait_for(are_there, timeout):
                raise TimeoutError(f"{len(found)} of {count} requests of {api} came in {timeout} s")
        return found

    def see(self, asked: Asked) -> None:
        """As a recorder of the plan."""
        one = SeenRequest(asked.api.name, asked.version, asked.client_id, frozen(asked.message), time.monotonic())
        with self._condition:
            self._seen.append(one)
            self._total += 1
            self._condition.notify_all()


class Requests:
    """The requests that clients send to one broker."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @contextmanager
    def recorded(self, limit: int = LIMIT) -> Iterator[Recording]:
        """Records the requests of clients inside the block; the recording may be read afterwards, too. Requests that
        brokers send to each other are left out. While it goes on the broker serves each request by itself, which is
        slower than otherwise.
        """
        recording = Recording(limit)
        self._plan.add_recorder(recording)
        try:
            yield recording
        finally:
            self._plan.remove_recorder(recording)


def frozen(value: Any) -> Any:
    """A copy of a message, with all that is in it, which cannot be changed."""
    if isinstance(value, Message):
        cls = _frozen_class(type(value))
        return cls(*[frozen(getattr(value, field)) for field in value.__struct_fields__])
    if isinstance(value, list):
        return tuple(map(frozen, value))
    return bytes(value) if isinstance(value, memoryview) else value


@cache
def _frozen_class(cls: type[Message]) -> type[msgspec.Struct]:
    fields = [(field, Any) for field in cls.__struct_fields__]
    return msgspec.defstruct(cls.__name__, fields, frozen=True, module=__name__)
