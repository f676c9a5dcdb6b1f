"""The broker that coordinates a group or a transactional id: where it is, and calls that do not outlive its office.

A broker that stands still keeps its connections, and closes none: a call to it would wait for as long as a call may,
which is minutes where a group rebalances. Another broker coordinates long before that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import trio

from ottla.client.cluster import SILENT_MS, Address
from ottla.errors import KafkaError, NotCoordinator, RemoteProtocolError, check
from ottla.kafka import COORDINATOR_OF_GROUP
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

LOOK_MS_MAX = 10_000
"""The longest pause between two looks at who coordinates, while a call to the coordinator waits."""

T = TypeVar("T")


class Coordinator(NamedTuple):
    """A broker, and where it listens."""

    broker_id: int
    address: Address


async def find_coordinator(cluster: Cluster, key: str, kind: int = COORDINATOR_OF_GROUP) -> Coordinator:
    """The coordinator of a group, or of a transactional id.

    Raises:
        CoordinatorNotAvailable: there is none now. KafkaError: what else the broker says. OSError, RemoteProtocolError:
        none answers.
    """
    answer = await cluster.ask(FIND_COORDINATOR, FindCoordinatorRequest(key=key, key_type=kind))
    what = "group" if kind == COORDINATOR_OF_GROUP else "transactional id"
    check(answer.error_code, answer.error_message or f"{what} '{key}'")
    return Coordinator(answer.node_id, Address(answer.host, answer.port))


async def while_coordinator(
    cluster: Cluster, key: str, address: Address, call: Callable[[], Awaitable[T]], kind: int = COORDINATOR_OF_GROUP
) -> T:
    """Gives what `call` gives, which waits for the coordinator at this address. While it does not end, others are asked
    now and then who coordinates.

    Raises:
        NotCoordinator: they name another one; `call` was cancelled. What `call` raises.
    """
    given: list[T] = []
    problem: Exception | None = None
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            pause_ms = SILENT_MS
            while True:
                await trio.sleep(pause_ms / 1000)
                try:
                    found = await find_coordinator(cluster, key, kind)
                except (KafkaError, OSError, RemoteProtocolError):
                    found = None
                if found is not None and found.address != address:
                    nursery.cancel_scope.cancel()
                    return
                pause_ms = min(2 * pause_ms, LOOK_MS_MAX)

        nursery.start_soon(look)
        try:
            given.append(await call())
        # The nursery would wrap it in a group.
        except Exception as failure:
            problem = failure
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem
    if not given:
        raise NotCoordinator(f"{address} does not answer, and does not coordinate '{key}' any more")
    return given[0]
