"""The ReplicaFetcherManager: who fetches each partition that this broker follows, and what is done where logs part.

The fetchers are native threads (`rust/replication`), some for each leader. They append what they get without Python.
What needs a decision they report, and leave the partition alone until it is added again:

* The logs part: the follower's is cut off (`truncation.py`), and the fetcher asks for what comes after.
* The follower asks for what the leader does not have: it is asked where its log starts and ends.
* The leader does not know the follower's last epoch, or sends records of a newer epoch than its own: the coordination
  tree is older than the records, and epochs begin anew below theirs. The leader is asked where the follower's last
  epoch ends, as below, until the logs agree. Then the partition is fetched without comparing epochs.
* The leader knows a newer leader epoch: the controller is about to say who leads. Until then it is tried again.
* Records are damaged, or the disk is full: it is tried again after a while.

A leader of a protocol before 2.7-IV1 does not say where the logs part. So it is asked where the follower's last epoch
ends (OffsetForLeaderEpoch), again and again until the logs agree, and only then fetched from.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import trio

from ottla._core import PartitionToFetch
from ottla.errors import KafkaError, ProtocolError, StorageError
from ottla.kafka import NO_EPOCH, NO_LEADER, PartitionKey
from ottla.logging_setup import Repeated, of_partition
from ottla.net.guard import failed
from ottla.replication.fetcher_events import (
    Delayed,
    Diverged,
    Event,
    Fenced,
    NewerEpoch,
    NotWritable,
    OfFetcher,
    OutOfRange,
    Panicked,
    Refused,
    event_of,
    is_connection_lost,
)
from ottla.replication.questions import NEEDED as QUESTIONS
from ottla.replication.questions import EpochEnd, LogRange, Questions
from ottla.replication.truncation import Cut, Truncation, cut
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla._core import Fetcher, FetcherEvent
    from ottla.config import BrokerConfig
    from ottla.net import Server
    from ottla.peers import Fetchers, Peers
    from ottla.replication.partition import Partition

logger = logging.getLogger("ottla.fetcher")

T = TypeVar("T")

#: A partition that failed in vain for so long has come out of it.
FAILED_S = 30.0


class _Failures(NamedTuple):
    """How many times a partition failed in a row, and when it did last."""

    times: int
    at: float


class _Thread(NamedTuple):
    """Which fetcher: of a leader, and which of those."""

    leader: int
    number: int


class _Running(NamedTuple):
    """A fetcher, where it fetches from, and the token under which it reports."""

    fetcher: Fetcher
    address: tuple[str, int]
    token: int


class _Followed:
    """A partition that is followed under one leader epoch."""

    __slots__ = ("generation", "is_agreed", "leader", "leader_epoch", "partition")

    def __init__(self, partition: Partition) -> None:
        assert partition.state is not None
        self.partition = partition
        self.leader = partition.state.leader
        self.leader_epoch = partition.state.leader_epoch
        #: Counts how often it came to a fetcher, or its leader was asked: what was begun before is out of date.
        self.generation = 0
        #: The log is known to end where its leader's goes on, or was cut there. Only needed where the leader cannot say
        #: so in its answers: its protocol is older, or the epochs of its tree are.
        self.is_agreed = False

    @property
    def key(self) -> PartitionKey:
        return self.partition.topic, self.partition.index


class Following:
    """All methods are called from the loop's thread.

    `peers` say where leaders are, and `address_known` returns once what it is given is true: it is asked when addresses
    may have changed. `fetchers` makes those that fetch. `truncate` cuts logs, and returns what kept it from each.
    """

    def __init__(
        self,
        broker_id: int,
        server: Server,
        peers: Peers,
        fetchers: Fetchers,
        config: Callable[[], BrokerConfig],
        *,
        address_known: Callable[[Callable[[], bool]], Awaitable[None]],
        truncate: Callable[[list[Truncation]], Awaitable[list[KafkaError | None]]],
    ) -> None:
        self._broker_id = broker_id
        self._server = server
        self._questions = Questions(broker_id, peers)
        self._config = config
        self._makes = fetchers
        self._address = peers.address
        self._address_known = address_known
        self._truncate = truncate
        self._followed: dict[PartitionKey, _Followed] = {}
        #: Who fetches each of them.
        self._threads: dict[PartitionKey, _Thread] = {}
        self._fetchers: dict[_Thread, _Running] = {}
        #: What is to be added, what is to be removed, and what fetchers reported.
        self._new: dict[PartitionKey, None] = {}
        self._gone: dict[PartitionKey, None] = {}
        self._rows: list[FetcherEvent] = []
        #: Those that are fetched again after a while, with the generations that they had.
        self._put_off: list[tuple[_Followed, int]] = []
        #: Their leader is not there now.
        self._waiting: dict[PartitionKey, None] = {}
        #: Those that failed for a reason of their own: their records, or their logs.
        self._failures: dict[PartitionKey, _Failures] = {}
        #: `num.replica.fetchers` is another one now.
        self._is_resized = False
        self._wake = trio.Event()
        #: Held while partitions come to fetchers and leave them, and while logs are cut.
        self._moving = trio.Lock()
        self._troubles = Repeated(logger)

    def follow(self, partition: Partition) -> None:
        """Follows the leader of the partition's state. Its log is fenced, and no other append is under way."""
        one = _Followed(partition)
        self._followed[one.key] = one
        self._failures.pop(one.key, None)
        self._new[one.key] = None
        self._wake.set()

    def has(self, key: PartitionKey) -> bool:
        """Whether the partition is followed."""
        return key in self._followed

    async def stop(self, keys: Iterable[PartitionKey]) -> None:
        """Follows these no more. When this returns, nothing is appended to their logs, and nothing cut off."""
        leaving = [key for key in keys if self._leaves(key)]
        if leaving:
            async with self._moving:
                await self._remove(leaving)

    def _leaves(self, key: PartitionKey) -> bool:
        self._failures.pop(key, None)
        # One that was forgotten may still be with its fetcher.
        return self._followed.pop(key, None) is not None or key in self._gone

    def forget(self, key: PartitionKey) -> None:
        """The same for a log that failed, without waiting."""
        self._failures.pop(key, None)
        if self._followed.pop(key, None) is not None:
            self._gone[key] = None
            self._wake.set()

    def fetchers_changed(self) -> None:
        """`num.replica.fetchers` is another one now: partitions go to the fetchers that they would have had."""
        self._is_resized = True
        self._wake.set()

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Inside the block nothing is fetched, and nothing appended to the logs of followers or cut off. Afterwards all
        that is followed is fetched again, from the end of its log on.
        """
        async with self._moving:
            resting = [*self._threads]
            await self._remove(resting)
            try:
                yield
            finally:
                self._new.update(dict.fromkeys(key for key in resting if key in self._followed))
                self._wake.set()

    def requests(self) -> dict[tuple[int, int], int]:
        """How many requests of each fetcher that there is were answered, by its leader and its number."""
        return {thread: running.fetcher.requests for thread, running in self._fetchers.items()}

    def lag_max(self) -> int:
        """Records below a leader's high watermark that a followed partition lacks at most, as far as it is known."""
        return max((running.fetcher.lag_max for running in self._fetchers.values()), default=0)

    def failed_partitions(self) -> int:
        """How many partitions cannot be fetched for a reason of their own, and are tried in vain again and again."""
        since = trio.current_time() - FAILED_S
        return sum(failures.times > 1 and failures.at >= since for failures in self._failures.values())

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._watch_addresses)
            try:
                while True:
                    await self._wake.wait()
                    self._wake = trio.Event()
                    await self._look()
            finally:
                with trio.CancelScope(shield=True):
                    await self._close([*self._fetchers])

    async def _look(self) -> None:
        async with self._moving:
            gone = [*self._gone]
            await self._remove(gone)
            for key in gone:
                self._gone.pop(key, None)
                if key in self._followed:
                    self._new[key] = None
            if self._is_resized:
                self._is_resized = False
                await self._move_to_others()
            rows, self._rows = self._rows, []
            cuts: list[Truncation] = []
            lost: dict[int, list[_Followed]] = {}
            unsure: dict[int, list[_Followed]] = {}
            slices = Slices(own=True)
            for row in rows:
                await slices.row()
                self._decide(event_of(row), cuts, lost, unsure)
            for leader, several in lost.items():
                self._nursery.start_soon(self._find_ranges, leader, several)
            for leader, several in unsure.items():
                self._nursery.start_soon(self._find_ends, leader, several)
            await self._cut(cuts)
            new, self._new = [*self._new], {}
            await self._add(new)

    def _current(self, key: PartitionKey, leader_epoch: int) -> _Followed | None:
        """The partition, if it is still followed under this leader epoch."""
        one = self._followed.get(key)
        return one if one is not None and one.leader_epoch == leader_epoch else None

    def _is_current(self, one: _Followed, generation: int) -> bool:
        """Whether the partition is still followed, and nothing was begun with it since."""
        return self._followed.get(one.key) is one and one.generation == generation

    # --- what fetchers report ---

    def _decide(
        self,
        event: Event,
        cuts: list[Truncation],
        lost: dict[int, list[_Followed]],
        unsure: dict[int, list[_Followed]],
    ) -> None:
        """Puts the logs to cut into `cuts`, those that end where their leader has nothing into `lost`, and those whose
        epochs do not tell whether they agree into `unsure`.
        """
        if isinstance(event, OfFetcher):
            self._troubles.log(logging.WARNING, (type(event), event.message), "%s", event.message)
            return
        one = self._current(event.key, event.leader_epoch)
        if one is None:
            return
        partition, reason = one.partition, (one.key, type(event), event.code)
        extra = of_partition(*one.key)
        match event:
            case Diverged():
                try:
                    cuts.append(Truncation(partition, _place(partition, event.end).offset, event.leader_epoch))
                except KafkaError as error:
                    self._failed(one, error)
            case OutOfRange():
                lost.setdefault(one.leader, []).append(one)
            case NewerEpoch():
                # The leader must still lead when it is asked: then no newer leader's records were read from its log.
                message = "%s has records of leader epoch %d at the leader of epoch %d: the coordination tree is older"
                self._troubles.log(
                    logging.WARNING, reason, message, partition, event.epoch, event.leader_epoch, extra=extra
                )
                unsure.setdefault(one.leader, []).append(one)
            case NotWritable():
                self._failed(one, StorageError(event.message))
            case Delayed():
                self._troubles.log(logging.INFO, reason, "%s: %s", partition, event.message, extra=extra)
            case Fenced():
                message = "%s: a newer leader epoch than %d is known: %s"
                self._troubles.log(
                    logging.INFO, reason, message, partition, event.leader_epoch, event.message, extra=extra
                )
                self._later(one)
            case Refused() | Panicked():
                message = "%s: what its leader sent is refused, and asked for again: %s"
                self._troubles.log(logging.ERROR, reason, message, partition, event.message, extra=extra)
                self._in_vain(one)

    def _failed(self, one: _Followed, error: KafkaError) -> None:
        """Something could not be done with a log. If the log is still in use it is tried again: a full disk may get
        space."""
        one.is_agreed = False
        if isinstance(error, StorageError):
            one.partition.owner.storage_error(one.partition, error)
        else:
            self._troubles.log(logging.INFO, (one.key, error.name), "%s: %s", one.partition, error)
        self._in_vain(one)

    def _in_vain(self, one: _Followed) -> None:
        """Fetches again after a while what may fail again."""
        now = trio.current_time()
        before = self._failures.get(one.key)
        times = before.times if before is not None and before.at >= now - FAILED_S else 0
        self._failures[one.key] = _Failures(times + 1, now)
        self._later(one)

    def _later(self, *several: _Followed) -> None:
        """Fetches again after a while, what is still followed then."""
        if not self._put_off:
            self._nursery.start_soon(self._again_later)
        self._put_off += [(one, one.generation) for one in several]

    async def _again_later(self) -> None:
        """For all that are put off before this task begins: when a leader goes, that is thousands at once."""
        put_off, self._put_off = self._put_off, []
        await trio.sleep(self._config().get_int("replica.fetch.backoff.ms") / 1000)
        self._again(*(one for one, generation in put_off if self._is_current(one, generation)))

    def _again(self, *several: _Followed) -> None:
        self._new.update((one.key, None) for one in several)
        self._wake.set()

    async def _cut(self, cuts: list[Truncation]) -> None:
        """Cuts logs off, and has them fetched again. Caller holds `_moving`."""
        if not cuts:
            return
        slices = Slices(own=True)
        before: list[tuple[tuple[int, int], int]] = []
        for each in cuts:
            await slices.row()
            before.append((_end(each.partition), each.partition.log.high_watermark))
        errors = await self._truncate(cuts)
        for each, error, (end, high_watermark) in zip(cuts, errors, before, strict=True):
            await slices.row()
            partition = each.partition
            is_changed = error is None and _end(partition) != end
            if is_changed and each.offset < high_watermark:
                # Its leader was elected without being in sync (or lost its disk): what it does not have is lost.
                logger.warning(
                    "%s is cut off at %d, below its high watermark %d", partition, each.offset, high_watermark
                )
            elif is_changed:
                logger.info("%s ends at %d now, where its leader's log goes on", partition, each.offset)
            one = self._current((partition.topic, partition.index), each.leader_epoch)
            if one is None:
                continue
            if error is not None:
                self._failed(one, error)
            elif is_changed or one.is_agreed:
                self._again(one)
            else:
                # Its leader would say the same again, at once.
                self._in_vain(one)

    # --- what leaders are asked ---

    async def _find_ranges(self, leader: int, several: list[_Followed]) -> None:
        """The leader does not have what these logs end with: finds where to go on."""
        epochs = {one.key: one.leader_epoch for one in several}
        unsure: list[_Followed] = []
        take = partial(self._in_range, unsure)
        await self._settle(several, partial(self._questions.log_ranges, leader, epochs), take)
        if unsure:
            await self._find_ends(leader, unsure)

    def _in_range(self, unsure: list[_Followed], one: _Followed, log: LogRange, cuts: list[Truncation]) -> None:
        partition, end = one.partition, one.partition.log.end_offset
        if log.end < end:
            cuts.append(Truncation(partition, log.end, one.leader_epoch))
        elif log.start > end:
            logger.info("%s starts anew at %d, where its leader's log starts", partition, log.start)
            cuts.append(Truncation(partition, log.start, one.leader_epoch, is_anew=True))
        elif one.is_agreed:
            # It has come to have it meanwhile, or says what cannot be.
            self._in_vain(one)
        else:
            # It has the offset, so it does not know the epoch.
            unsure.append(one)

    async def _find_ends(self, leader: int, several: list[_Followed]) -> None:
        """Finds where the logs agree with those of a leader that cannot say so by itself."""
        epochs = {one.key: (one.leader_epoch, one.partition.log.leader_epoch) for one in several}
        await self._settle(several, partial(self._questions.epoch_ends, leader, epochs), self._at_end)

    def _at_end(self, one: _Followed, end: EpochEnd, cuts: list[Truncation]) -> None:
        place = _place(one.partition, end)
        one.is_agreed = place.is_complete
        # Also where nothing is too much: this broker may have led in an epoch without records.
        cuts.append(Truncation(one.partition, place.offset, one.leader_epoch))

    async def _settle(
        self,
        several: list[_Followed],
        ask: Callable[[], Awaitable[Mapping[PartitionKey, T | KafkaError]]],
        take: Callable[[_Followed, T, list[Truncation]], None],
    ) -> None:
        """Asks the leader of partitions that no fetcher fetches now. `take` is called with each good answer, if nothing
        has changed meanwhile, and what it wants to be cut is cut.
        """
        generations = {}
        for one in several:
            one.generation += 1
            generations[one] = one.generation
        try:
            answers = await ask()
        except (OSError, ProtocolError) as problem:
            message = "the leader of %s does not say what it has: %s"
            reason = (several[0].leader, type(problem).__name__)
            self._troubles.log(logging.INFO, reason, message, several[0].partition, problem)
            self._later(*(one for one, generation in generations.items() if self._is_current(one, generation)))
            return
        async with self._moving:
            cuts: list[Truncation] = []
            slices = Slices(own=True)
            for one in several:
                await slices.row()
                answer = answers[one.key]
                if not self._is_current(one, generations[one]):
                    continue
                try:
                    if isinstance(answer, KafkaError):
                        raise answer
                    take(one, answer, cuts)
                except KafkaError as error:
                    self._failed(one, error)
            await self._cut(cuts)

    # --- fetchers ---

    async def _add(self, keys: list[PartitionKey]) -> None:
        """Gives partitions to their fetchers. Caller holds `_moving`."""
        rows: dict[_Thread, list[_Followed]] = {}
        unsure: dict[int, list[_Followed]] = {}
        addresses: dict[int, tuple[str, int] | None] = {}
        cuts: list[Truncation] = []
        slices = Slices(own=True)
        for key in keys:
            await slices.row()
            one = self._followed.get(key)
            if one is None:
                continue
            leader, log = one.leader, one.partition.log
            if leader not in addresses:
                addresses[leader] = None if leader == NO_LEADER else self._address(leader)
            if addresses[leader] is None:
                self._waiting[key] = None
            elif log.leader_epoch == NO_EPOCH and log.end_offset > log.high_watermark:
                # Without epochs nobody can tell where the logs part: only what is committed is sure.
                cuts.append(Truncation(one.partition, log.high_watermark, one.leader_epoch))
            elif not (self._makes.tells_divergence or one.is_agreed or log.leader_epoch == NO_EPOCH):
                unsure.setdefault(leader, []).append(one)
            else:
                rows.setdefault(self._thread(one), []).append(one)
        for thread, several in rows.items():
            address = addresses[thread.leader]
            assert address is not None
            await self._add_to(thread, address, several)
        for leader, several in unsure.items():
            self._nursery.start_soon(self._find_ends, leader, several)
        await self._cut(cuts)

    def _thread(self, one: _Followed) -> _Thread:
        """The fetcher that has the partition, paused, or is to have it. Never two: it would be removed from one."""
        return self._threads.get(one.key) or _Thread(one.leader, self._number(one.key))

    def _number(self, key: PartitionKey) -> int:
        return hash(key) % self._config().get_int("num.replica.fetchers")

    async def _move_to_others(self) -> None:
        """Takes partitions from fetchers that are not theirs any more; they are new for the others. Caller holds
        `_moving`.
        """
        keys = [key for key, thread in self._threads.items() if thread.number != self._number(key)]
        await self._remove(keys)
        self._new.update(dict.fromkeys(key for key in keys if key in self._followed))

    async def _add_to(self, thread: _Thread, address: tuple[str, int], several: list[_Followed]) -> None:
        try:
            fetcher = self._fetcher(thread, address)
        except (OSError, ValueError, OverflowError) as problem:
            # There are too many threads, or the leader has registered what is no address.
            message = "no fetcher can be started for broker %d at %s:%d: %s"
            self._troubles.log(logging.ERROR, (thread.leader, str(problem)), message, thread.leader, *address, problem)
            self._later(*several)
            return
        rows: dict[tuple[bool, bool], list[PartitionToFetch]] = {}
        slices = Slices(own=True)
        for one in several:
            await slices.row()
            one.generation += 1
            self._threads[one.key] = thread
            terms = one.partition.adds(self._broker_id), one.is_agreed
            row = PartitionToFetch(*one.key, one.partition.log, leader_epoch=one.leader_epoch)
            rows.setdefault(terms, []).append(row)
        for (is_move, is_agreed), some in rows.items():
            await trio.to_thread.run_sync(partial(fetcher.add, some, is_move=is_move, is_agreed=is_agreed))

    async def _remove(self, keys: list[PartitionKey]) -> None:
        """Takes partitions from their fetchers. Caller holds `_moving`."""
        rows: dict[_Thread, list[PartitionKey]] = {}
        slices = Slices(own=True)
        for key in keys:
            await slices.row()
            self._new.pop(key, None)
            self._waiting.pop(key, None)
            thread = self._threads.pop(key, None)
            if thread is not None:
                rows.setdefault(thread, []).append(key)
        for thread, removed in rows.items():
            # At the broker's end they are closed already.
            if thread in self._fetchers:
                await trio.to_thread.run_sync(self._fetchers[thread].fetcher.remove, removed)
        busy = set(self._threads.values())
        await self._close([thread for thread in rows if thread not in busy])

    def _fetcher(self, thread: _Thread, address: tuple[str, int]) -> Fetcher:
        known = self._fetchers.get(thread)
        if known is not None:
            return known.fetcher
        token = self._server.token()
        fetcher = self._makes.make(*address, thread.number, token)
        self._fetchers[thread] = _Running(fetcher, address, token)

        def reported(_: object, error: BaseException | None) -> None:
            if error is not None:
                failed(f"a fetcher from broker {thread.leader}", error)
            rows = fetcher.events()
            if is_connection_lost(rows):
                self._nursery.start_soon(self._tell_lacking, thread.leader, address)
            self._rows.extend(rows)
            self._wake.set()

        self._server.listen_to(token, reported)
        return fetcher

    async def _tell_lacking(self, leader: int, address: tuple[str, int]) -> None:
        """A connection to a leader was lost: is it one that cannot be fetched from?"""
        lacks = await self._makes.lacking(*address, QUESTIONS)
        if lacks is not None:
            self._troubles.log(logging.ERROR, lacks, "broker %d cannot be followed: %s", leader, lacks)

    async def _close(self, threads: list[_Thread]) -> None:
        for thread in threads:
            running = self._fetchers.pop(thread, None)
            if running is not None:
                self._server.forget(running.token)
                await trio.to_thread.run_sync(running.fetcher.close)

    # --- addresses ---

    def _moved(self) -> list[_Thread]:
        """The fetchers whose leader is elsewhere now, or gone."""
        return [thread for thread, one in self._fetchers.items() if self._address(thread.leader) != one.address]

    def _have_come(self) -> list[PartitionKey]:
        """The partitions whose leader has come. One that is about to be removed may be among those that wait."""
        return [
            key
            for key in self._waiting
            if (one := self._followed.get(key)) is not None and self._address(one.leader) is not None
        ]

    async def _watch_addresses(self) -> None:
        slices = Slices(own=True)
        while True:
            await self._address_known(lambda: bool(self._moved() or self._have_come()))
            async with self._moving:
                moved = set(self._moved())
                keys = [key for key, thread in self._threads.items() if thread in moved]
                await self._remove(keys)
                await self._close([*moved])
                for key in self._have_come():
                    del self._waiting[key]
                    keys.append(key)
                self._new.update(dict.fromkeys(key for key in keys if key in self._followed))
            self._wake.set()
            await slices.end()


def _end(partition: Partition) -> tuple[int, int]:
    """Where a log ends, and in which epoch."""
    return partition.log.end_offset, partition.log.leader_epoch


def _place(partition: Partition, end: EpochEnd) -> Cut:
    """Where a follower's log has to end, by what its leader says of the epoch that it asked for. Raises KafkaError."""
    log = partition.log
    epochs = log.leader_epochs or [(NO_EPOCH, log.start_offset)]
    return cut(log.end_offset, log.high_watermark, log.epoch_end_offset, epochs, end.epoch, end.offset)
