"""The failure detector of a cluster: each broker watches the others, and knows of a death before the session ends.

Every broker keeps a connection to every other one (`peers.presence`): the controller to remove the registrations of
processes that are gone, all others to make room for another controller. Only brokers are watched whose registration
says that they are Ottla's: those notice when their registration is removed though they live, and register again.

A proof that a process is gone is good for a short time, and is made again while it holds: what refused connections may
have been something in between, and have ended since. It makes room for another controller only once, since the broker
may be elected again; and a new controller asks once more before it acts on what was proved before its election.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import trio

from ottla.coordination import znodes
from ottla.coordination.tree import NoNode, SessionExpired, Tree, WatchEvent
from ottla.coordination.znodes import BrokerRegistration, Endpoint, MalformedNode
from ottla.peers.presence import Greet, gone, is_refused

logger = logging.getLogger(__name__)

#: How long a proof is good, and how often it is made again while it holds.
GOOD_S: Final = 2.0
AGAIN_S: Final = 1.0
#: How long a refusal may take when a proof is looked at once more. It mostly comes at once.
REFUSAL_S: Final = 0.5


class Proof(msgspec.Struct):
    """That the process behind a registration is gone."""

    #: The epoch of the registration.
    epoch: int
    #: Where it listened.
    endpoint: Endpoint
    made_at_s: float
    #: True if `/controller` was removed on the strength of it.
    has_made_room: bool = False


class _Watched(msgspec.Struct, frozen=True):
    epoch: int
    endpoint: Endpoint
    scope: trio.CancelScope


class Neighbours:
    """Which of the registered brokers are gone. `told` hears of each, with its epoch, whenever that is proved; `doubt`
    of a broker that may be, and when it is not.
    """

    def __init__(
        self,
        tree: Tree,
        broker_id: int,
        listener: str,
        told: Callable[[int, int], None],
        doubt: Callable[[int, bool], None],
        greet: Greet | None = None,
    ) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._listener = listener
        self._told = told
        self._doubt = doubt
        self._greet = greet
        self._watched: dict[int, _Watched] = {}
        self._proofs: dict[int, Proof] = {}

    def proof(self, broker: int) -> Proof | None:
        """The proof that a broker's process is gone, if there is one that is good."""
        proof = self._proofs.get(broker)
        return proof if proof is not None and trio.current_time() < proof.made_at_s + GOOD_S else None

    def gone(self) -> dict[int, int]:
        """The epochs of registrations whose processes are gone, by broker."""
        return {broker: proof.epoch for broker in self._proofs if (proof := self.proof(broker)) is not None}

    async def still_gone(self) -> dict[int, int]:
        """Those of `gone` that refuse a connection now."""
        found: dict[int, int] = {}

        async def ask(broker: int, endpoint: Endpoint, epoch: int) -> None:
            if await is_refused(endpoint.host, endpoint.port):
                found[broker] = epoch

        with trio.move_on_after(REFUSAL_S):
            async with trio.open_nursery() as nursery:
                for broker, epoch in self.gone().items():
                    nursery.start_soon(ask, broker, self._proofs[broker].endpoint, epoch)
        return found

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

    async def _read(self, wake: Callable[[WatchEvent], None]) -> dict[int, tuple[int, Endpoint]]:
        """The epochs of the other brokers of Ottla's, and where they listen."""
        try:
            names = await self._tree.children(znodes.BROKER_IDS, wake)
        except NoNode:
            # Somebody has emptied the tree: nobody is known until it is back.
            if await self._tree.exists(znodes.BROKER_IDS, wake) is not None:
                return await self._read(wake)
            return {}
        ids = []
        for name in names:
            try:
                ids.append(znodes.broker_of(name))
            except MalformedNode:
                continue  # the controller says so
        paths = [znodes.broker_path(broker) for broker in ids]
        found = {}
        for broker, path, node in zip(ids, paths, await self._tree.get_many(paths, [wake] * len(paths)), strict=True):
            if node is None or broker == self._broker_id:
                continue
            try:
                registration = BrokerRegistration.decode(path, node.data)
            except MalformedNode:
                continue
            endpoint = next((one for one in registration.endpoints if one.listener == self._listener), None)
            if registration.ottla is not None and endpoint is not None:
                found[broker] = (node.stat.czxid, endpoint)
        return found

    def _update(self, registered: dict[int, tuple[int, Endpoint]], nursery: trio.Nursery) -> None:
        for broker, watched in [*self._watched.items()]:
            if registered.get(broker) != (watched.epoch, watched.endpoint):
                watched.scope.cancel()
                del self._watched[broker]
                self._proofs.pop(broker, None)
        for broker, (epoch, endpoint) in registered.items():
            if broker not in self._watched:
                watched = self._watched[broker] = _Watched(epoch, endpoint, trio.CancelScope())
                nursery.start_soon(self._watch, broker, watched)

    async def _watch(self, broker: int, watched: _Watched) -> None:
        host, port = watched.endpoint.host, watched.endpoint.port
        with watched.scope:
            while True:
                await gone(host, port, partial(self._doubt, broker), self._greet)
                is_gone = True
                # Another registration may have been read while this task was about to go on.
                while is_gone and self._watched.get(broker) is watched:
                    self._proofs[broker] = Proof(watched.epoch, watched.endpoint, trio.current_time())
                    self._told(broker, watched.epoch)
                    await trio.sleep(AGAIN_S)
                    is_gone = await is_refused(host, port)
                if self._watched.get(broker) is not watched:
                    return
                del self._proofs[broker]
