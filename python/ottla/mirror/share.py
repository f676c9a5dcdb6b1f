"""A MirrorSourceTask: the partitions of a flow that one instance copies, given to it by a group (`copying`).

A step copies what one fetch of each leader gives. Partitions whose mirrors take no records now, and those whose records
are damaged, wait alone. Partitions of topics that were made anew are copied from their beginning (`verifying`).
"""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

import trio

from ottla import _core
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, RebalanceListener
from ottla.client.producer import Producer
from ottla.client.transactional import TransactionalProducer
from ottla.errors import (
    CorruptMessage,
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    LeaderNotAvailable,
    NoOffsetForPartition,
    ProducerFenced,
    RebalanceInProgress,
    RemoteProtocolError,
    UnknownMemberId,
)
from ottla.kafka import TopicPartition
from ottla.mirror.config import FlowConfig
from ottla.mirror.damage import before_damage
from ottla.mirror.deliveries import Deliveries
from ottla.mirror.figures import Figures
from ottla.mirror.notes import Notes
from ottla.mirror.syncs import Pair, Syncs
from ottla.mirror.verifying import Place, made_anew

logger = logging.getLogger(__name__)

#: How often what was copied is committed: also how late readers of committed records see it, with exactly once.
COMMIT_S: Final = 0.2
#: How long a fetch waits for the first record.
WAIT_MS: Final = 100
#: With exactly once, how soon the target is asked again who leads mirrors that had no leader.
LEADER_S: Final = 0.5
#: How long the end of a transaction is waited for that is aborted for want of a leader.
ABORT_S: Final = 1.0
#: How soon records are looked at again that could not be copied: somebody may delete or mend them.
DAMAGED_S: Final = 30.0
#: After how long an instance that was killed is replaced, and what it began is aborted.
SESSION_MS: Final = 10_000
#: Of what is on its way to the target: most of what a mirror needs in memory.
MEMORY_BYTES: Final = 16 << 20
#: How long partitions that are given away wait for what is on its way.
DELIVERY_S: Final = 5.0
FETCH_BYTES: Final = 4 << 20
PARTITION_BYTES: Final = 1 << 20
#: Where a batch says the time of its newest record, in milliseconds.
_MAX_TIMESTAMP_AT: Final = 35
_MAX_TIMESTAMP: Final = struct.Struct(">q")
#: The group is somebody else's now, or will be.
REPLACED: Final = (IllegalGeneration, UnknownMemberId, FencedInstanceId, RebalanceInProgress, ProducerFenced)


