"""The quotas of this broker's clients: what each used, and for how long those who used too much are muted (KIP-219).

An answer is never held back: it leaves at once and names the throttle time, and then the connection is not heard for
that long, so that a client that does not know of throttle times is throttled as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from ottla.broker.quotas.entities import entity_at, values
from ottla.broker.quotas.limits import Entity, Group, Limits, Quota
from ottla.broker.quotas.rates import Rate, TokenBucket, Window
from ottla.controller.configs import get_config

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.coordination.tree import Tree

#: Who has used nothing for so long is forgotten; and there are never more than this many of a kind.
FORGET_MS = 3_600_000
METERS_MAX = 10_000

MeterT = TypeVar("MeterT", Rate, TokenBucket)
Client: TypeAlias = "tuple[str, str]"
"""User and client id."""


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Meters(Generic[MeterT]):
    """The meters of one kind of quota, one for each group of clients."""

    def __init__(self, limits: Limits, new: Callable[[], MeterT]) -> None:
        self.limits = limits
        self._new: Callable[[], MeterT] = new
        #: In the order of their last use.
        self._meters: dict[Group, tuple[MeterT, int]] = {}

    def find(self, client: Client, at_ms: int) -> tuple[MeterT, float] | None:
        """The meter that counts for a client, and its quota; None if it has no quota."""
        found = self.limits.find(*client)
        if found is None:
            return None
        group, quota = found
        meters = self._meters
        known = meters.pop(group, None)
        meter = self._new() if known is None else known[0]
        meters[group] = (meter, at_ms)
        oldest = next(iter(meters))
        if len(meters) > METERS_MAX or at_ms - meters[oldest][1] > FORGET_MS:
            del meters[oldest]
        return meter, quota


class ClientQuotas:
    """All quotas, and what was used of them."""

    def __init__(self, config: BrokerConfig) -> None:
        window = Window(config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000)
        slow = Window(
            config.get_int("controller.quota.window.num"), config.get_int("controller.quota.window.size.seconds") * 1000
        )
        self.window = window
        self._produce = _Meters(Limits(_default(config, "quota.producer.default")), lambda: Rate(window))
        self._fetch = _Meters(Limits(_default(config, "quota.consumer.default")), lambda: Rate(window))
        self._request = _Meters(Limits(), lambda: Rate(window))
        self._mutation = _Meters(Limits(), lambda: TokenBucket(slow))
        self._limits = {
            Quota.PRODUCE: self._produce.limits,
            Quota.FETCH: self._fetch.limits,
            Quota.REQUEST: self._request.limits,
            Quota.MUTATION: self._mutation.limits,
        }

    def __bool__(self) -> bool:
        """True if there is any quota."""
        return any(self._limits.values())

    def load(self, entities: Iterable[tuple[Entity, Mapping[str, str]]]) -> None:
        """Takes all quotas that are set, at the start: these are all entities that have settings."""
        for entity, config in entities:
            self.set(entity, config)

    def load_again(self, entities: Iterable[tuple[Entity, Mapping[str, str]]]) -> None:
        """Takes what changed of any quota, as `changed` does: these are all entities that have settings."""
        found = dict(entities)
        for entity in self.entities() | found.keys():
            self._change(entity, found.get(entity, {}))

    def entities(self) -> set[Entity]:
        """All that have a quota of their own."""
        return {entity for limits in self._limits.values() for entity in limits.entities()}

    async def changed(self, tree: Tree, kind: str, name: str) -> None:
        """Someone changed the settings of a user, a client id, or both. Those with a value that is no quota have no
        effect as a whole: what held goes on to hold.
        """
        entity = entity_at(kind, name)
        if entity is not None:
            self._change(entity, await get_config(tree, kind, name))

    def _change(self, entity: Entity, config: Mapping[str, str]) -> None:
        given = dict(values(config))
        if given.keys() == {quota for quota in Quota if quota.value in config}:
            self._set(entity, given)

    def set(self, entity: Entity, config: Mapping[str, str]) -> None:
        self._set(entity, dict(values(config)))

    def _set(self, entity: Entity, given: Mapping[Quota, float]) -> None:
        for kind, limits in self._limits.items():
            limits.set(entity, given.get(kind))

    # --- using ---

    def produced(self, client: Client, size: int, at_ms: int) -> int:
        """A Produce of `size` bytes came; returns the throttle time in milliseconds."""
        return _use(self._produce, client, size, at_ms)

    def used_time(self, client: Client, seconds: float, at_ms: int) -> int:
        """A request kept this broker busy for so long; returns the throttle time, at most one window."""
        return min(_use(self._request, client, seconds * 100, at_ms), self.window.size_ms)

    def fetched(self, client: Client, size: int) -> int:
        """A Fetch is about to be answered with `size` bytes. If that is too much nothing is counted, and the answer
        must be empty and name the throttle time that is returned.
        """
        at_ms = now_ms()
        throttle_ms = _use(self._fetch, client, size, at_ms)
        if throttle_ms:
            self.not_fetched(client, size)
        return throttle_ms

    def not_fetched(self, client: Client, size: int) -> None:
        """Takes back from the meter bytes that were counted and then not sent."""
        at_ms = now_ms()
        if (found := self._fetch.find(client, at_ms)) is not None:
            meter, _ = found
            meter.record(-size, at_ms)

    def fetch_bytes_max(self, client: Client) -> int:
        """The most bytes that a client may fetch in a whole window."""
        found = self._fetch.limits.find(*client)
        if found is None:
            return 2**31 - 1
        _, bytes_a_second = found
        in_a_window = bytes_a_second * (self.window.samples - 1) * self.window.size_ms / 1000
        return int(max(0, min(2**31 - 1, in_a_window)))

    def mutation(self, client: Client) -> tuple[TokenBucket, float] | None:
        """The permits for changes to topics that a client shares, and how many grow back in a second; None if it may
        change anything.
        """
        return self._mutation.find(client, now_ms())


def _use(meters: _Meters[Rate], client: Client, value: float, at_ms: int) -> int:
    found = meters.find(client, at_ms)
    if found is None:
        return 0
    rate, quota = found
    rate.record(value, at_ms)
    return rate.throttle_ms(quota, at_ms)


def _default(config: BrokerConfig, name: str) -> float | None:
    """Kafka's largest number is its way to say that there is none."""
    value = config.get_int(name)
    return None if value >= 2**63 - 1 else float(value)
