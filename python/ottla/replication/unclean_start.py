"""Unclean recovery (KIP-966's word): replicas in the ISR that may have lost records after an unclean shutdown: the ends
of their logs with the power of their machine, or the whole of them with a disk.

The ISR means: each of these has all that is committed. After a power loss that is not true any more of a replica whose
disk did not have everything. Mostly it left the ISR meanwhile, because others lead on, and comes back when it has
fetched what it lacks. What is left are those that nobody took out: all in sync lost their power together, or it was the
last one, or its machine was back before anybody noticed. If such a replica led, others would cut off what it lost.

So a replica that is *suspected* refuses each state that has it in the ISR, with KAFKA_STORAGE_ERROR. Any controller
takes the replica for one on a broken disk: it elects another, or takes this one out of the ISR. One that is not in the
ISR is suspected no longer, for it comes back only through a leader that has seen it fetch everything.

Where nobody leads, refused replicas ask each other where their logs end. Of two logs the one with the higher
(leader epoch of its last record, end offset) has all that the other has and that may be committed: one leader wrote
each epoch. So the replica with the highest offers itself: the controller is told to ask again (a log directory event,
as after a repair), and is not refused. It waits until all others in sync have answered, and for the setting's time
where some do not, since those may have more. Our controller elects it when it takes its role. Kafka's only notes that
the replica works, and elects at the next start of a broker; so the broker registers anew if nothing follows.

The last one in sync has nobody to compare itself with: what the others lack was committed. It waits for an operator, or
for `unclean.leader.election.enable`. An operator's election by our controller is marked in the partition's node.

A replica in the ISR *without a log* is suspected likewise, if it had one: a directory is new, a checkpoint or
`.ottla_boot` names the partition, or its log was put aside (`belonging.py`). Without such a trace, and where a
controller says that the replica is new, it is: a topic that was made just before a kill has no log yet. One without a
log compares itself too, and is as short as a log can be; but it waits for every answer, however long that takes, since
a silent replica may have all. As the last one in sync it asks the replicas that were not in sync as well: with
`unclean.leader.election.enable` it leads if none of them has a record, and has the one elected that has most if some
have (our controller waits for those that may have lost records). Where there is no other replica, nobody can
have more: it leads, and says what it lacks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Final, NamedTuple, Protocol

import msgspec
import trio

from ottla.coordination import znodes
from ottla.coordination.tree import Tree, TreeError, is_path
from ottla.coordination.znodes import MalformedNode, TopicAssignment
from ottla.errors import KafkaError, ProtocolError, counted
from ottla.kafka import NO_EPOCH, NO_LEADER, PartitionKey
from ottla.logging_setup import of_partition
from ottla.net.guard import failed
from ottla.replication.questions import ANY_EPOCH, EpochEnd
from ottla.replication.roles import PartitionState
from ottla.slices import Slices

logger = logging.getLogger(__name__)

#: How often it is looked whether a refused replica can go on.
LOOK_S: Final = 1.0
#: For how long an offer holds. By then a controller has asked, or there is none.
OFFER_S: Final = 10.0
#: How long refused replicas wait before they have the controller ask again because another leads.
ASK_AGAIN_S: Final = 5.0
#: How long after an offer was heard the broker registers anew, if nobody leads by then.
NOT_ELECTED_S: Final = 3.0
#: How long a look into the tree may hold up a request of the controller.
TREE_S: Final = 3.0
#: Where a log ends that is not there.
NOTHING: Final = EpochEnd(NO_EPOCH, 0)


class Suspect(msgspec.Struct, gc=False):
    """A replica that may have lost the end of its log, or has lost it."""

    is_without_log: bool = False
    #: All brokers with a replica, itself included.
    replicas: frozenset[int] = frozenset()
    #: The brokers that were in sync with it, itself included.
    in_sync: frozenset[int] = frozenset()
    is_refused: bool = False
    #: Since when nobody leads; None while somebody does, or it is not known.
    leaderless_since_s: float | None = None
    #: Until when it may lead.
    offered_until_s: float = float("-inf")
    #: Since when the controller knows that it may; None while it does not.
    is_known_since_s: float | None = None
    #: Its operator was told that it waits.
    is_told: bool = False


class Known(NamedTuple):
    """Who leads a partition and who is in sync, as this broker's metadata have it."""

    leader: int
    isr: tuple[int, ...]


