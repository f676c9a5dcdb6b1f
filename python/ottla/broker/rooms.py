"""The parts of the broker that handlers work in: one protocol for each family of requests.

A handler names the family that it belongs to, and mypy keeps it from reaching into the rest of the broker. So it is
plain which parts a family works on, and its handlers can be tested with those alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

    from ottla.broker.admin import Admin
    from ottla.broker.authentication.authentication import Authentication
    from ottla.broker.authorization.authorizer import Authorizer
    from ottla.broker.fetch.session import FetchSessions
    from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache
    from ottla.broker.session import Session
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
    from ottla.replication.unclean_start import UncleanStart
    from ottla.transaction.service import Transactions
    from ottla.wire.schema import Api


class AuthenticationRooms(Protocol):
    """Say who a client is."""

    authentication: Authentication


class AclRooms(Protocol):
    """The access rules."""

    authorizer: Authorizer | None


class SettingRooms(Protocol):
    """The settings."""

    @property
    def config(self) -> BrokerConfig:
        """Those that hold now."""


class VerificationRooms(Protocol):
    """Say whether a transaction has the partitions that its producer writes to."""

    replicas: Replicas
    transactions: Transactions


class ProduceRooms(VerificationRooms, Protocol):
    """Produce."""

    metadata: MetadataCache
    server: Server
    turn: Turn
    leases: Leases
    deadlines: Deadlines


class FetchRooms(Protocol):
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


class LogRooms(Protocol):
    """Requests about partitions' logs and their directories."""

    log: logging.Logger
    logs: LogManager
    replicas: Replicas
    metadata: MetadataCache
    server: Server
    deadlines: Deadlines
    unclean_start: UncleanStart


class ControlRooms(Protocol):
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
        """True if a request was meant for an earlier life of this broker."""

    async def look_for_controller(self, controller_epoch: int) -> None:
        """Learns the newest controller epoch, if a request names one that is not known yet. Waits for the registration
        of this broker, without which nothing is meant for it.
        """

    def accept_controller(self, controller_id: int, controller_epoch: int) -> bool:
        """False for a controller that was replaced since, or never elected."""


class GroupRooms(Protocol):
    """Requests of consumer groups, and about them. Offsets of version 0 are in the tree."""

    groups: GroupCoordinator
    metadata: MetadataCache
    tree: Tree


class TransactionRooms(VerificationRooms, SettingRooms, Protocol):
    """Requests of transactional producers, and of those who end their transactions."""

    groups: GroupCoordinator
    metadata: MetadataCache
    producer_ids: ProducerIds
    safe_appends: SafeAppends


class AdminRooms(SettingRooms, Protocol):
    """Requests that change topics, settings, quotas and credentials, or describe them."""

    id: int
    admin: Admin
    controller: Controller
    metadata: MetadataCache
    tree: Tree


class ClusterRooms(SettingRooms, Protocol):
    """Where clients find brokers, partitions and coordinators."""

    cluster_id: str
    advertised: Mapping[int, Api[Any, Any]]
    metadata: MetadataCache
    admin: Admin
    groups: GroupCoordinator
    transactions: Transactions

    def endpoint(self, other: BrokerMetadata, session: Session) -> tuple[str, int] | None:
        """Where the client of a session reaches a broker."""
