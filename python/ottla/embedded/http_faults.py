"""The faults of brokers that were added over HTTP, by their ids."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal

import msgspec

from ottla.embedded.broker import Broker
from ottla.embedded.handle import Handle
from ottla.embedded.hits import PATIENCE_S
from ottla.embedded.http_answers import Told


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


class DescribedFault(msgspec.Struct):
    """A fault as it is told."""

    id: int
    broker: int
    hits: int


class FaultsById:
    """Faults of several brokers. Safe from any thread. Raises Told, ValueError and what `Faults.add` raises."""

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        self._brokers = brokers
        self._faults: dict[int, tuple[int, Handle]] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, place: str, query: Mapping[str, list[str]], body: bytes) -> tuple[HTTPStatus, object]:
        """Answers a request for a fault, or with an empty `place` for all."""
        if method == "POST" and not place:
            return HTTPStatus.CREATED, self.add(body)
        if method == "GET":
            return HTTPStatus.OK, self.one(place, query) if place else self.all()
        if method == "DELETE":
            if place:
                self.remove(place)
            else:
                self.clear()
            return HTTPStatus.NO_CONTENT, None
        raise Told(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} /faults{'/' if place else ''}{place} does nothing")

    def add(self, body: bytes) -> DescribedFault:
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
        return DescribedFault(place, number, fault.hits)

    def all(self) -> list[DescribedFault]:
        with self._lock:
            return [DescribedFault(place, number, fault.hits) for place, (number, fault) in self._faults.items()]

    def one(self, place: str, query: Mapping[str, list[str]]) -> DescribedFault:
        number, fault = self._found(place)
        if "count" in query:
            fault.wait(int(query["count"][0]), float(query.get("timeout_s", [str(PATIENCE_S)])[0]))
        return DescribedFault(int(place), number, fault.hits)

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
