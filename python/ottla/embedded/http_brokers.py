"""Brokers that are paused, killed and started over HTTP, and leaders and coordinators that move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from ottla.embedded.broker import Broker
from ottla.embedded.cluster import Cluster
from ottla.embedded.http_answers import Told

T = TypeVar("T")


class PowerLoss(msgspec.Struct, forbid_unknown_fields=True):
    """The argument of `Broker.power_loss`."""

    seed: int | None = None


class Jump(msgspec.Struct, forbid_unknown_fields=True):
    """The argument of `Clock.jump`; `reset` has it be this machine's clock again, before the jump."""

    jump_s: float = 0.0
    reset: bool = False


class NewLeader(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `Cluster.move_leader`."""

    topic: str
    partition: int = 0
    to: int | None = None


class NewCoordinator(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `Cluster.move_coordinator`."""

    group: str | None = None
    transactional_id: str | None = None
    to: int | None = None


class DescribedBroker(msgspec.Struct):
    """A broker as it is told."""

    id: int
    port: int
    is_running: bool
    is_paused: bool
    clock_ahead_s: float


class Moved(msgspec.Struct):
    """The broker that leads or coordinates; none while there is none."""

    broker: int | None


def _without_body(call: Callable[[Broker], object]) -> Callable[[Broker, bytes], object]:
    def run(broker: Broker, body: bytes) -> None:
        if body.strip() not in (b"", b"{}"):
            raise ValueError("there is nothing to say in the body")
        call(broker)

    return run


def _lose_power(broker: Broker, body: bytes) -> None:
    broker.power_loss(_decoded(body, PowerLoss).seed)


def _set_clock(broker: Broker, body: bytes) -> None:
    wanted = _decoded(body, Jump)
    if wanted.reset:
        broker.clock.reset()
    broker.clock.jump(wanted.jump_s)


DEEDS: Final[Mapping[str, Callable[[Broker, bytes], object]]] = {
    "start": _without_body(Broker.start),
    "stop": _without_body(Broker.stop),
    "kill": _without_body(Broker.kill),
    "pause": _without_body(Broker.pause),
    "resume": _without_body(Broker.resume),
    "power_loss": _lose_power,
    "clock": _set_clock,
}
"""The last words of the addresses, and what they do."""


class BrokersById:
    """Brokers, by their ids, and the cluster that they are, if they are one. Raises Told and what the calls raise."""

    def __init__(self, brokers: Mapping[int, Broker], cluster: Cluster | None) -> None:
        self._brokers = brokers
        self._cluster = cluster

    def of_brokers(
        self, method: str, place: str, query: Mapping[str, list[str]], body: bytes
    ) -> tuple[HTTPStatus, object]:
        """Answers a request for `/brokers` and what is below."""
        name, _, deed = place.partition("/")
        if method == "GET" and not deed:
            return HTTPStatus.OK, self._one(name) if name else [self._one(str(each)) for each in self._brokers]
        if method != "POST" or not deed:
            raise Told(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} /brokers{'/' if place else ''}{place} does nothing")
        if deed not in DEEDS:
            raise Told(HTTPStatus.NOT_FOUND, f"a broker has no {deed}; it has {', '.join(DEEDS)}")
        DEEDS[deed](self._found(name), body)
        return HTTPStatus.OK, self._one(name)

    def of_leaders(
        self, method: str, place: str, query: Mapping[str, list[str]], body: bytes
    ) -> tuple[HTTPStatus, object]:
        """Answers a request for `/leaders`."""
        cluster = self._of_several("leaders", place)
        if method == "POST":
            wanted = _decoded(body, NewLeader)
            found: Broker | None = cluster.move_leader(wanted.topic, wanted.partition, to=wanted.to)
        elif method == "GET":
            asked = msgspec.convert({name: values[-1] for name, values in query.items()}, NewLeader, strict=False)
            found = cluster.leader(asked.topic, asked.partition)
        else:
            raise Told(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} /leaders does nothing")
        return HTTPStatus.OK, self._moved(found)

    def of_coordinators(
        self, method: str, place: str, query: Mapping[str, list[str]], body: bytes
    ) -> tuple[HTTPStatus, object]:
        """Answers a request for `/coordinators`."""
        cluster = self._of_several("coordinators", place)
        if method == "POST":
            wanted = _decoded(body, NewCoordinator)
            whose = {"group": wanted.group, "transactional_id": wanted.transactional_id}
            found: Broker | None = cluster.move_coordinator(**whose, to=wanted.to)
        elif method == "GET":
            asked = msgspec.convert({name: values[-1] for name, values in query.items()}, NewCoordinator, strict=False)
            found = cluster.coordinator(group=asked.group, transactional_id=asked.transactional_id)
        else:
            raise Told(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} /coordinators does nothing")
        return HTTPStatus.OK, self._moved(found)

    def _of_several(self, what: str, place: str) -> Cluster:
        if place:
            raise Told(HTTPStatus.NOT_FOUND, f"there is no /{what}/{place}")
        if self._cluster is None:
            raise Told(HTTPStatus.NOT_FOUND, f"one broker alone has no other {what}")
        return self._cluster

    def _moved(self, found: Broker | None) -> Moved:
        return Moved(next((number for number, each in self._brokers.items() if each is found), None))

    def _found(self, name: str) -> Broker:
        found = self._brokers.get(int(name)) if name.isdecimal() else None
        if found is None:
            raise Told(
                HTTPStatus.NOT_FOUND, f"there is no broker {name}; say which of {', '.join(map(str, self._brokers))}"
            )
        return found

    def _one(self, name: str) -> DescribedBroker:
        broker = self._found(name)
        return DescribedBroker(int(name), broker.port, broker.is_running, broker.is_paused, broker.clock.ahead)


def _decoded(body: bytes, kind: type[T]) -> T:
    """Raises ValueError for what is no JSON, or another object."""
    return msgspec.json.decode(body or b"{}", type=kind)
