"""Controlled shutdown: before a broker stops, it has the controller give its partitions to others.

Without that, clients find out by errors that a leader is gone, and the next is elected only when the session has ended;
and the leaders of the partitions that it follows wait for it. It goes on serving meanwhile.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import trio

from ottla.coordination.tree import SessionState
from ottla.errors import KafkaError, ProtocolError, check, counted
from ottla.peers import Dialer
from ottla.wire.k07_controlled_shutdown import (
    CONTROLLED_SHUTDOWN,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

if TYPE_CHECKING:
    from ottla.broker.authentication.between import Access
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.config import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree
    from ottla.replication.replicas import Replicas

#: How long a broker waits to hear of the leaders that follow it, after the controller has said that there are.
HEAR_SECONDS = 2.0
#: How long a broker that led goes on serving when others lead. Its clients are refused, and ask it who leads; one whose
#: connection ends before the answer tries the connection again first, and asks others by a timer of a second
#: (librdkafka). Java clients ask 0.1 s after the refusal.
LINGER_SECONDS = 0.2
VERSION = 3
"""Fixed by `inter.broker.protocol.version` 2.7."""


class Leaving(Protocol):
    """The parts of a broker that leaving needs."""

    id: int
    access: Access
    controller: Controller
    log: logging.Logger
    metadata: MetadataCache
    registration: Registration
    replicas: Replicas
    tree: Tree

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""


async def hand_over(broker: Leaving) -> None:
    """Returns once others lead what they can, or when it has been tried `controlled.shutdown.max.retries` times. At
    once where nobody could: this broker is alone, or has no partition that others have too.
    """
    if not broker.config.get_bool("controlled.shutdown.enable") or not _has_company(broker):
        return
    began = trio.current_time()
    is_missed = _leads_with_others(broker)
    broker.replicas.is_leaving = True
    for attempt in range(broker.config.get_int("controlled.shutdown.max.retries")):
        if attempt:
            await _back_off(broker)
            if not _has_company(broker):
                broker.log.info("all others have left meanwhile")
                return
        if broker.tree.state is not SessionState.CONNECTED:
            broker.log.warning("the coordination tree is out of reach, so that nobody can take over")
            break
        try:
            remaining = await _ask(broker)
        except (OSError, ProtocolError, KafkaError) as error:
            broker.log.warning("the controller was asked for another leader in vain: %s", error or type(error).__name__)
            continue
        if remaining:
            left = counted(len(remaining), "partition")
            broker.log.warning("nobody else can lead %s, among them %s-%d", left, *min(remaining))
            continue
        with trio.move_on_after(HEAR_SECONDS):
            await broker.metadata.wait_until(lambda: not _leads_with_others(broker))
            # Where this broker is the controller, the others hear it from nobody else before the next is elected.
            await broker.controller.all_told()
        broker.log.info("others lead, after %d ms", 1000 * (trio.current_time() - began))
        if is_missed:
            await trio.sleep(LINGER_SECONDS)
        return
    broker.log.warning("stopping without having handed over what this broker leads")


async def _ask(broker: Leaving) -> list[tuple[str, int]]:
    """The partitions that this broker leads still. Raises OSError, ProtocolError, KafkaError."""
    config, metadata = broker.config, broker.metadata
    known = metadata.brokers.get(metadata.controller_id)
    address = None if known is None else known.endpoints.get(config.inter_broker_listener)
    if address is None:
        raise ConnectionError("no controller is known")
    timeout_ms = config.get_int("controller.socket.timeout.ms")
    connection = await Dialer(str(broker.id), timeout_ms, broker.access).open(*address)
    try:
        request = ControlledShutdownRequest(broker.id, broker.registration.epoch)
        answer: ControlledShutdownResponse = await connection.call(
            CONTROLLED_SHUTDOWN, request, VERSION, timeout_ms=timeout_ms
        )
    finally:
        await connection.aclose()
    check(answer.error_code)
    return [(row.topic_name, row.partition_index) for row in answer.remaining_partitions]


async def _back_off(broker: Leaving) -> None:
    """Waits before the next try, until there is another controller or nobody else at most."""
    former = broker.metadata.controller_id
    with trio.move_on_after(broker.config.get_int("controlled.shutdown.retry.backoff.ms") / 1000):
        await broker.metadata.wait_until(lambda: broker.metadata.controller_id != former or not _has_company(broker))


def _has_company(broker: Leaving) -> bool:
    """True if another live broker may have a partition that this broker has: one of its partitions has several
    replicas.
    """
    if len(broker.metadata.brokers) < 2:
        return False
    return any(
        broker.id in partition.replicas and len(partition.replicas) > 1
        for partitions in broker.metadata.topics.values()
        for partition in partitions.values()
    )


def _leads_with_others(broker: Leaving) -> bool:
    return any(
        partition.leader == broker.id and len(partition.replicas) > 1
        for partitions in broker.metadata.topics.values()
        for partition in partitions.values()
    )
