"""The composition root: what a broker is made of, and the order in which its parts start and stop.

Start: lock the data directory, open the coordination tree, read the settings, open the logs (recovering them if need
be), listen, register, then let the controller speak. Nobody is answered before the logs are open; the broker is ready
when the controller has told it that it is alive. Stop is the reverse: others lead, no new connections, what was read is
finished, logs are flushed, the clean-shutdown marker is written, the session ends.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from ottla._core import Disconnected
from ottla.broker import (
    addresses,
    connection_limits,
    identity,
    leaving,
    loggers,
    parts,
    reconfiguration,
    untold,
)
from ottla.broker.addresses import Addresses
from ottla.broker.admin import Admin
from ottla.broker.audit.audit import Audit, kept
from ottla.broker.authentication.between import Access
from ottla.broker.authorization.authorizer import standing as authorizer_settings
from ottla.broker.authorization.served_before import ServedBefore
from ottla.broker.failing_directories import FailingDirectories
from ottla.broker.fetch.session import FetchSessions
from ottla.broker.groups import groups
from ottla.broker.internal_topics import offsets_topic
from ottla.broker.metadata_cache import BrokerMetadata, MetadataCache
from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.entities import all_entities
from ottla.broker.requests import SUPPORTED, Requests
from ottla.broker.serving import Serving
from ottla.broker.settings import Settings
from ottla.broker.standing import Standing
from ottla.broker.tree import SharedTree, mark_moved, open_tree, place_of, tell_unknown
from ottla.config import BrokerConfig
from ottla.controller.producer_ids import ProducerIds
from ottla.controller.registration import Registration
from ottla.coordination import znodes
from ottla.coordination.tree import SessionExpired, SessionState, Tree, get_or_none
from ottla.errors import counted
from ottla.kafka import TopicPartition
from ottla.replication.appends import SafeAppends
from ottla.replication.belonging import Belonging
from ottla.replication.cleaner import Cleaner
from ottla.replication.delayed import Deadlines
from ottla.replication.leases import Leases
from ottla.replication.log_manager import LogManager
from ottla.replication.throttles import Throttles
from ottla.replication.turn import Turn

if TYPE_CHECKING:
    from ottla.broker import rooms
    from ottla.broker.session import Session
    from ottla.wire.schema import Api

    def _is_each(
        broker: Broker,
    ) -> tuple[
        rooms.ProduceRooms,
        rooms.FetchRooms,
        rooms.LogRooms,
        rooms.ControlRooms,
        rooms.GroupRooms,
        rooms.TransactionRooms,
        rooms.AdminRooms,
        rooms.ClusterRooms,
        rooms.AuthenticationRooms,
        rooms.AclRooms,
    ]:
        """Handlers are found by their key, out of the type checker's sight: a broker is what they all want."""
        return broker, broker, broker, broker, broker, broker, broker, broker, broker, broker