class Cluster(Protocol):
    """What there is to know beyond the replica itself."""

    def known(self, key: PartitionKey) -> Known | None:
        """Of a partition; None while the controller has said nothing."""

    def is_alive(self, broker: int) -> bool:
        """Whether a broker is known to live."""

    def may_be_unclean(self, topic: str) -> bool:
        """Whether `unclean.leader.election.enable` holds for a topic."""

    def is_offline(self, key: PartitionKey) -> bool:
        """True if this broker's log of a partition cannot be used."""

    def end_of(self, key: PartitionKey, epoch: int = ANY_EPOCH) -> EpochEnd | None:
        """Where a leader epoch, or all of them, ends in this broker's log of a partition; None if the log is not here.
        Raises KafkaError.
        """

    async def ends_at(
        self, broker: int, keys: Collection[PartitionKey]
    ) -> Mapping[PartitionKey, EpochEnd | KafkaError]:
        """Where another broker's logs end. Raises OSError, ProtocolError."""

    def ask_again(self) -> None:
        """Has the controller tell this broker all its roles once more."""

    async def register_anew(self) -> None:
        """Leaves the cluster and comes back."""

    async def elect_most(self, keys: Collection[PartitionKey]) -> None:
        """Has the controller elect, of each partition, the replica that has most, though it is not in sync. Raises
        OSError, ProtocolError.
        """


def may_offer(
    broker: int, end: EpochEnd, others: Mapping[int, EpochEnd | None], waited_s: float, wait_s: float
) -> bool:
    """Whether the replica on `broker` is the one to lead: no other has more, or as much and a lower number; None is one
    that did not answer, which is waited for.
    """
    if any(other is not None and (other, -number) > (end, -broker) for number, other in others.items()):
        return False
    return None not in others.values() or waited_s >= wait_s


