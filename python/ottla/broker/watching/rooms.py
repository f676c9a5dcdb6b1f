"""The parts of a broker that metrics and readiness look at. They change none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.audit.audit import Audit
    from ottla.broker.authentication.authentication import Authentication
    from ottla.broker.fetch.session import FetchSessions
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.settings import Settings
    from ottla.config import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree
    from ottla.group.coordinator import GroupCoordinator
    from ottla.net import Server
    from ottla.replication.cleaner import Cleaner
    from ottla.replication.delayed import Deadlines
    from ottla.replication.following import Following
    from ottla.replication.isr_proposals import IsrProposals
    from ottla.replication.log_manager import LogManager
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttles import Throttles
    from ottla.transaction.service import Transactions


class WatchedRooms(Protocol):
    """A broker that serves, as those see it who watch it."""

    id: int
    audit: Audit | None
    authentication: Authentication
    cleaner: Cleaner
    controller: Controller
    deadlines: Deadlines
    fetch_sessions: FetchSessions
    following: Following
    groups: GroupCoordinator
    isr_changes: IsrProposals
    logs: LogManager
    metadata: MetadataCache
    registration: Registration
    replicas: Replicas
    server: Server
    settings: Settings
    throttles: Throttles
    transactions: Transactions
    tree: Tree

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