#: How long a starting broker waits to be told of the partitions that it has.
READY_SECONDS = 30.0
#: How long those who ask a registered broker for the cluster wait for what the controller will say. Less than clients
#: wait for an answer.
SILENCE_SECONDS = 10.0
#: How long a stopping broker waits for the answers to what it has read.
DRAIN_SECONDS = 5.0


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Broker:
    """A running broker. `start` is the way to make one.

    wall_ms: Milliseconds since 1970, for groups and transactions. Logs have the same clock from their disk.
    """

    def __init__(
        self,
        broker_id: int,
        cluster_id: str,
        tree: Tree,
        settings: Settings,
        logs: LogManager,
        belonging: Belonging,
        nursery: trio.Nursery,
        *,
        is_alone: bool,
        audit: Audit | None = None,
        wall_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        self.id = broker_id
        self.wall_ms = wall_ms
        #: No other broker can be in its tree.
        self.is_alone = is_alone
        self.cluster_id = cluster_id
        self.tree = tree
        self.settings = settings
        self.logs = logs
        #: Takes down who was let in and who was not; None if nobody wants to know.
        self.audit = audit
        self.log = logging.getLogger("ottla.broker")
        self._nursery = nursery
        self.server = parts.server(settings.config, self._disconnected)
        is_measured = bool(settings.config.get_str("metrics.listener"))
        if is_measured:
            self.server.hub.measure(logs.directories.traffic)
        self.serving = Serving(self.server, nursery, lambda: self.config, is_measured=is_measured)
        self.serving.audit = audit
        self.authentication = parts.authentication(self, self.server.hub, self.serving.users)
        self.access = Access(settings.config)
        self.addresses = Addresses(settings.config, self.server, self.authentication, self.access)
        self.deadlines = Deadlines()
        self.failing_directories = FailingDirectories(tree, broker_id, logs)
        self.metadata = MetadataCache()
        self.peers = parts.peers(self)
        self.surroundings = parts.surroundings(self)
        self.unclean_start = parts.unclean_start(self)
        self.isr_changes = parts.isr_changes(self)
        self.throttles = Throttles(broker_id, settings.config)
        self.following = parts.following(self)
        self.replicas = parts.replicas(self, belonging)
        #: The most bytes that one Fetch gets.
        self.fetch_bytes_max = settings.config.get_int("fetch.max.bytes")
        #: Consumers are sent to a follower in their rack.
        self.chooses_replicas = settings.config.get_str("replica.selector.class") is not None
        self.leases = Leases(self.server.hub, self.fetch_bytes_max, serves_racks=not self.chooses_replicas)
        self.served_before = ServedBefore(self.replicas, self.leases)
        self.authorizer = self.serving.authorizer = parts.authorizer(self, self.served_before.rules_changed)
        self.turn = Turn(self.replicas, self.leases, self.deadlines)
        self.safe_appends = SafeAppends(self.replicas, self.server, self.deadlines)
        self.cleaner = Cleaner(logs, self.server, lambda: self.config)
        self.producer_ids = ProducerIds(tree, broker_id)
        self.admin = Admin(tree, broker_id, settings, self.metadata, self.addresses)
        self.registration = Registration(tree, broker_id, self._describe, cluster_id=cluster_id)
        self.standing = Standing(tree, self.registration, self.config.get_int("zookeeper.session.timeout.ms") / 1000)
        self.transactions = parts.transactions(self)
        self.groups = groups(offsets_topic(self), self.deadlines, settings.config, wall_ms)
        self.advertised: Mapping[int, Api[Any, Any]] = SUPPORTED
        self.controller = parts.controller(self)
        self.client_quotas = ClientQuotas(settings.config)
        self.fetch_sessions = FetchSessions(settings.config.get_int("max.incremental.fetch.session.cache.slots"))
        #: The newest epoch of a controller that is known to have been elected.
        self.controller_epoch = 0
        #: The stop of this broker waits inside it until other brokers lead; cancelling it ends that wait.
        self.handing_over = trio.CancelScope()
        self._dies = False

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
        cls,
        config: BrokerConfig,
        waits: trio.CancelScope | None = None,
        at: Callable[[str], None] = lambda _: None,
        *,
        hears: trio.CancelScope | None = None,
        adopt: bool = False,
        shared: SharedTree | None = None,
        wall_ms: Callable[[], int] = _wall_ms,
    ) -> AsyncIterator[Broker]:
        """A broker that serves inside the `async with` block and is stopped cleanly at its end. `at` is told what the
        start has come to. `waits` may be cancelled to end the wait for ZooKeeper, and `hears` to end that for the
        controller. `adopt` makes topics from logs whose tree is lost (see `ottla.broker.tree`). `shared` is the tree of
        brokers in one process, and `wall_ms` a wall clock that may jump.
        """
        place = place_of(config, shared)
        if place is None:
            addresses.check_new(config)
        at("opening the log directories and the coordination tree")
        async with (
            kept(config) as audit,
            LogManager.open(config, is_alone=place is None) as logs,
            open_tree(config, logs, waits or trio.CancelScope(), adopt=adopt, shared=shared) as tree,
        ):
            known = logs.directories.identity()
            cluster_id = await identity.cluster_id(tree, known.get("cluster.id"))
            broker_id = await identity.broker_id(tree, config, known.get("broker.id"))
            has_new_directory = logs.has_new_directory()
            logs.directories.claim(broker_id, cluster_id)
            if place is not None:
                mark_moved(place, logs.directories)
                await tell_unknown(tree, logs.directories)
            settings = Settings(tree, config, broker_id)
            await settings.load()
            addresses.check(settings.config)
            authorizer_settings(settings.config)
            at("opening logs, recovering them if need be")
            await logs.load(settings)
            belonging = Belonging(broker_id, tree, logs)
            await belonging.look()
            if has_new_directory:
                # They may have been on the disk that was there before.
                held = await identity.assigned(tree, broker_id)
                logs.without_log.update(held - logs.logs.keys() - logs.failures.keys())
            await trio.to_thread.run_sync(logs.note_suspects, logs.suspects | logs.without_log)
            at("registering, and waiting for the controller")
            async with trio.open_nursery() as nursery:
                parts_given = (tree, settings, logs, belonging, nursery)
                alone = place is None
                broker = cls(broker_id, cluster_id, *parts_given, is_alone=alone, audit=audit, wall_ms=wall_ms)
                broker.log.info(
                    "broker %d of cluster %s, with %s", broker_id, cluster_id, _tree_of(config, place, logs)
                )
                async with broker._serving(hears or trio.CancelScope()):
                    yield broker

    @asynccontextmanager
    async def _serving(self, hears: trio.CancelScope) -> AsyncIterator[None]:
        nursery = self._nursery

        async def client_changed(kind: str, name: str) -> None:
            await self.client_quotas.changed(self.tree, kind, name)
            await self.authentication.credentials.changed(self.tree, kind, name)
            self._quotas_changed()

        async def read_clients(*, is_start: bool = False) -> None:
            found = await all_entities(self.tree)
            (self.client_quotas.load if is_start else self.client_quotas.load_again)(found)
            self.authentication.credentials.take(found)
            self._quotas_changed()

        # Nobody is let in before it is known who there is.
        await read_clients(is_start=True)
        await self._know_rules()
        self.addresses.listen()
        self.log.info("listening on %s", ", ".join(map(str, self.addresses.listening)))
        connection_limits.apply(self.config, self.server.hub)
        served = trio.Event()
        self.requests = Requests(self.serving, self, self.turn)
        nursery.start_soon(self._serve, self.requests, served)
        self._begin(nursery)
        reconfiguration.subscribe(self, nursery)
        await nursery.start(self.settings.watch, self._topic_changed, client_changed, read_clients)
        await nursery.start(self.groups.run)
        await self.unclean_start.look_at_tree()
        await self.registration.register()
        nursery.start_soon(self._be_sure_again)
        nursery.start_soon(self.transactions.run)
        nursery.start_soon(self.controller.run)
        nursery.start_soon(self.registration.watch, self.replicas.resign)
        if parts.session_s(self.config, is_alone=self.is_alone) is not None:
            nursery.start_soon(self.controller.watch_neighbours)
        nursery.start_soon(self._answer_anyway)
        nursery.start_soon(untold.say_so, self)
        with hears:
            await self._until_ready()
        nursery.start_soon(self.failing_directories.run)
        try:
            yield
            # Only where nothing failed: then nobody is told first.
            with self.handing_over:
                await leaving.hand_over(self)
            if self.handing_over.cancelled_caught:
                self.log.warning("nobody else was waited for any longer")
        finally:
            # Before it closes anything: neighbours take that for its end, and they are right.
            self.registration.stop()
            self.groups.stop()
            self.metadata.stop()
            # Those who wait in the hub are answered; and it holds what it leases, out of the collector's sight.
            self.leases.allow(False)
            for partition in self.replicas.partitions.values():
                partition.release_fetches()
            with trio.CancelScope(shield=True):
                self.server.stop(0 if self._dies else DRAIN_SECONDS)
                await served.wait()
            nursery.cancel_scope.cancel()

    def _begin(self, nursery: trio.Nursery) -> None:
        """Starts the parts that need nothing of each other."""
        nursery.start_soon(self.deadlines.run)
        if self.audit is not None:
            nursery.start_soon(self.audit.run)
        nursery.start_soon(self.authentication.run)
        nursery.start_soon(self.logs.run)
        nursery.start_soon(self.replicas.moves.run)
        nursery.start_soon(self.standing.run)
        nursery.start_soon(self.cleaner.run)
        nursery.start_soon(self.replicas.watch_log_starts)
        nursery.start_soon(self.replicas.watch_followers, self._lag_max_ms)
        nursery.start_soon(self.replicas.watch_near, self._lag_max_ms, self.surroundings.is_alive)
        nursery.start_soon(self.peers.run)
        nursery.start_soon(self.isr_changes.run)
        nursery.start_soon(self.following.run)

    def die(self) -> None:
        """Ends as a process that is killed does: nothing is answered, handed over, flushed or marked as clean."""
        self._dies = True
        self.logs.leave_unclean()
        self._nursery.cancel_scope.cancel()

    async def _until_ready(self) -> None:
        """Ready is who serves everything it has: clients that come right after a restart find their partitions led."""
        cache = self.metadata
        await cache.wait_until(lambda: self.id in cache.brokers)
        expected = await identity.assigned(self.tree, self.id) - self.logs.failures.keys()

        def late() -> list[TopicPartition]:
            # Kafka's controller stops a replica that was refused, which may be for long.
            hosted, refused, told = self.replicas.partitions, self.unclean_start.suspects, cache.topics
            return [
                one
                for one in expected
                if (one not in hosted and one not in refused) or one.partition not in told.get(one.topic, ())
            ]

        with trio.move_on_after(READY_SECONDS):
            await cache.wait_until(lambda: not late())
        if missing := late():
            self.log.warning(
                "serving without %d of %s, among them %s",
                len(missing),
                counted(len(expected), "partition"),
                min(missing),
            )
        cache.become_known()

    async def _answer_anyway(self) -> None:
        """A controller may have no way to this broker: then clients and `ottla doctor` are told what there is."""
        await trio.sleep(SILENCE_SECONDS)
        self.metadata.become_known()

    async def _serve(self, requests: Requests, served: trio.Event) -> None:
        try:
            with loggers.watched_by(requests.arrange):
                await self.server.run(requests.handle, self.turn.end)
        finally:
            # Also when the broker ends because something failed: whoever stops it waits for this.
            served.set()

    def _disconnected(self, event: Disconnected) -> None:
        self.replicas.disconnected(event.connection_id)
        if self.audit is not None:
            self.audit.disconnected(event, awaited=self.authentication.awaits(event.connection_id, event.listener))
        self.authentication.disconnected(event.connection_id)

    def _lag_max_ms(self) -> int:
        return self.config.get_int("replica.lag.time.max.ms")

    async def _be_sure_again(self) -> None:
        """Sees to replicas that may have lost records, and tells the cluster when there are none any more."""
        was_unclean = bool(self.unclean_start)
        await self.unclean_start.run()
        if was_unclean:
            await reconfiguration.register_again(self)

    def _describe(self) -> identity.BrokerRegistration:
        return identity.registration(self.config, self.addresses.registered(), is_unclean=bool(self.unclean_start))

    def _topic_changed(self, topic: str) -> None:
        self.logs.topic_config_changed(topic)
        self.replicas.topic_config_changed(topic)
        if self.settings.topics.get(topic, {}).get("unclean.leader.election.enable", "").strip().lower() == "true":
            self.controller.allow_unclean_elections_of(topic)

    def _quotas_changed(self) -> None:
        quotas = self.client_quotas or None
        if quotas is not self.serving.quotas:
            self.serving.quotas = quotas
            self.leases.allow(quotas is None)

    async def _know_rules(self) -> None:
        """Nobody is served before it is known who may do what."""
        if self.authorizer is not None:
            self.leases.ask_for_rights()
            self.server.hub.know_brokers_by_rights()
            self._nursery.start_soon(self.served_before.run)
            await self.authorizer.store.load()
            await self._nursery.start(self.authorizer.store.watch)

    # --- what requests ask ---

    def is_stale(self, broker_epoch: int) -> bool:
        """True if a controller's request was meant for an earlier life of this broker. -1 is from versions that do not
        say.
        """
        return broker_epoch != -1 and broker_epoch < self.registration.epoch

    async def look_for_controller(self, controller_epoch: int) -> None:
        """Learns the newest controller epoch from the tree, if a request names one that is not known yet.

        Waits until this broker is registered: before, a controller speaks to the former life of this broker, whose
        registration is there still, and must not take this one's answers for those of a broker that lives.

        Where the tree does not answer, the epoch is believed, as Kafka's brokers do: a controller sends nothing again
        that was answered with an error, and this broker may be the only one that cannot reach the tree.
        """
        await self.registration.made()
        if controller_epoch <= self.controller_epoch:
            return
        newest = await self._controller_epoch_in_tree()
        if newest is None:
            self.log.warning("the tree does not answer: controller epoch %d is believed without it", controller_epoch)
            newest = controller_epoch
        # Another one may have been heard of meanwhile.
        self.controller_epoch = max(self.controller_epoch, newest)

    async def _controller_epoch_in_tree(self) -> int | None:
        """None if the tree does not say it while the controller waits for an answer."""
        if self.tree.state is SessionState.EXPIRED:
            return None
        # In milliseconds.
        patience = self.config.get_int("controller.socket.timeout.ms") / 4
        with trio.move_on_after(patience / 1000), contextlib.suppress(SessionExpired):
            await self.tree.sync()
            node = await get_or_none(self.tree, znodes.CONTROLLER_EPOCH)
            return 0 if node is None else znodes.decode_epoch(node.data)
        return None

    def accept_controller(self, controller_id: int, controller_epoch: int) -> bool:
        """False for a controller that was replaced since, and may not know yet, and for one that was never elected: the
        tree does not have its epoch.
        """
        if controller_epoch == self.controller_epoch:
            return True
        self.log.warning(
            "ignoring controller %d with epoch %d: epoch %d is the newest",
            controller_id,
            controller_epoch,
            self.controller_epoch,
        )
        return False

    def endpoint(self, other: BrokerMetadata, session: Session) -> tuple[str, int] | None:
        """Where the client of a session reaches a broker: through the listener that it came to itself."""
        if other.broker_id == self.id:
            return self.addresses.for_client(session)
        return other.endpoints.get(session.listener)

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        """Where a broker stands that is alive and has the listener; None if that is not known."""
        other = self.metadata.brokers.get(broker_id)
        return None if other is None or listener not in other.endpoints else other.rack


def _tree_of(config: BrokerConfig, place: str | None, logs: LogManager) -> str:
    """Where the coordination tree is, and the log directories, for the log."""
    server = "ZooKeeper at " if place == config.zookeeper else ""
    tree = "a tree of its own" if place is None else f"the coordination tree in {server}{place}"
    return f"log directories {', '.join(map(str, logs.directories))}, and {tree}"
