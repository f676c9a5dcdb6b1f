"""A member of a group that balances itself in ZooKeeper.

Every member watches the same nodes (the group's ids, brokers, topics and their partitions), computes the same
assignment from them, gives up what it lost and claims what it won. An ephemeral node per partition keeps two members
from reading it at once: it is there as long as its owner's session, and is removed only after the owner has stopped
handing messages over and has written its offset.

What differs from Java's, with whom it shares groups:

- **No herd.** Java's rebalances at each change, twenty times for twenty joins. Here changes are gathered: until none
  came for GATHER_QUIET_MS, GATHER_MS at most. The joins of a burst are one rebalance.
- **What stays is not touched.** Java stops all fetching and gives everything up at each rebalance; here only what
  moves.
- **Claims wait for the owner's node**, by a watch on it, not for a whole `rebalance.backoff.ms`; and each partition
  is claimed as soon as it is free, where Java claims all or none.
- **Offsets are read after the claim.** Java reads them before it: an offset that is written between the two, just
  before the owner's node goes, comes too late for it, and it reads on from the one before. So what is lost is halted
  here at once, with its offset, and given up only after the changes are gathered.

Source: kafka/consumer/ZookeeperConsumerConnector.scala.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping

import trio

from ottla.classic.assignment import STRATEGIES
from ottla.classic.config import ConsumerConfig
from ottla.classic.discovery import registered
from ottla.classic.errors import ClassicError, ConsumerRebalanceFailed
from ottla.classic.fetching import StreamFetcher
from ottla.classic.offset_stores import OffsetStore
from ottla.classic.registry import Subscription, ids_path, new_consumer_id, owner_path, thread
from ottla.classic.stream import AnyStream
from ottla.classic.view import Views, holder, watched_children
from ottla.client.cluster import Address, Cluster
from ottla.client.groups import Groups
from ottla.coordination.tree import (
    ConnectionLoss,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    Tree,
    TreeError,
    WatchEvent,
    get_or_none,
    parent_of,
)
from ottla.coordination.zookeeper import ZooKeeperTree
from ottla.errors import KafkaError, ProtocolError, counted
from ottla.kafka import TopicPartition

logger = logging.getLogger(__name__)

GATHER_MS = 500
GATHER_QUIET_MS = 150

Problems = (TreeError, KafkaError, OSError, ProtocolError)


class Member:
    """Runs in the loop's thread. `connect`, then `join` with a nursery, then `leave`."""

    def __init__(self, config: ConsumerConfig, soon: Callable[..., None]) -> None:
        self.config = config
        self.id = new_consumer_id(config.group_id, config.consumer_id)
        self.rebalances = 0
        self.owned: dict[TopicPartition, str] = {}
        self._halted: dict[TopicPartition, int | None] = {}
        """Partitions that are owned and not read any more, since others are to have them, and where each ended. None:
        it was not begun.
        """
        self._unclaimed: list[TopicPartition] = []
        """The partitions that are its own, and have another owner still."""
        self._views = Views(config)
        self._soon = soon
        self._tree: Tree
        self._store: OffsetStore
        self._cluster: Cluster | None = None
        self._brokers: list[Address] = []
        self._subscription = Subscription({})
        self._streams: Mapping[tuple[str, int], AnyStream] = {}
        self._fetchers: dict[AnyStream, StreamFetcher] = {}
        self._changed = trio.Event()
        self._expired = False
        self._commits = trio.Lock()
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._ended.set()

    async def connect(self) -> None:
        """Raises Unavailable: ZooKeeper does not answer in time. ClassicError: no broker is registered there."""
        config = self.config
        self._tree = tree = await ZooKeeperTree.connect(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connect_timeout_ms=config.zookeeper_connection_timeout_ms,
            create_chroot=False,
        )
        try:
            tree.listen(self._session)
            self._brokers = await registered(tree)
            groups = None
            if config.offsets_storage == "kafka":
                self._cluster = self._new_cluster(config.offsets_channel_socket_timeout_ms)
                groups = Groups(self._cluster)
            self._store = OffsetStore(config.group_id, tree, groups, dual=config.dual_commit_enabled)
        except BaseException:
            await tree.aclose()
            raise

    def _new_cluster(self, timeout_ms: int) -> Cluster:
        if not self._brokers:
            raise ClassicError(f"no broker is registered in ZooKeeper at {self.config.zookeeper_connect}")
        names = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._brokers]
        return Cluster(names, client_id=self.config.client_id or self.config.group_id, timeout_ms=timeout_ms)

    async def join(
        self,
        subscription: Subscription,
        streams: Mapping[tuple[str, int], AnyStream],
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Registers, and reads what the group gives it until `leave`. `streams` are by topic and number of the thread;
        a filter's by "" and number. Started once the first assignment is claimed.

        Raises:
            ConsumerRebalanceFailed: owners do not give partitions up, within `rebalance.max.retries` times
                `rebalance.backoff.ms`, or the strategy does not fit the group.
            ClassicError: another member has its id. TreeError, KafkaError, OSError: before it was started.
        """
        self._subscription = subscription
        self._streams = streams
        self._ended = trio.Event()
        problem: Exception | None = None
        started = False
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    try:
                        await self._begin(nursery)
                        started = True
                        task_status.started()
                        nursery.start_soon(self._commit_now_and_then)
                        await self._follow()
                    except Exception as found:  # not to be wrapped into a group
                        problem = found
                        nursery.cancel_scope.cancel()
        finally:
            self._ended.set()
        if problem is None:
            return
        if not started:
            raise problem
        logger.error("group '%s': %s ends", self.config.group_id, self.id, exc_info=problem)
        for stream in self._fetchers:
            stream.fail(problem)

    async def _begin(self, nursery: trio.Nursery) -> None:
        if not self._brokers:
            self._brokers = await registered(self._tree)
        if not self._brokers:
            raise ClassicError(f"no broker is registered in ZooKeeper at {self.config.zookeeper_connect}")
        for stream in set(self._streams.values()):
            self._fetchers[stream] = StreamFetcher(self.config, stream, self._brokers, self._soon)
        await self._register()
        for fetcher in self._fetchers.values():
            nursery.start_soon(fetcher.run)
        retries = 0
        while not await self._balance(await self._settled()):
            if retries == self.config.rebalance_max_retries:
                held = await holder(self._tree, self.config.group_id, self._unclaimed)
                raise ConsumerRebalanceFailed(
                    f"{self.id} cannot own all of its partitions after {retries} retries: {held}"
                )
            with trio.move_on_after(self.config.rebalance_backoff_ms / 1000) as waited:
                await self._changed.wait()
            retries += waited.cancelled_caught

    async def leave(self, *, commit: bool) -> None:
        """Writes offsets if `commit` says so, gives everything up, and ends the session."""
        self._scope.cancel()
        await self._ended.wait()
        try:
            with trio.move_on_after(self.config.zookeeper_session_timeout_ms / 1000):
                await self._release(list(self.owned), commit=commit)
        except Problems as problem:
            logger.warning("group '%s': what was consumed last may come again: %s", self.config.group_id, problem)
        for stream in set(self._streams.values()):
            stream.close()
        await self._tree.aclose()
        if self._cluster is not None:
            await self._cluster.aclose()

    async def commit(self) -> None:
        """Writes the offsets of everything consumed. Raises TreeError, KafkaError, OSError after the last retry."""
        for retry in range(self.config.offsets_commit_max_retries + 1):
            try:
                async with self._commits:
                    await self._store.write(self._consumed())
                return
            except Problems:
                if retry == self.config.offsets_commit_max_retries:
                    raise
                await trio.sleep(self.config.offsets_channel_backoff_ms / 1000)

    def _consumed(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for stream in self._fetchers:
            found |= stream.consumed()
        return found | {place: offset for place, offset in self._halted.items() if offset is not None}

    async def _commit_now_and_then(self) -> None:
        while self.config.auto_commit_enable:
            await trio.sleep(self.config.auto_commit_interval_ms / 1000)
            try:
                async with self._commits:
                    await self._store.write(self._consumed())
            except Problems as problem:
                logger.warning("group '%s' cannot commit: %s", self.config.group_id, problem)

    # Changes

    def _watch(self, event: WatchEvent) -> None:
        self._changed.set()

    def _session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._expired = True
        self._changed.set()

    async def _follow(self) -> None:
        """Balances again after each change, until cancelled."""
        whole = True
        while True:
            if self._expired:
                pass
            elif whole:
                await self._changed.wait()
            else:  # an owner's node is watched; if nothing is heard, try all the same
                with trio.move_on_after(self.config.rebalance_backoff_ms / 1000):
                    await self._changed.wait()
            try:
                if self._expired:
                    await self._begin_anew()
                whole = await self._balance(await self._settled())
            except Problems as problem:
                logger.warning("group '%s' cannot be balanced now: %s", self.config.group_id, problem)
                whole = False
                await self._wait_connected()
            except ConsumerRebalanceFailed as problem:
                logger.error("group '%s': %s", self.config.group_id, problem)
                await self._release(list(self.owned), commit=self.config.auto_commit_enable)

    async def _wait_connected(self) -> None:
        with trio.move_on_after(self.config.rebalance_backoff_ms / 1000):
            await self._tree.wait_connected()
            await trio.sleep(GATHER_QUIET_MS / 1000)

    async def _begin_anew(self) -> None:
        """The session is over, and with it all ownership: others may be reading already. Offsets are theirs too."""
        logger.warning("group '%s': the session with ZooKeeper is over; %s joins anew", self.config.group_id, self.id)
        await self._stop(list(self.owned))
        self._store.forget(list(self.owned))
        self._halted.clear()
        self.owned.clear()
        await self._tree.wait_connected()
        self._expired = False
        await self._register()

    async def _gather(self) -> None:
        """Returns when nothing has changed for GATHER_QUIET_MS, or after GATHER_MS."""
        with trio.move_on_after(GATHER_MS / 1000):
            while True:
                self._changed = trio.Event()
                await watched_children(self._tree, ids_path(self.config.group_id), self._watch)
                with trio.move_on_after(GATHER_QUIET_MS / 1000):
                    await self._changed.wait()
                    continue
                return

    async def _register(self) -> None:
        path = ids_path(self.config.group_id)
        await self._tree.ensure(path)
        mine = f"{path}/{self.id}"
        deadline = trio.current_time() + self.config.zookeeper_session_timeout_ms / 1000
        while True:
            try:
                await self._tree.create(mine, self._subscription.encode(int(time.time() * 1000)), ephemeral=True)
                return
            except ConnectionLoss:
                await self._tree.wait_connected()
            except NodeExists:
                node = await get_or_none(self._tree, mine)
                if node is None:
                    continue
                if node.stat.ephemeral_owner == self._tree.session_id:
                    return
                if trio.current_time() > deadline:
                    raise ClassicError(f"another member of group '{self.config.group_id}' is {self.id}") from None
                # Of a process that ended without a word, perhaps.
                await trio.sleep(GATHER_QUIET_MS / 1000)

    # Balancing

    async def _settled(self) -> dict[TopicPartition, str]:
        """Gives what this member is to own, by thread, once nothing changes any more. What it is to lose is halted, and
        its offset was written before the changes were gathered.
        """
        await self._halt(await self._assigned())
        while True:
            await self._gather()
            self._changed = trio.Event()
            mine = await self._assigned()
            if not await self._halt(mine):
                return mine

    async def _assigned(self) -> dict[TopicPartition, str]:
        view = await self._views.look(self._tree, self._watch)
        assigned = STRATEGIES[self.config.partition_assignment_strategy](view.threads, view.partitions)
        # Names of members may be prefixes of each other.
        names = {thread(self.id, number) for _, number in self._streams}
        return {place: name for place, name in assigned.items() if name in names}

    def _lost(self, mine: Mapping[TopicPartition, str]) -> list[TopicPartition]:
        return [place for place, name in self.owned.items() if mine.get(place) != name]

    async def _halt(self, mine: Mapping[TopicPartition, str]) -> bool:
        """Stops reading what is not this member's any more, and writes its offsets; whether there was any that was read
        until now. Where the program commits, it decides when.
        """
        lost = [place for place in self._lost(mine) if place not in self._halted]
        if not lost or self._expired or not self.config.auto_commit_enable:
            return False
        async with self._commits:
            offsets = await self._stop(lost)
            self._halted |= {place: offsets.get(place) for place in lost}
            await self._store.write(offsets)
        return True

    async def _balance(self, mine: Mapping[TopicPartition, str]) -> bool:
        """Gives up what is lost and claims what is won; whether everything won is owned now."""
        self.rebalances += 1
        if self._expired:
            return False
        await self._release(self._lost(mine), commit=self.config.auto_commit_enable)
        unbegun = [place for place, offset in self._halted.items() if offset is None]
        self._halted |= await self._store.read(unbegun)
        for stream, places in self._by_stream({place: self.owned[place] for place in self._halted}).items():
            await self._fetchers[stream].change(add={place: self._halted.pop(place) for place in places})
        won = {place: name for place, name in mine.items() if place not in self.owned}
        claimed = [place for place, name in won.items() if await self._claim(place, name)]
        await self._start({place: won[place] for place in claimed})
        logger.info("%s owns %s, of %d that are its own", self.id, counted(len(self.owned), "partition"), len(mine))
        self._unclaimed = [place for place in won if place not in self.owned]
        return not self._unclaimed

    async def _claim(self, place: TopicPartition, name: str) -> bool:
        """Makes the owner's node, or watches the one that is there."""
        path = owner_path(self.config.group_id, place)
        while True:
            try:
                await self._tree.create(path, name.encode(), ephemeral=True)
                return True
            except NoNode:
                await self._tree.ensure(parent_of(path))
            except ConnectionLoss:
                await self._tree.wait_connected()
            except NodeExists:
                stat = await self._tree.exists(path, self._watch)
                if stat is None:
                    continue
                if stat.ephemeral_owner != self._tree.session_id:
                    return False
                node = await get_or_none(self._tree, path)
                return node is not None and node.data == name.encode()

    async def _start(self, won: Mapping[TopicPartition, str]) -> None:
        if not won:
            return
        self.owned |= won
        try:
            offsets = await self._store.read(list(won))
        except BaseException:
            # Owned without being read is what nobody would notice.
            for place in won:
                del self.owned[place]
                with trio.CancelScope(shield=True), contextlib.suppress(TreeError):
                    await self._tree.delete(owner_path(self.config.group_id, place))
            raise
        for stream, places in self._by_stream(won).items():
            await self._fetchers[stream].change(add={place: offsets.get(place) for place in places})

    async def _stop(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Nothing of these partitions is handed over after this; gives the next offset of each."""
        offsets: dict[TopicPartition, int] = {}
        for stream, lost in self._by_stream({place: self.owned[place] for place in places}).items():
            await self._fetchers[stream].change(remove=lost)
            offsets |= stream.drop(set(lost))
        return offsets

    async def _release(self, places: Collection[TopicPartition], *, commit: bool) -> None:
        if not places:
            return
        # Under the lock: an older offset must not be written after the next owner has written its own.
        async with self._commits:
            offsets = await self._stop(places)
            for place in self._halted.keys() & set(places):
                if (halted := self._halted.pop(place)) is not None:
                    offsets[place] = halted
            try:
                if commit:
                    await self._store.write(offsets)
            except Problems as problem:
                logger.warning("group '%s': what was consumed last may come again: %s", self.config.group_id, problem)
            self._store.forget(places)
            for place in places:
                await self._give_up(place)
                self.owned.pop(place, None)

    async def _give_up(self, place: TopicPartition) -> None:
        while True:
            try:
                await self._tree.delete(owner_path(self.config.group_id, place))
                return
            except NoNode:
                return
            except ConnectionLoss:
                await self._tree.wait_connected()
            except SessionExpired:
                return

    def _by_stream(self, owned: Mapping[TopicPartition, str]) -> dict[AnyStream, list[TopicPartition]]:
        found: dict[AnyStream, list[TopicPartition]] = {}
        for place, name in owned.items():
            number = int(name.rpartition("-")[2])
            topic = "" if self._subscription.filter is not None else place.topic
            found.setdefault(self._streams[topic, number], []).append(place)
        return found