class UncleanStart:
    """The suspected replicas of one broker: `keys` have logs that may lack their ends, `without_log` had one. `wait_s`
    is for how long nobody may lead before one with a log is offered though others in sync have not answered; 0 suspects
    nobody.

    `note` is called, on a thread, with those that are left when some are suspected no longer.
    """

    def __init__(
        self,
        broker_id: int,
        keys: Iterable[PartitionKey],
        cluster: Cluster,
        tree: Tree,
        *,
        wait_s: float,
        without_log: Iterable[PartitionKey] = (),
        note: Callable[[Collection[PartitionKey]], None] = lambda keys: None,
    ) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._tree = tree
        self._wait_s = wait_s
        self._note = note
        self._is_noted = True
        self._asked_again_s = self._elected_s = float("-inf")
        self.suspects: dict[PartitionKey, Suspect] = {}
        if wait_s > 0:
            self.suspects = {key: Suspect() for key in keys}
            self.suspects |= {key: Suspect(is_without_log=True) for key in without_log}

    def __bool__(self) -> bool:
        return bool(self.suspects)

    def forget(self, key: PartitionKey) -> None:
        """The replica is suspected no longer."""
        if self.suspects.pop(key, None) is not None:
            self._is_noted = False

    def has_no_log(self, key: PartitionKey) -> None:
        """The replica has no log any more."""
        if self._wait_s > 0:
            self.suspects[key] = Suspect(is_without_log=True)
            self._is_noted = False

    def is_without_log(self, key: PartitionKey) -> bool:
        """Whether the replica is suspected because it has no log."""
        suspect = self.suspects.get(key)
        return suspect is not None and suspect.is_without_log

    def end_of(self, key: PartitionKey, epoch: int = ANY_EPOCH) -> EpochEnd | None:
        """Where a leader epoch, or all of them, ends in this broker's log of a partition, whether it leads or not; None
        if the log cannot be used, or is not here and has not been. Raises KafkaError.

        Also of a replica that was stopped: Kafka's controller does that to those that were refused.
        """
        if self._cluster.is_offline(key):
            return None
        end = self._cluster.end_of(key, epoch)
        return NOTHING if end is None and self.is_without_log(key) else end

    # --- at the start ---

    async def look_at_tree(self) -> None:
        """Suspects only those that the tree has in the ISR beside other replicas. Called before the broker registers,
        so that no controller has changed an ISR for its return. Raises TreeError.
        """
        # A folder may have a name that no topic can have.
        for key in [key for key in self.suspects if not is_path(znodes.topic_path(key[0]))]:
            self.forget(key)
        topics = sorted({topic for topic, _ in self.suspects})
        paths = [znodes.topic_path(topic) for topic in topics]
        replicas: dict[PartitionKey, tuple[int, ...]] = {}
        unknown: set[str] = set()
        for topic, path, node in zip(topics, paths, await self._tree.get_many(paths), strict=True):
            try:
                held = {} if node is None else TopicAssignment.decode(path, node.data).partitions
            except MalformedNode:
                # Nobody knows who holds them; no controller does anything with them either.
                unknown.add(topic)
                continue
            replicas |= {(topic, index): brokers for index, brokers in held.items()}
        alone: list[PartitionKey] = []
        for key in tuple(self.suspects):
            if key[0] not in unknown and self._is_alone_or_out(replicas.get(key, ())):
                if self.is_without_log(key) and self._broker_id in replicas.get(key, ()):
                    alone.append(key)
                self.forget(key)
        # One that was never led has lost nothing.
        empty = [key for key, state in (await self._states(alone)).items() if state is not None]
        if empty:
            logger.error(
                "%s had a log here that is gone, among them %s-%d: a disk or a folder is missing. No other broker has "
                "a replica, so they begin without a record. If the folders can be found, stop this broker and put them "
                "back",
                counted(len(empty), "partition"),
                *min(empty),
            )
        keys = list(self.suspects)
        slices = Slices(own=True)
        for key, state in (await self._states(keys)).items():
            await slices.row()
            if state is None or self._broker_id not in state.isr:
                self.forget(key)
            else:
                self.suspects[key].in_sync = frozenset(state.isr)
        cut = [key for key, suspect in self.suspects.items() if not suspect.is_without_log]
        gone = [key for key, suspect in self.suspects.items() if suspect.is_without_log]
        if cut:
            logger.warning(
                "the machine started anew since this broker ran, which was not stopped: %s in the ISR "
                "may have lost records, and may not lead before it is known that nobody in sync has more, among them "
                "%s-%d",
                counted(len(cut), "replica"),
                *min(cut),
            )
        if gone:
            logger.error(
                "%s in the ISR had a log here that is gone, among them %s-%d: a disk or a folder is missing. They may "
                "not lead before it is known that no other replica has a record",
                counted(len(gone), "replica"),
                *min(gone),
            )

    def _is_alone_or_out(self, replicas: Collection[int]) -> bool:
        return self._broker_id not in replicas or len(replicas) == 1

    async def _states(self, keys: list[PartitionKey]) -> dict[PartitionKey, znodes.PartitionState | None]:
        """Of those whose nodes can be understood; None for one that was never led."""
        paths = [znodes.state_path(*key) for key in keys]
        states: dict[PartitionKey, znodes.PartitionState | None] = {}
        for key, path, node in zip(keys, paths, await self._tree.get_many(paths), strict=True):
            try:
                states[key] = None if node is None else znodes.PartitionState.decode(path, node.data)
            except MalformedNode:
                continue
        return states

    # --- what a controller tells ---

    async def refuse(
        self, states: Mapping[PartitionKey, PartitionState], new: Collection[PartitionKey] = ()
    ) -> set[PartitionKey]:
        """Which of these states must not be taken, because a replica that is suspected is in sync in them. `new` are
        those that never had a log.
        """
        for key in new:
            if self.is_without_log(key):
                self.forget(key)
        if not self.suspects:
            return set()
        now_s = trio.current_time()
        refused = {key for key, state in states.items() if self.refuses(key, state, now_s)}
        named = [key for key in refused if states[key].leader == self._broker_id]
        for key in await self._wanted_by_operators({key: states[key] for key in named}):
            logger.warning("%s-%d: an operator has it led by this broker", *key, extra=of_partition(*key))
            self._leads(key)
            refused.remove(key)
        for key in refused:
            self.suspects[key].is_refused = True
        return refused

    def refuses(self, key: PartitionKey, state: PartitionState, now_s: float) -> bool:
        """Whether the state must not be taken, as far as can be said without the tree."""
        suspect = self.suspects.get(key)
        if suspect is None:
            return False
        if self._broker_id not in state.isr or self._is_alone_or_out(state.replicas):
            self.forget(key)
            return False
        suspect.in_sync |= set(state.isr)
        suspect.replicas = frozenset(state.replicas)
        is_last = state.isr == (self._broker_id,) and not suspect.is_without_log
        is_free = suspect.offered_until_s > now_s or (is_last and self._cluster.may_be_unclean(key[0]))
        if is_free and state.leader == self._broker_id:
            self._leads(key)
            return False
        if is_free and state.leader == NO_LEADER:
            suspect.is_known_since_s = now_s
            return False
        suspect.is_known_since_s = None
        return True

    def _leads(self, key: PartitionKey) -> None:
        end = self.end_of(key)
        if self.is_without_log(key):
            logger.warning(
                "%s-%d: this broker leads without a record, though it had a log that is gone: what was committed and "
                "is on no other replica is lost",
                *key,
                extra=of_partition(*key),
            )
            self.forget(key)
            return
        logger.warning(
            "%s-%d: this broker leads after its machine lost its power, up to offset %d: what was committed and had "
            "reached no disk is lost",
            *key,
            -1 if end is None else end.offset,
            extra=of_partition(*key),
        )
        self.forget(key)

    async def _wanted_by_operators(self, states: Mapping[PartitionKey, PartitionState]) -> list[PartitionKey]:
        """Those of the states that our controller wrote because somebody ordered it, by the tree."""
        if not states:
            return []
        found: dict[PartitionKey, znodes.PartitionState | None] = {}
        with trio.move_on_after(TREE_S):
            try:
                found = await self._states(list(states))
            except TreeError as error:
                logger.warning("what operators ordered cannot be read: %s", error)
        return [
            key
            for key, node in found.items()
            if node is not None
            and (node.leader, node.leader_epoch) == (self._broker_id, states[key].leader_epoch)
            and node.extra.get(znodes.ORDERED)
        ]

    # --- going on ---

    async def run(self) -> None:
        """Looks what becomes of suspected replicas, until there are none."""
        while self.suspects or not self._is_noted:
            await trio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception as error:
                failed("the look at replicas that may have lost records", error)
            if not self._is_noted:
                self._is_noted = True
                await trio.to_thread.run_sync(self._note, tuple(self.suspects))

    async def look(self) -> None:
        """Offers the replicas that are to lead."""
        now_s = trio.current_time()
        contested: dict[PartitionKey, frozenset[int]] = {}
        last_without: dict[PartitionKey, frozenset[int]] = {}
        is_again = is_offered = is_overlooked = False
        slices = Slices(own=True)
        for key, suspect in tuple(self.suspects.items()):
            await slices.row()
            known = self._cluster.known(key) if suspect.is_refused else None
            if known is None:
                continue
            if known.leader != self._broker_id and self._cluster.is_alive(known.leader):
                # It led while this replica was in sync, and has taken it out: now it can be followed.
                suspect.leaderless_since_s = None
                is_again = is_again or self._broker_id not in known.isr
                continue
            if suspect.leaderless_since_s is None:
                suspect.leaderless_since_s = now_s
            if suspect.offered_until_s > now_s:
                if suspect.is_known_since_s is not None and now_s - suspect.is_known_since_s >= NOT_ELECTED_S:
                    self._offer(suspect, now_s)
                    is_overlooked = True
                continue
            others = suspect.in_sync - {self._broker_id}
            if others:
                contested[key] = others
            elif suspect.is_without_log:
                asked = contested if self._cluster.may_be_unclean(key[0]) else last_without
                if asked is contested or not suspect.is_told:
                    asked[key] = suspect.replicas - {self._broker_id}
            elif self._cluster.may_be_unclean(key[0]):
                self._offer(suspect, now_s)
                is_offered = True
            elif not suspect.is_told:
                suspect.is_told = True
                self._tell_operator(key)
        ends = await self._ends(contested | last_without)
        for key, others in last_without.items():
            after = self.suspects.get(key)
            if after is not None and not after.is_told:
                after.is_told = True
                self._tell_what_is_left(key, {other: ends.get((other, key)) for other in others})
        may_lead, elect = await self._compare(contested, ends, now_s)
        is_offered = is_offered or may_lead
        if elect and now_s - self._elected_s >= ASK_AGAIN_S:
            self._elected_s = now_s
            try:
                await self._cluster.elect_most(elect)
            except (OSError, ProtocolError) as error:
                logger.info("the controller does not elect who has most: %s", error)
        if is_overlooked:
            logger.warning("this broker registers anew: the controller has replicas that can lead, and does not elect")
            await self._cluster.register_anew()
        elif is_offered or (is_again and now_s - self._asked_again_s >= ASK_AGAIN_S):
            self._asked_again_s = now_s
            self._cluster.ask_again()

    async def _compare(
        self,
        contested: Mapping[PartitionKey, frozenset[int]],
        ends: Mapping[tuple[int, PartitionKey], EpochEnd],
        now_s: float,
    ) -> tuple[bool, list[PartitionKey]]:
        """Offers the replicas that have no less than others, as far as their `ends` are known. Returns whether there
        are any, and those of which another replica is to be elected that has more.
        """
        elect: list[PartitionKey] = []
        is_offered = False
        slices = Slices(own=True)
        for key, others in contested.items():
            await slices.row()
            after = self.suspects.get(key)
            end = self.end_of(key)
            if after is None or after.leaderless_since_s is None or end is None:
                continue
            waited_s = now_s - after.leaderless_since_s
            wait_s = inf if after.is_without_log else self._wait_s
            theirs = {other: ends.get((other, key)) for other in others}
            if may_offer(self._broker_id, end, theirs, waited_s, wait_s):
                self._offer(after, now_s)
                is_offered = True
            elif after.in_sync == {self._broker_id} and any(map(_has_records, theirs.values())):
                elect.append(key)
            elif waited_s >= 2 * self._wait_s and not after.is_told:
                # Most likely the controller has taken it out of the ISR, as Kafka's does.
                after.is_told = True
                if after.is_without_log:
                    self._tell_what_is_left(key, theirs)
                    continue
                logger.error(
                    "%s-%d has no leader: this broker's machine lost its power, and another broker that was in sync "
                    "has more; it is among %s. An unclean election of it loses least",
                    *key,
                    sorted(others),
                    extra=of_partition(*key),
                )
        return is_offered, elect

    def _offer(self, suspect: Suspect, now_s: float) -> None:
        suspect.offered_until_s = now_s + OFFER_S
        suspect.is_known_since_s = None

    def _tell_operator(self, key: PartitionKey) -> None:
        end = self.end_of(key)
        logger.error(
            "%s-%d has no leader: this broker was the last in sync, and its machine lost its power. Its log ends at "
            "offset %d; what it had beyond is lost if no other replica has it, and what other replicas lack of it is "
            "lost if they lead. `ottla topic elect %s --partition %d --unclean` or unclean.leader.election.enable=true "
            "of the topic elects who has most",
            *key,
            -1 if end is None else end.offset,
            *key,
            extra=of_partition(*key),
        )

    def _tell_what_is_left(self, key: PartitionKey, others: Mapping[int, EpochEnd | None]) -> None:
        known = [f"broker {other} {_told(end)}" for other, end in sorted(others.items())]
        logger.error(
            "%s-%d has no leader: this broker was in sync, and the log that it had is gone; %s. If the folder can be "
            "found, stop this broker and put it back. What no other replica has is lost otherwise: `ottla topic elect "
            "%s --partition %d --unclean` elects who has most of those that live",
            *key,
            ", ".join(known),
            *key,
            extra=of_partition(*key),
        )

    async def _ends(self, contested: Mapping[PartitionKey, frozenset[int]]) -> dict[tuple[int, PartitionKey], EpochEnd]:
        """Where the logs of others end, by broker and partition, of those that answer."""
        asked: dict[int, list[PartitionKey]] = {}
        for key, others in contested.items():
            for other in others:
                if self._cluster.is_alive(other):
                    asked.setdefault(other, []).append(key)
        found: dict[tuple[int, PartitionKey], EpochEnd] = {}

        async def ask(broker: int, keys: list[PartitionKey]) -> None:
            try:
                answers = await self._cluster.ends_at(broker, keys)
            except (OSError, ProtocolError) as error:
                logger.info("broker %d does not say where its logs end: %s", broker, error)
                return
            found.update({(broker, key): end for key, end in answers.items() if isinstance(end, EpochEnd)})

        async with trio.open_nursery() as nursery:
            for broker, keys in asked.items():
                nursery.start_soon(ask, broker, keys)
        # Kafka's brokers, and leaders, do not know the question: this is no answer.
        return {place: end for place, end in found.items() if end.offset >= 0}


def _has_records(end: EpochEnd | None) -> bool:
    return end is not None and end > NOTHING


def _told(end: EpochEnd | None) -> str:
    if end is None:
        return "does not answer"
    return "has no record" if end == NOTHING else f"has records up to offset {end.offset}"


def end_of(epochs: Iterable[tuple[int, int]], end_offset: int) -> EpochEnd:
    """The leader epoch of a log's last record, and the log's end. An epoch without a record says nothing about what the
    log has.
    """
    return EpochEnd(max((epoch for epoch, start in epochs if start < end_offset), default=NO_EPOCH), end_offset)
