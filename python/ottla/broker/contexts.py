"""What handlers need of the broker: one protocol for each family of requests.

A handler names the family that it belongs to, and mypy keeps it from reaching into the rest of the broker. So it is
plain which parts a family works on, and its handlers can be tested with those alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

    import trio

    from ottla._core import Request
    from ottla.broker.admin import Admin
    from ottla.broker.fetch.session import FetchSessions
    from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.request_memory import RequestMemory
    from ottla.broker.standing import Standing
    from ottla.config import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.controller.producer_ids import ProducerIds
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree
    from ottla.group.coordinator import GroupCoordinator
    from ottla.net import Server
    from ottla.replication.appends import SafeAppends
    from ottla.replication.delayed import Deadlines
    from ottla.replication.leases import Leases
    from ottla.replication.log_manager import LogManager
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttles import Throttles
    from ottla.replication.turn import Turn
    from ottla.transaction.service import Transactions
    from ottla.wire.schema import Api

#: Answers a request in a task. Its first argument is the broker, as far as the handler needs it.
AsyncHandler: TypeAlias = "Callable[[Any, Request], Awaitable[None]]"


class AnswerContext(Protocol):
    """What it takes to answer: see `replies.py`. All that the handlers of what this broker does not have need."""

    server: Server
    is_measured: bool
    large_answers: trio.CapacityLimiter
    request_memory: RequestMemory

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""

    def in_background(self, handle: AsyncHandler, request: Request) -> None:
        """Answers a request in a task."""


class QuotaContext(Protocol):
    """What it takes to measure clients."""

    quotas: ClientQuotas | None


class VerificationContext(Protocol):
    """What it takes to ask whether a transaction has the partitions that its producer writes to."""

    replicas: Replicas
    transactions: Transactions


class ProduceContext(VerificationContext, QuotaContext, Protocol):
    """Produce."""

    metadata: MetadataCache
    server: Server
    turn: Turn
    leases: Leases
    deadlines: Deadlines

    def in_background(self, handle: AsyncHandler, request: Request) -> None:
        """Answers a request in a task."""


class FetchContext(QuotaContext, Protocol):
    """Fetch."""

    metadata: MetadataCache
    server: Server
    replicas: Replicas
    leases: Leases
    deadlines: Deadlines
    fetch_sessions: FetchSessions
    fetch_bytes_max: int
    chooses_replicas: bool
    throttles: Throttles

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        """Where a broker stands that is alive and has the listener; None if that is not known."""

    def in_background(self, handle: AsyncHandler, request: Request) -> None:
        """Answers a request in a task."""


class LogContext(AnswerContext, Protocol):
    """Requests about partitions' logs and their directories."""

    log: logging.Logger
    logs: LogManager
    replicas: Replicas
    metadata: MetadataCache
    deadlines: Deadlines


class ControlContext(AnswerContext, Protocol):
    """Requests of controllers."""

    id: int
    log: logging.Logger
    logs: LogManager
    replicas: Replicas
    metadata: MetadataCache
    groups: GroupCoordinator
    registration: Registration
    standing: Standing

    def is_stale(self, broker_epoch: int) -> bool:
        """Whether a request was meant for an earlier life of this broker."""

    async def look_for_controller(self, controller_epoch: int) -> None:
        """Learns the newest controller epoch, if a request names one that is not known yet. Waits for the registration
        of this broker, without which nothing is meant for it.
        """

    def accept_controller(self, controller_id: int, controller_epoch: int) -> bool:
        """False for a controller that was replaced since, or never elected."""


class GroupContext(AnswerContext, Protocol):
    """Requests of consumer groups, and about them. Offsets of version 0 are in the tree."""

    groups: GroupCoordinator
    metadata: MetadataCache
    tree: Tree


class TransactionContext(VerificationContext, AnswerContext, Protocol):
    """Requests of transactional producers, and of those who end their transactions."""

    groups: GroupCoordinator
    metadata: MetadataCache
    producer_ids: ProducerIds
    safe_appends: SafeAppends


class AdminContext(AnswerContext, QuotaContext, Protocol):
    """Requests that change topics, settings, quotas and credentials, or describe them."""

    id: int
    admin: Admin
    controller: Controller
    metadata: MetadataCache
    tree: Tree


class ClusterContext(AnswerContext, Protocol):
    """Where clients find brokers, partitions and coordinators."""

    cluster_id: str
    advertised: Mapping[int, Api[Any, Any]]
    metadata: MetadataCache
    admin: Admin
    groups: GroupCoordinator
    transactions: Transactions

    def endpoint(self, other: BrokerMetadata, request: Request) -> tuple[str, int] | None:
        """Where the client that sent `request` reaches a broker."""