class Share(RebalanceListener):
    """The partitions that this instance copies now, the work of a MirrorSourceTask. `positions` of the reader are
    where it is in the source.
    """

    def __init__(
        self,
        flow: FlowConfig,
        source: Cluster,
        member: Consumer,
        producer: Producer,
        mirror: _core.Mirror,
        syncs: Syncs,
        notes: Notes,
        figures: Figures,
    ) -> None:
        self._syncs = syncs
        self._notes = notes
        self._flow = flow
        self._member = member
        self._producer = producer
        self._mirror = mirror
        self._figures = figures
        self._reader = Consumer(
            source,
            start=flow.reads.start,
            read_committed=True,
            wait_ms=WAIT_MS,
            fetch_bytes=FETCH_BYTES,
            partition_bytes=PARTITION_BYTES,
        )
        #: The topics of the source by the names of their mirrors.
        self._sources: dict[str, str] = {}
        #: A record of each partition that was copied, by which it is known again.
        self._known: dict[TopicPartition, Pair] = {}
        #: Where each partition began when it was last read.
        self._log_starts: dict[TopicPartition, int] = {}
        #: With exactly once, the time of the newest record that was sent since the last commit.
        self._newest_ms = -1
        #: What is on its way, and the partitions that wait for their mirrors.
        self._deliveries = Deliveries()
        self._slow: set[TopicPartition] = set()
        #: Partitions with records that cannot be copied, and when they are looked at again.
        self._damaged: dict[TopicPartition, float] = {}
        #: What is committed of the partitions of the source.
        self._committed: dict[TopicPartition, int] = {}
        self._in_transaction = False
        #: The mirrors of the transaction that is open, and of the one before.
        self._written: set[TopicPartition] = set()
        self._written_before: set[TopicPartition] = set()
        self._leaders_at = -math.inf
        self._has_failed = False
        self._commit_at = trio.current_time() + COMMIT_S

    # --- which partitions ---

    def subscribe(self, topics: Mapping[str, int]) -> None:
        """Shares these topics of the source with the other instances."""
        mirrors = {self._flow.names.remote(self._flow.source, topic): topic for topic in topics}
        # Partitions of topics that are gone are still to be given back.
        self._sources |= mirrors
        if mirrors:
            self._member.subscribe(sorted(mirrors), self)

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        # The group is there to share work and to keep offsets. Nothing is read of the mirrors: they are paused, and
        # nobody need find out where they begin.
        self._member.pause(partitions)
        for each in partitions:
            self._member.seek(each, 0)
        committed = await self._member.committed(partitions)
        new = [self._source_of(each) for each in partitions if each not in committed]
        positions = await self._starts(new)
        kept = {self._source_of(each): found.offset for each, found in committed.items()}
        # What was noted of a mirror that is not there any more says nothing of the one that is begun now.
        await self._notes.read_syncs(lambda sync: self._syncs.add(sync) if sync.partition in kept else None)
        known = {each: self._syncs.before(each, offset) for each, offset in kept.items()}
        self._known |= {each: pair for each, pair in known.items() if pair is not None}
        positions |= kept
        self._committed |= positions
        self._reader.positions |= positions
        for each, position in positions.items():
            self._deliveries.begin(each, position)
        await self.verify(kept)
        self._figures.positions |= {each: self._reader.positions[each] for each in positions}

    async def verify(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Looks whether these partitions, or all, are those that were copied; others are copied from their beginning.
        Raises KafkaError, OSError: such a beginning cannot be found.
        """
        asked = self._known.keys() if partitions is None else self._known.keys() & partitions
        places = {
            each: Place(each, self._known[each][0], self._mirror_of(each), self._known[each][1]) for each in asked
        }
        anew = await made_anew(self._reader.cluster, self._member.cluster, places)
        starts = await self._starts(anew)
        for each in places:
            pair = self._known.pop(each)
            if each not in starts:
                self._known[each] = self._syncs.before(each, self._reader.positions[each]) or pair
                continue
            self._figures.errors += 1
            self._syncs.forget(each)
            self._reader.positions[each] = starts[each]
            self._deliveries.begin(each, starts[each])
            # Wherever that is, it is news: also where as much is copied as before.
            self._committed.pop(each, None)
            logger.error(
                "%s: %s has been made anew in %s: the record at offset %d is not the one that was copied. It is copied "
                "from offset %d on",
                self._flow,
                each,
                self._flow.source,
                pair.upstream,
                starts[each],
            )

    async def _starts(self, new: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions are begun."""
        start = self._flow.reads.start
        if new and start is None:
            raise NoOffsetForPartition(
                f"{min(new)} is not copied yet, and {self._flow.source}.consumer.auto.offset.reset is none"
            )
        return await (self._reader.end_offsets(new) if start == "latest" else self._reader.beginning_offsets(new))

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        if not self._has_failed:
            await self.finish()
        self.on_lost(partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        for each in map(self._source_of, partitions):
            self._syncs.forget(each)
            self._deliveries.forget(each)
            self._slow.discard(each)
            self._damaged.pop(each, None)
            if each in self._reader.paused():
                self._reader.resume([each])
            for known in (self._reader.positions, self._committed, self._figures.positions, self._figures.ends):
                known.pop(each, None)
            self._known.pop(each, None)
            self._log_starts.pop(each, None)

    def _source_of(self, mirror: TopicPartition) -> TopicPartition:
        return TopicPartition(self._sources[mirror.topic], mirror.partition)

    def _mirror_of(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._flow.names.remote(self._flow.source, partition.topic), partition.partition)

    # --- records ---

    async def step(self) -> None:
        """Copies what a fetch of each leader gives, and commits when it is time."""
        is_idle = not self._reader.positions
        await self._member.poll(WAIT_MS if is_idle else 0)
        if is_idle:
            return
        await self._deliveries.settle()
        await self._pause()
        before = dict(self._reader.positions)
        answers = await self._reader.poll_encoded()
        for partition, position in self._reader.positions.items():
            if position != before.get(partition):
                self._say_reset(partition, before.get(partition, -1), position)
        suspects = [partition for partition, answer in answers if self._has_gone_back(partition, answer)]
        if suspects:
            await self.verify(suspects)
        for partition, answer in answers:
            if answer.records and partition not in suspects:
                await self._copy(partition, answer)
        if trio.current_time() >= self._commit_at:
            await self.commit()

    async def _pause(self) -> None:
        """Nothing more is read of partitions that wait for their mirrors, until these take what was read, and of those
        with damage, until it is time to look again.
        """
        slow = self._deliveries.slow()
        if isinstance(self._producer, TransactionalProducer):
            slow = await self._without_leader()
        for each in sorted(slow - self._slow):
            mirror = self._mirror_of(each)
            logger.warning("%s: %s takes no records now, %s waits; others are copied on", self._flow, mirror, each)
        again, self._slow = self._slow - slow, slow
        for each in sorted(again):
            logger.info("%s: %s takes records again", self._flow, self._mirror_of(each))
        if isinstance(self._producer, TransactionalProducer):
            await self.verify(again)  # nobody could read those mirrors meanwhile
        now = trio.current_time()
        wanted = slow | {each for each, until in self._damaged.items() if until > now}
        paused = self._reader.paused()
        self._reader.pause(wanted - paused)
        self._reader.resume(paused - wanted)

    async def _without_leader(self) -> set[TopicPartition]:
        """The partitions whose mirrors have no leader, as the target says. A transaction that such a mirror is part of
        ends when it has a leader again, whatever this instance does: they must not come into one.
        """
        mirrors = {self._mirror_of(each): each for each in self._reader.positions}
        without = self._member.cluster.located(mirrors)[1]
        if without:
            await self._ask_leaders(without, at_once=None in without.values())
        return {mirrors[each] for each in self._leaderless(without)}

    async def _ask_leaders(self, mirrors: Collection[TopicPartition], *, at_once: bool = False) -> None:
        now = trio.current_time()
        if at_once or now >= self._leaders_at:
            self._leaders_at = now + LEADER_S
            await self._member.cluster.refresh({each.topic for each in mirrors})

    def _leaderless(self, mirrors: Collection[TopicPartition]) -> list[TopicPartition]:
        without = self._member.cluster.located(mirrors)[1]
        return [each for each, why in without.items() if isinstance(why, LeaderNotAvailable)]

    def _say_reset(self, partition: TopicPartition, before: int, position: int) -> None:
        """The reader could not go on where it was."""
        self._figures.errors += 1
        self._committed.pop(partition, None)
        self._deliveries.begin(partition, position)
        if position < before:
            self._known.pop(partition, None)
            self._syncs.forget(partition)
            what = f"ends before offset {before}, up to which it was copied: it was made anew, or has lost records"
            logger.error("%s: %s %s. It is copied from offset %d on", self._flow, partition, what, position)
        else:
            what = f"the records from {before} on are no longer there"
            logger.error("%s: %s is copied from offset %d on: %s", self._flow, partition, position, what)

    def _has_gone_back(self, partition: TopicPartition, answer: _core.FetchedPartition) -> bool:
        """True if a partition begins or ends before where it did, as one that is made anew does."""
        end, start = self._figures.ends.get(partition, 0), self._log_starts.get(partition, 0)
        self._figures.ends[partition] = answer.last_stable_offset
        self._log_starts[partition] = answer.log_start_offset
        return answer.last_stable_offset < end or 0 <= answer.log_start_offset < start

    async def _copy(self, partition: TopicPartition, answer: _core.FetchedPartition) -> None:
        position = self._reader.positions[partition]
        assert answer.records is not None
        aborted = answer.aborted_transactions or []
        try:
            copied = self._mirror.copy(answer.records, position, aborted)
        except CorruptMessage as error:
            before = before_damage(self._mirror, answer.records, position, aborted)
            if before is None or before.next_offset == position:
                self._say_damaged(partition, position, error)
                return
            copied = before
        if self._damaged.pop(partition, None) is not None:
            logger.warning("%s: %s is copied again from offset %d on", self._flow, partition, position)
        self._begin()
        mirror = self._mirror_of(partition)
        is_transactional = isinstance(self._producer, TransactionalProducer)
        self._written.add(mirror)
        for batch in copied.batches:
            await self._has_room()
            receipt = await self._producer.send_encoded(mirror, batch.data, batch.records)
            await self._syncs.sent(partition, batch.first_offset, batch.last_offset, batch.records, receipt)
            size_bytes = len(batch.data)
            self._figures.records += batch.records
            self._figures.bytes += size_bytes
            self._figures.batches += 1
            self._figures.unopened += batch.is_unopened
            (newest_ms,) = _MAX_TIMESTAMP.unpack_from(batch.data, _MAX_TIMESTAMP_AT)
            if is_transactional:
                self._newest_ms = max(self._newest_ms, newest_ms)
            self._deliveries.sent(partition, batch.last_offset + 1, size_bytes, newest_ms, receipt)
        self._deliveries.read(partition, copied.next_offset)
        self._reader.positions[partition] = copied.next_offset

    def _say_damaged(self, partition: TopicPartition, position: int, error: CorruptMessage) -> None:
        if partition not in self._damaged:
            self._figures.errors += 1
            logger.error(
                "%s: %s of %s from offset %d on cannot be copied: %s. It is looked at again every %g s, and others are "
                "copied on",
                *(self._flow, partition, self._flow.source, position, error, DAMAGED_S),
            )
        self._damaged[partition] = trio.current_time() + DAMAGED_S

    async def _has_room(self) -> None:
        """Waits while as much is on its way as may be, partitions left out that wait for their mirrors."""
        while self._deliveries.size_bytes() >= MEMORY_BYTES:
            await self._progress()

    async def _progress(self) -> None:
        """Waits until something more is delivered, for a moment at most. Raises LeaderNotAvailable: a transaction waits
        for a mirror that has lost its leader.
        """
        with trio.move_on_after(COMMIT_S):
            await self._producer.progress()
        await self._deliveries.settle()
        if not isinstance(self._producer, TransactionalProducer) or not self._deliveries.slow():
            return
        # No transaction begins before the one before it has ended in all of its partitions.
        mirrors = self._written | self._written_before
        await self._ask_leaders(mirrors)
        if gone := self._leaderless(mirrors):
            target = self._flow.target
            raise LeaderNotAvailable(f"{min(gone)} has lost its leader in {target}, and waits alone until it has one")

    async def give_up(self, error: BaseException) -> None:
        """After an error. Commits what was delivered, if the group is still ours: what failed is something else then,
        and nothing of this has to come twice. A transaction is aborted instead: else it would hold up readers until it
        times out.
        """
        # The coordinator may wait for that leader, too. What is not aborted here times out there.
        limit_s = ABORT_S if isinstance(error, LeaderNotAvailable) else SESSION_MS / 1000
        with (
            trio.move_on_after(limit_s, shield=True),
            suppress(KafkaError, OSError, RemoteProtocolError),
        ):
            if isinstance(self._producer, TransactionalProducer):
                if self._in_transaction:
                    self._in_transaction = False
                    await self._producer.abort(is_last=True)
            elif isinstance(error, Exception) and not isinstance(error, REPLACED):
                await self.finish()
        self._has_failed = True

    async def finish(self) -> None:
        """Commits what was copied, what is on its way included, if it comes soon."""
        try:
            with trio.move_on_after(DELIVERY_S):
                while not self._deliveries.are_over:
                    await self._producer.progress()
                    await self._deliveries.settle()
        finally:
            await self.commit()

    def _begin(self) -> None:
        if isinstance(self._producer, TransactionalProducer) and not self._in_transaction:
            self._producer.begin()
            self._in_transaction = True

    async def commit(self) -> None:
        """Commits what was delivered, if anything was. While this instance joins the others anew that cannot be: it
        keeps its partitions meanwhile, copies on, and commits later.
        """
        self._commit_at = trio.current_time() + COMMIT_S
        producer, deliveries = self._producer, self._deliveries
        # A transaction is committed when all of it is delivered.
        positions = self._reader.positions if isinstance(producer, TransactionalProducer) else deliveries.positions
        moved = {
            partition: position
            for partition, position in positions.items()
            if position != self._committed.get(partition)
        }
        if not moved:
            return
        offsets = {self._mirror_of(partition): position for partition, position in moved.items()}
        if isinstance(producer, TransactionalProducer):
            self._begin()
            while not deliveries.are_over:
                await self._progress()
            who = self._member.group_metadata()
            await producer.send_offsets(who.group, offsets, member_id=who.member_id, generation=who.generation)
            await producer.commit()
            self._in_transaction = False
            self._written_before, self._written = self._written, set()
        else:
            self._newest_ms = max(self._newest_ms, deliveries.newest_ms)
            deliveries.newest_ms = -1
            try:
                await self._member.commit(offsets)
            except RebalanceInProgress:
                return
        self._committed |= moved
        self._figures.positions |= moved
        if self._newest_ms >= 0:
            self._figures.latency_s = max(0.0, time.time() - self._newest_ms / 1000)
            self._newest_ms = -1
        await self._notes.write_syncs(await self._syncs.take())
        for partition, position in moved.items():
            if partition not in self._known and (pair := self._syncs.before(partition, position)) is not None:
                self._known[partition] = pair
