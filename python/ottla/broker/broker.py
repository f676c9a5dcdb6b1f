"""The composition root: what a broker is made of, and the order in which its parts start and stop.

Start: lock the data directory, open the coordination tree, read the settings, open the logs (recovering them if need
be), listen, register, then let the controller speak. Nobody is answered before the logs are open; the broker is ready
when the controller has told it that it is alive. Stop is the reverse: no new connections, what was read is finished,
logs are flushed, the clean-shutdown marker is written, the session ends.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ottla._core import Hub
from ottla.broker import connection_limits, identity, loggers, reconfiguration
from ottla.broker.addresses import Addresses
from ottla.broker.admin import Admin
from ottla.broker.failing_directories import FailingDirectories
from ottla.broker.fetch.session import FetchSessions
from ottla.broker.groups import groups
from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache
from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.requests import ADVERTISED, SUPPORTED, AsyncHandler, Requests
from ottla.broker.settings import Settings
from ottla.broker.transactions import transactions
from ottla.config import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.producer_ids import ProducerIds
from ottla.controller.registration import Registration
from ottla.coordination.tree import Tree
from ottla.net import Server
from ottla.replication.cleaner import Cleaner
from ottla.replication.delayed import Deadlines
from ottla.replication.leases import Leases
from ottla.replication.log_manager import LogManager
from ottla.replication.replicas import Replicas
from ottla.replication.turn import Turn

if TYPE_CHECKING:
    from ottla._core import Hub, Request

#: How long a starting broker waits to be told of the partitions that it has.
READY_SECONDS = 30.0
#: How long those who ask a registered broker for the cluster wait for what the controller will say. Less than clients
#: wait for an answer.
SILENCE_SECONDS = 10.0
#: How long a stopping broker waits for the answers to what it has read.
DRAIN_SECONDS = 5.0


class Broker:
    """A running broker. `start` is the way to make one."""

    def __init__(self, broker_id: int, cluster_id: str, tree: Tree, settings: Settings, logs: LogManager) -> None:
        self.id = broker_id
        self.cluster_id = cluster_id
        self.tree = tree
        self.settings = settings
        self.logs = logs
        self.log = logging.getLogger("ottla.broker")
        self.server = Server(_hub(settings.config))
        #: Whether requests are measured and the errors in their answers counted.
        self.is_measured = bool(settings.config.get_str("metrics.listener"))
        if self.is_measured:
            self.server.hub.measure(logs.directories.traffic)
        self.addresses = Addresses(settings.config, self.server)
        self.deadlines = Deadlines()
        self.replicas = Replicas(broker_id, logs, self.server)
        self.failing_directories = FailingDirectories(tree, broker_id, self.replicas, logs)
        #: What one Fetch gets at most.
        self.fetch_bytes_max = settings.config.get_int("fetch.max.bytes")
        self.leases = Leases(self.server.hub, self.fetch_bytes_max)
        self.turn = Turn(self.replicas, self.leases)
        self.server.served = self.turn.end
        self.cleaner = Cleaner(logs, self.server, lambda: self.config)
        self.metadata = MetadataCache()
        self.producer_ids = ProducerIds(tree, broker_id)
        self.admin = Admin(self)
        self.transactions = transactions(self)
        self.groups = groups(self)
        self.advertised = ADVERTISED
        self.registration = Registration(tree, broker_id, self._describe)
        self.controller = Controller(
            tree,
            broker_id,
            listener=settings.config.inter_broker_listener,
            unclean_election_default=settings.config.get_bool("unclean.leader.election.enable"),
            delete_topics=settings.config.get_bool("delete.topic.enable"),
        )
        self.client_quotas = ClientQuotas(settings.config)
        #: The same while there is any quota, else None: then nothing is measured.
        self.quotas: ClientQuotas | None = None
        self.fetch_sessions = FetchSessions(settings.config.get_int("max.incremental.fetch.session.cache.slots"))
        #: Answers a request of a plain handler in a task after all; see `Requests`.
        self.in_background: Callable[[AsyncHandler, Request], None]
        self._controller_epoch = 0

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now, those changed while it runs included."""
        return self.settings.config

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener."""
        return self.addresses.listening[0].address

    @classmethod
    @asynccontextmanager
    async def start(
        cls, config: BrokerConfig, waits: trio.CancelScope | None = None, at: Callable[[str], None] = lambda _: None
    ) -> AsyncIterator[Broker]:
        """A broker that serves inside the `async with` block and is stopped cleanly at its end. `at` is told what the
        start has come to; `waits` may be cancelled to end the wait for ZooKeeper (see `identity.open_tree`).
        """
        at("opening the log directories and the coordination tree")
        async with (
            LogManager.open(config) as logs,
            identity.open_tree(config, logs, waits or trio.CancelScope()) as tree,
        ):
            known = logs.directories.identity()
            cluster_id = await identity.cluster_id(tree, known.get("cluster.id"))
            broker_id = await identity.broker_id(tree, config, known.get("broker.id"))
            logs.directories.claim(broker_id, cluster_id)
            settings = Settings(tree, config, broker_id)
            await settings.load()
            at("opening logs, recovering them if need be")
            await logs.load(settings)
            at("registering, and waiting for the controller")
            broker = cls(broker_id, cluster_id, tree, settings, logs)
            broker.log.info("broker %d of cluster %s, with %s", broker_id, cluster_id, _tree_of(config, logs))
            async with broker._serving():
                yield broker

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            self.addresses.listen()
            self.log.info("listening on %s", ", ".join(map(str, self.addresses.listening)))
            connection_limits.apply(self)
            served = trio.Event()
            requests = Requests(self, nursery)
            nursery.start_soon(self._serve, requests, served)
            nursery.start_soon(self.deadlines.run)
            nursery.start_soon(self.logs.run)
            nursery.start_soon(self.replicas.moves.run)
            nursery.start_soon(self.cleaner.run)
            nursery.start_soon(self.replicas.watch_log_starts)
            await self.client_quotas.load(self.tree)
            self._quotas_changed(requests)

            reconfiguration.subscribe(self, nursery)

            async def client_changed(kind: str, name: str) -> None:
                await self.client_quotas.changed(self.tree, kind, name)
                self._quotas_changed(requests)

            await nursery.start(self.settings.watch, self._topic_changed, client_changed)
            await nursery.start(self.groups.run)
            await self.registration.register()
            nursery.start_soon(self.registration.run)
            nursery.start_soon(self.transactions.run)
            nursery.start_soon(self.controller.run)
            nursery.start_soon(self._answer_anyway)
            await self._until_ready()
            nursery.start_soon(self.failing_directories.run)
            try:
                yield
            finally:
                self.groups.stop()
                self.metadata.stop()
                # Those who wait in the hub are answered; and it holds what it leases, out of the collector's sight.
                self.leases.allow(False)
                for partition in self.replicas.partitions.values():
                    partition.release_fetches()
                with trio.CancelScope(shield=True):
                    self.server.stop(DRAIN_SECONDS)
                    await served.wait()
                nursery.cancel_scope.cancel()

    async def _until_ready(self) -> None:
        """Ready is who serves everything it has: clients that come right after a restart find their partitions led."""
        cache = self.metadata
        await cache.wait_until(lambda: self.id in cache.brokers)
        expected = await identity.assigned(self.tree, self.id) - self.logs.failures.keys()

        def late() -> list[tuple[str, int]]:
            hosted, told = self.replicas.partitions, cache.topics
            return [one for one in expected if one not in hosted or one[1] not in told.get(one[0], ())]

        with trio.move_on_after(READY_SECONDS):
            await cache.wait_until(lambda: not late())
        if missing := late():
            self.log.warning(
                "serving without %d of %d partitions, among them %s", len(missing), len(expected), min(missing)
            )
        cache.become_known()

    async def _answer_anyway(self) -> None:
        """A controller may have no way to this broker: then clients and `ottla doctor` are told what there is."""
        await trio.sleep(SILENCE_SECONDS)
        self.metadata.become_known()

    async def _serve(self, requests: Requests, served: trio.Event) -> None:
        try:
            with loggers.watched_by(requests.arrange):
                await self.server.run(requests.handle)
        finally:
            # Also when the broker ends because something failed: whoever stops it waits for this.
            served.set()

    def _describe(self) -> identity.BrokerRegistration:
        return identity.registration(self.config, self.addresses.registered())

    def _topic_changed(self, topic: str) -> None:
        self.logs.topic_config_changed(topic)
        self.replicas.topic_config_changed(topic)
        if self.settings.topics.get(topic, {}).get("unclean.leader.election.enable", "").strip().lower() == "true":
            self.controller.allow_unclean_elections_of(topic)

    def _quotas_changed(self, requests: Requests) -> None:
        quotas = self.client_quotas or None
        if quotas is not self.quotas:
            self.quotas = quotas
            requests.measure(quotas)
            self.leases.allow(quotas is None)

    # --- what requests ask ---

    def is_stale(self, broker_epoch: int) -> bool:
        """Whether a controller's request was meant for an earlier life of this broker. -1 is from versions that do not
        say.
        """
        return broker_epoch != -1 and broker_epoch < self.registration.epoch

    def accept_controller(self, controller_id: int, controller_epoch: int) -> bool:
        """False for a controller that was replaced since; it may not know yet."""
        if controller_epoch < self._controller_epoch:
            self.log.warning(
                "ignoring controller %d with epoch %d: epoch %d is known",
                controller_id,
                controller_epoch,
                self._controller_epoch,
            )
            return False
        self._controller_epoch = controller_epoch
        return True

    def endpoint(self, other: BrokerMetadata, request: Request) -> tuple[str, int] | None:
        """Where the client that sent `request` reaches a broker: through the listener that it used itself."""
        if other.broker_id == self.id:
            return self.addresses.for_client(request)
        return other.endpoints.get(request.listener)


def _hub(config: BrokerConfig) -> Hub:
    idle_ms = config.get_int("connections.max.idle.ms")
    return Hub(
        supported=SUPPORTED,
        frame_bytes_max=config.get_int("socket.request.max.bytes"),
        queued_bytes_max=config.queued_bytes_max,
        connections_max=config.get_int("max.connections"),
        connections_per_ip_max=config.get_int("max.connections.per.ip"),
        connections_per_ip_overrides=config.connections_per_ip_overrides,
        idle_ms=idle_ms if idle_ms >= 0 else None,
        send_buffer_bytes=_buffer(config.get_int("socket.send.buffer.bytes")),
        receive_buffer_bytes=_buffer(config.get_int("socket.receive.buffer.bytes")),
    )


def _tree_of(config: BrokerConfig, logs: LogManager) -> str:
    """Where the coordination tree is, and the log directories, for the log."""
    tree = f"the coordination tree in ZooKeeper at {config.zookeeper}" if config.zookeeper else "a tree of its own"
    return f"log directories {', '.join(map(str, logs.directories))}, and {tree}"


def _buffer(size_bytes: int) -> int | None:
    """-1 leaves it to the system."""
    return size_bytes if size_bytes > 0 else None
