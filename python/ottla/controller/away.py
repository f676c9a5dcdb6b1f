"""Brokers that are not registered, and that clients are told of for a while yet.

A client that loses a broker from its metadata forgets what it knows of it. One that was removed before its session
ended, or that was shut down, is mostly back soon.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from ottla.controller.channels import Channels
from ottla.controller.events import AwayOver, Events
from ottla.controller.model import Away, Broker, Cluster


class AwayBrokers:
    """Keeps `Cluster.away`. Without `session_s` nobody is told of brokers that are away."""

    def __init__(
        self, cluster: Cluster, channels: Channels, events: Events, nursery: trio.Nursery, session_s: float | None
    ) -> None:
        self._cluster = cluster
        self._channels = channels
        self._events = events
        self._nursery = nursery
        self._session_s = session_s

    def name_on(self, brokers: Iterable[tuple[Broker, float | None]]) -> None:
        """Clients are told of these brokers, which are not registered, for as long as a session lasts, or until the
        given time if that is sooner.
        """
        if self._session_s is None:
            return
        now_s = trio.current_time()
        latest_s = now_s + self._session_s
        for broker, until_s in brokers:
            ends_s = latest_s if until_s is None else min(until_s, latest_s)
            if ends_s > now_s:
                self._cluster.away[broker.id] = Away(broker, ends_s)
                self._nursery.start_soon(self._events.put_at, AwayOver(), ends_s)

    async def look(self) -> None:
        """The sessions of brokers that are away may have ended by now, had they lived."""
        now_s = trio.current_time()
        over = [broker for broker, away in self._cluster.away.items() if away.until_s <= now_s]
        for broker in over:
            del self._cluster.away[broker]
        if over:
            await self._channels.tell_metadata()
