"""Parts of a broker that are made of many settings or of several other parts.

Each function takes the broker while it is made, and uses the parts that `Broker.__init__` has made before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla._core import Disconnected, Hub
from ottla.broker import network_threads
from ottla.broker.authentication.authentication import Authentication
from ottla.broker.authentication.credentials import Credentials
from ottla.broker.authentication.scram import Decoys
from ottla.broker.authorization.authorizer import Authorizer, standing
from ottla.broker.internal_topics import Host, transaction_state_topic
from ottla.broker.requests import SUPPORTED
from ottla.broker.surroundings import Surroundings
from ottla.broker.transactions import Directory
from ottla.config.passwords import SECRET
from ottla.controller.balance import Balance
from ottla.controller.controller import Controller
from ottla.net import Server
from ottla.peers import Dialer, Fetchers, Peers
from ottla.replication.following import Following
from ottla.replication.isr_changes import IsrChanges
from ottla.replication.isr_writes import IsrWrites
from ottla.replication.replicas import Replicas
from ottla.replication.unclean_start import UncleanStart
from ottla.transaction.service import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.audit.audit import Audit
    from ottla.broker.authentication.between import Access
    from ottla.broker.authorization.store import Changed
    from ottla.broker.failing_directories import FailingDirectories
    from ottla.broker.standing import Standing
    from ottla.config import BrokerConfig
    from ottla.controller.producer_ids import ProducerIds
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree
    from ottla.replication.belonging import Belonging
    from ottla.replication.isr_proposals import IsrProposals
    from ottla.replication.log_manager import LogManager
    from ottla.replication.throttles import Throttles


class Unfinished(Host, Protocol):
    """The parts of a broker of which others are made."""

    id: int
    wall_ms: Callable[[], int]
    cluster_id: str
    is_alone: bool
    tree: Tree
    access: Access
    audit: Audit | None
    logs: LogManager
    failing_directories: FailingDirectories
    peers: Peers
    surroundings: Surroundings
    unclean_start: UncleanStart
    isr_changes: IsrProposals
    throttles: Throttles
    following: Following
    producer_ids: ProducerIds
    registration: Registration
    standing: Standing


def server(config: BrokerConfig, disconnected: Callable[[Disconnected], None]) -> Server:
    """Serves clients, with as many threads as are set."""
    made = Server(hub(config), disconnected=disconnected)
    network_threads.serve(made, config)
    return made


def hub(config: BrokerConfig) -> Hub:
    """The connections of clients, with their limits."""
    idle_ms = config.get_int("connections.max.idle.ms")
    return Hub(
        supported=SUPPORTED,
        frame_bytes_max=config.get_int("socket.request.max.bytes"),
        queued_bytes_max=config.queued_bytes_max,
        percent_per_ip_max=config.get_int("queued.max.request.percent.per.ip"),
        connections_max=config.get_int("max.connections"),
        connections_per_ip_max=config.get_int("max.connections.per.ip"),
        connections_per_ip_overrides=config.connections_per_ip_overrides,
        idle_ms=idle_ms if idle_ms >= 0 else None,
        send_buffer_bytes=_buffer(config.get_int("socket.send.buffer.bytes")),
        receive_buffer_bytes=_buffer(config.get_int("socket.receive.buffer.bytes")),
        threads_max=network_threads.most(),
    )


def _buffer(size_bytes: int) -> int | None:
    """-1 leaves it to the system."""
    return size_bytes if size_bytes > 0 else None


def authentication(broker: Unfinished, hub: Hub, users: dict[int, str]) -> Authentication:
    """The conversations with clients. Brokers with the same secret make the same decoys."""
    secret = broker.config.get_str(SECRET)
    decoys = Decoys(secret and f"{broker.cluster_id} {secret}")
    return Authentication(hub, Credentials(decoys), users, broker.audit)


def authorizer(broker: Unfinished, changed: Changed) -> Authorizer | None:
    """Says who may do what; None without one. `changed` is called when other rules hold."""
    found = standing(broker.config)
    if found is None:
        return None
    takes_prefixes = broker.config.inter_broker_protocol.has_prefixed_rules
    return Authorizer(broker.tree, found, changed, broker.audit, takes_prefixes=takes_prefixes)


def _dialer(broker: Unfinished, client_id: str, timeout: str) -> Dialer:
    """Opens connections to other brokers; `timeout` is the setting that says how long that may take."""
    return Dialer(client_id, broker.config.get_int(timeout), broker.access)


def peers(broker: Unfinished) -> Peers:
    """The connections to other brokers, whose addresses the controller tells."""
    listener = broker.config.inter_broker_listener
    dialer = _dialer(broker, f"broker-{broker.id}", "replica.socket.timeout.ms")
    return Peers(lambda other: broker.metadata.address(other, listener), dialer)


def surroundings(broker: Unfinished) -> Surroundings:
    """The rest of the cluster."""
    return Surroundings(
        broker.id,
        broker.tree,
        metadata=broker.metadata,
        logs=broker.logs,
        peers=broker.peers,
        failing_directories=broker.failing_directories,
    )


def unclean_start(broker: Unfinished) -> UncleanStart:
    """The replicas that may have lost records before this start."""
    logs = broker.logs
    return UncleanStart(
        broker.id,
        logs.suspects,
        broker.surroundings,
        broker.tree,
        wait_s=broker.config.get_int("unclean.start.wait.ms") / 1000,
        without_log=logs.without_log,
        note=logs.note_suspects,
    )


def isr_changes(broker: Unfinished) -> IsrProposals:
    """The way of a change of an ISR: to the controller, or into the tree where older brokers may control."""
    if not broker.config.inter_broker_protocol.has_alter_isr:
        return IsrWrites(broker.id, broker.tree)
    return IsrChanges(
        broker.id,
        broker.peers,
        broker.tree,
        controller=lambda: broker.metadata.controller_id,
        told=broker.metadata.wait_until,
        broker_epoch=lambda: broker.registration.epoch,
    )


def following(broker: Unfinished) -> Following:
    """The fetching of partitions that other brokers lead."""
    completions = broker.server.hub.completions
    return Following(
        broker.id,
        broker.server,
        broker.peers,
        Fetchers(broker.id, lambda: broker.config, broker.throttles.follower, completions, broker.access),
        lambda: broker.config,
        address_known=broker.metadata.wait_until,
        truncate=broker.logs.truncate,
    )


def replicas(broker: Unfinished, belonging: Belonging) -> Replicas:
    """The partitions of this broker."""
    return Replicas(
        broker.id,
        broker.logs,
        broker.server,
        directory_failed=broker.failing_directories.failed,
        has_run_out=broker.failing_directories.has_run_out,
        propose=broker.isr_changes.propose,
        following=broker.following,
        throttles=broker.throttles,
        unclean_start=broker.unclean_start,
        belonging=belonging,
    )


def transactions(broker: Unfinished) -> Transactions:
    """The transaction coordinator."""
    return Transactions(
        transaction_state_topic(broker),
        broker.config,
        Directory(broker.tree, broker.id, broker.metadata, broker.config.inter_broker_listener, broker.standing),
        broker.producer_ids.next,
        _dialer(broker, f"broker-{broker.id}-txn-marker-sender", "request.timeout.ms"),
        broker.wall_ms,
    )


def controller(broker: Unfinished) -> Controller:
    """The controller, should this broker be elected."""
    config = broker.config
    # Kafka's controllers name themselves so too.
    dialer = _dialer(broker, str(broker.id), "controller.socket.timeout.ms")
    return Controller(
        broker.tree,
        broker.id,
        listener=config.inter_broker_listener,
        registration=broker.registration,
        timeout_ms=config.get_int("controller.socket.timeout.ms"),
        unclean_election_default=config.get_bool("unclean.leader.election.enable"),
        delete_topics=config.get_bool("delete.topic.enable"),
        balance=Balance.of(config),
        session_s=session_s(config, is_alone=broker.is_alone),
        doubt=broker.metadata.doubt,
        epoch_ends=broker.surroundings.epoch_ends,
        named=broker.surroundings.named,
        connect=dialer.open,
        greet=dialer.greet,
    )


def session_s(config: BrokerConfig, *, is_alone: bool) -> float | None:
    """How long the session of a broker outlives its process; None if its end is waited for."""
    if is_alone or not config.get_bool("broker.early.removal.enable"):
        return None
    return config.get_int("zookeeper.session.timeout.ms") / 1000
