"""The other brokers of the cluster, watched so that the end of a process is known before its ZooKeeper session ends.

Every broker keeps a connection to every other one (`peers.presence`): the controller to remove the registrations of
processes that are gone, all others to make room for another controller. Only brokers are watched whose registration
says that they are Ottla's: those notice when their registration is removed though they live, and register again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import SessionExpired, Tree, WatchEvent
from ottla.coordination.znodes import BrokerRegistration, MalformedNode
from ottla.peers.presence import gone

logger = logging.getLogger(__name__)


class Neighbours:
    """Which of the registered brokers are gone. `told` hears of each, with its epoch, when that is proved; `doubt` of a
    broker that may be, and when it is not.
    """

    def __init__(
        self,
        tree: Tree,
        broker_id: int,
        listener: str,
        told: Callable[[int, int], None],
        doubt: Callable[[int, bool], None],
    ) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._listener = listener
        self._told = told
        self._doubt = doubt
        self._watched: dict[int, tuple[int, trio.CancelScope]] = {}
        #: The epochs of registrations whose processes are gone, by broker.
        self.gone: dict[int, int] = {}

    async def run(self) -> None:
        """Watches until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                changed = trio.Event()

                def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
                    changed.set()

                await self._tree.wait_connected()
                try:
                    registered = await self._read(wake)
                except SessionExpired:
                    continue
                self._update(registered, nursery)
                await changed.wait()

    async def _read(self, wake: Callable[[WatchEvent], None]) -> dict[int, tuple[int, BrokerRegistration]]:
        """The epochs and registrations of the other brokers of Ottla's."""
        ids = []
        for name in await self._tree.children(znodes.BROKER_IDS, wake):
            try:
                ids.append(znodes.broker_of(name))
            except MalformedNode:
                continue  # the controller says so
        paths = [znodes.broker_path(broker) for broker in ids]
        found = {}
        for broker, path, node in zip(ids, paths, await self._tree.get_many(paths), strict=True):
            if node is None or broker == self._broker_id:
                continue
            try:
                registration = BrokerRegistration.decode(path, node.data)
            except MalformedNode:
                continue
            if registration.ottla is not None:
                found[broker] = (node.stat.czxid, registration)
        return found

    def _update(self, registered: dict[int, tuple[int, BrokerRegistration]], nursery: trio.Nursery) -> None:
        for broker, (epoch, scope) in [*self._watched.items()]:
            if broker not in registered or registered[broker][0] != epoch:
                scope.cancel()
                del self._watched[broker]
                self.gone.pop(broker, None)
        for broker, (epoch, registration) in registered.items():
            endpoint = next((one for one in registration.endpoints if one.listener == self._listener), None)
            if broker not in self._watched and endpoint is not None:
                scope = trio.CancelScope()
                self._watched[broker] = epoch, scope
                nursery.start_soon(self._watch, broker, epoch, endpoint.host, endpoint.port, scope)

    async def _watch(self, broker: int, epoch: int, host: str, port: int, scope: trio.CancelScope) -> None:
        with scope:
            await gone(host, port, partial(self._doubt, broker))
            self.gone[broker] = epoch
            self._told(broker, epoch)
