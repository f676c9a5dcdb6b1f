"""The coordinator under every order of events that a seed can think of.

Three transactional ids, for each of them several producers (a newer one makes the older ones zombies, which go on),
three partitions with the rules of Kafka's log, a state log whose appends succeed, fail or stay in doubt, a network that
delays, drops and repeats marker requests, timeouts, and coordinators that lose the shard at any point, some of them
without knowing. After the storm all faults end, and everything must come to rest. Then, and all along, it holds:

- all that was written in one transaction has one outcome, and it is the one that the producer was told;
- no partition is left with an open transaction;
- a producer with an old epoch changes nothing;
- whoever asks for a producer id again and again gets one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ottla.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    ProducerFenced,
    RequestTimedOut,
    TransactionCoordinatorFenced,
)
from ottla.kafka import TopicPartition
from ottla.transaction.coordinator import Coordinator
from ottla.transaction.outbox import Marker
from ottla.transaction.shard import Shard
from ottla.transaction.transaction import AT_REST, EPOCH_MAX, State

IDS = ("payments", "orders", "mail")
PARTITIONS: tuple[TopicPartition, ...] = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))
TIMEOUT_MS = 1_000
FINAL = {ProducerFenced.code, InvalidProducerEpoch.code, InvalidProducerIdMapping.code}
Records = list[tuple[bytes, bytes | None]]


class StateLog:
    """`__transaction_state` with one partition. An append is done when `settle` says so."""

    def __init__(self) -> None:
        self.epoch = 0
        self.records: Records = []
        self.pending: list[tuple[Records, Callable[[int, int], None]]] = []

    def partition_for(self, key: str) -> int:
        return 0

    def append_then(self, index: int, leader_epoch: int, records: Records, done: Callable[[int, int], None]) -> None:
        if leader_epoch != self.epoch:
            return done(NotLeaderOrFollower.code, -1)
        return self.pending.append((records, done))

    def settle(self, rng: random.Random, faults: bool) -> None:
        """The oldest append succeeds, is refused, or gets into the log and nobody hears of it."""
        records, done = self.pending.pop(0)
        if faults and rng.random() < 0.1:
            done(NotEnoughReplicas.code, -1)
        elif faults and rng.random() < 0.1:
            self.records += records
            done(RequestTimedOut.code, -1)
        else:
            self.records += records
            done(0, len(self.records))

    def elect(self, rng: random.Random) -> list[Callable[[int, int], None]]:
        """A new leader epoch. What was pending is in the log up to some point; those who wait are to be told."""
        self.epoch += 1
        pending, self.pending = self.pending, []
        for records, _ in pending[: rng.randint(0, len(pending))]:
            self.records += records
        return [done for _, done in pending]


@dataclass
class Work:
    """One transaction as its producer sees it: what of it was written, and what became of that."""

    producer_id: int
    epoch: int
    told: bool | None = None
    written: int = 0
    outcomes: set[bool] = field(default_factory=set)
    settled: int = 0


class DataLog:
    """A partition with the rules that matter here: epochs, one open transaction for each producer, markers."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.coordinators: dict[int, int] = {}
        self.open: dict[int, list[Work]] = {}

    def write(self, work: Work) -> bool:
        if work.epoch < self.epochs.get(work.producer_id, -1):
            return False
        self.epochs[work.producer_id] = work.epoch
        self.open.setdefault(work.producer_id, []).append(work)
        work.written += 1
        return True

    def mark(self, producer_id: int, epoch: int, coordinator_epoch: int, commit: bool) -> int:
        if epoch < self.epochs.get(producer_id, -1):
            return InvalidProducerEpoch.code
        if coordinator_epoch < self.coordinators.get(producer_id, -1):
            return TransactionCoordinatorFenced.code
        self.epochs[producer_id] = epoch
        self.coordinators[producer_id] = coordinator_epoch
        for work in self.open.pop(producer_id, []):
            work.outcomes.add(commit)
            work.settled += 1
        return 0


class Producer:
    """A client that does one thing after the other and repeats what failed for now, as clients do."""

    def __init__(self, world: World, transactional_id: str, *, recovers: bool) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.recovers = recovers
        self.identity: tuple[int, int] | None = None
        self.work: Work | None = None
        self.added: set[TopicPartition] = set()
        self.commit: bool | None = None
        self.busy = False
        self.dead = False

    def step(self) -> None:
        rng, coordinator = self.world.rng, self.world.coordinator()
        if self.busy or self.dead:
            return
        if self.recovers and rng.random() < 0.05:
            self.work = None  # it met an error that it goes on from with a new epoch (KIP-360)
        if self.identity is None or self.work is None:
            expected = self.identity if self.recovers else None
            self.busy = True
            new_id = -1
            if coordinator.needs_producer_id(self.transactional_id):
                new_id = self.world.new_producer_id()
            coordinator.initialize(self.transactional_id, TIMEOUT_MS, expected, new_id, self._initialized)
        elif self.commit is not None or (self.added and rng.random() < 0.3):
            if self.commit is None:
                self.commit = rng.random() < 0.6
            self.busy = True
            coordinator.end(self.transactional_id, *self.identity, self.commit, self._ended)
        elif self.added and rng.random() < 0.6:
            self._write(rng.choice(sorted(self.added)))
        else:
            partitions = rng.sample(PARTITIONS, rng.randint(1, 2))
            self.busy = True
            coordinator.add_partitions(
                self.transactional_id, *self.identity, partitions, lambda code: self._joined(code, partitions)
            )

    def _write(self, partition: TopicPartition) -> None:
        assert self.work is not None
        assert self.identity is not None
        log = self.world.data[partition]
        if self.work not in log.open.get(self.work.producer_id, []):
            codes = self.world.coordinator().verify(self.transactional_id, *self.identity, [partition])
            if codes[partition]:
                self.dead = codes[partition] in FINAL
                return
            self.world.assert_newest(self)
        if not log.write(self.work):
            self.dead = True

    def _initialized(self, code: int, producer_id: int, epoch: int) -> None:
        self.busy = False
        if code == 0:
            granted = self.world.granted.setdefault(self.transactional_id, [])
            if granted and granted[-1] == (producer_id, epoch):
                assert self.world.granted_to[self.transactional_id] is self, f"{granted[-1]} was given to two"
            else:
                assert (producer_id, epoch) not in granted, f"{producer_id} {epoch} was given out before"
                granted.append((producer_id, epoch))
                self.world.granted_to[self.transactional_id] = self
            if self.world.faults and self.world.rng.random() < 0.1:
                return  # the answer is lost: it asks again
            self.identity = producer_id, epoch
            self._begin()
        elif code in FINAL:
            self.dead = True

    def _begin(self) -> None:
        assert self.identity is not None
        self.work = Work(*self.identity)
        self.world.works.append(self.work)
        self.added.clear()
        self.commit = None

    def _joined(self, code: int, partitions: list[TopicPartition]) -> None:
        self.busy = False
        if code == 0:
            self.world.assert_newest(self)
            self.added.update(partitions)
        elif code in FINAL:
            self.dead = True

    def _ended(self, code: int) -> None:
        self.busy = False
        if self.world.faults and self.world.rng.random() < 0.1:
            return  # the answer is lost: it asks again
        assert self.work is not None
        if code == 0:
            self.world.assert_newest(self)
            self.work.told = self.commit
            self._begin()
        elif code in FINAL or code == InvalidTxnState.code:
            self.dead = True


class Host:
    """One broker that coordinates, or believes so."""

    def __init__(self, world: World) -> None:
        self.coordinator = Coordinator(world.state, lambda: world.now_ms, 900_000)
        self.outbox = self.coordinator.outbox
        self.shard: Shard | None = None


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.state = StateLog()
        self.data = {partition: DataLog() for partition in PARTITIONS}
        self.leaders = {partition: 1 + index % 2 for index, partition in enumerate(PARTITIONS)}
        self.works: list[Work] = []
        self.granted: dict[str, list[tuple[int, int]]] = {}
        self.granted_to: dict[str, Producer] = {}
        self.network: list[tuple[Host, int, list[Marker]]] = []
        self.host = Host(self)
        self.zombies: list[Host] = []
        self.faults = True
        self.producers = [Producer(self, name, recovers=self.rng.random() < 0.5) for name in IDS]
        self._producer_ids = 0
        self.reload()

    def coordinator(self) -> Coordinator:
        return self.host.coordinator

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def assert_newest(self, producer: Producer) -> None:
        newest = self.granted[producer.transactional_id][-1]
        assert producer.identity == newest, f"{producer.identity} went on although {newest} was given out"

    # --- what may happen ---

    def storm(self, steps: int) -> None:
        events = [
            (30, lambda: self.rng.choice(self.producers).step()),
            (20, self.append),
            (12, self.send),
            (12, self.deliver),
            (2, self.pass_time),
            (2, self.new_producer),
            (1, self.reload),
            (1, self.fail_over),
            (1, self.move_leader),
            (3, self.tick),
        ]
        weights = [weight for weight, _ in events]
        for _, event in self.rng.choices(events, weights, k=steps):
            event()

    def append(self) -> None:
        if self.state.pending:
            self.state.settle(self.rng, self.faults)

    def hosts(self) -> list[Host]:
        return [self.host, *self.zombies]

    def send(self) -> None:
        host = self.rng.choice(self.hosts())
        self.completed(host, host.outbox.route(lambda partition: self.leaders[partition], again=True))
        for broker in host.outbox.brokers():
            if taken := host.outbox.take(broker):
                self.network.append((host, broker, taken))

    def deliver(self) -> None:
        """A marker request arrives, or does not; its answer arrives, or does not."""
        if not self.network:
            return None
        host, broker, markers = self.network.pop(self.rng.randrange(len(self.network)))
        if self.faults and self.rng.random() < 0.15:
            return host.outbox.lost(broker)
        results = {}
        for ending, partitions in markers:
            for partition in partitions:
                code = NotLeaderOrFollower.code
                if self.leaders[partition] == broker:
                    code = self.data[partition].mark(
                        ending.producer_id, ending.epoch, ending.shard.epoch, ending.commit
                    )
                results[ending.producer_id, partition] = code
        if self.faults and self.rng.random() < 0.15:
            return host.outbox.lost(broker)
        return self.completed(host, host.outbox.answered(broker, results))

    def completed(self, host: Host, endings: list) -> None:
        for ending in endings:
            host.coordinator.completed(ending)

    def pass_time(self) -> None:
        self.now_ms += self.rng.choice((1, 100, TIMEOUT_MS))

    def tick(self) -> None:
        """The coordinator's own tasks."""
        for host in self.hosts():
            for shard in host.coordinator.shards.values():
                host.coordinator.abort_timed_out(shard)
                if self.rng.random() < 0.1:
                    host.coordinator.expire(shard, 20 * TIMEOUT_MS)
            host.coordinator.finish()

    def new_producer(self) -> None:
        """The older ones are not told."""
        self.producers.append(Producer(self, self.rng.choice(IDS), recovers=self.rng.random() < 0.5))

    def move_leader(self) -> None:
        partition = self.rng.choice(PARTITIONS)
        self.leaders[partition] = 3 - self.leaders[partition]

    def reload(self) -> None:
        """The same broker leads again under a later epoch."""
        waiting = self.state.elect(self.rng)
        self.host.coordinator.resigned(0)
        for done in waiting:
            done(NotLeaderOrFollower.code, -1)
        self._load(self.host)

    def fail_over(self) -> None:
        """Another broker leads; the old one does not know, and its appends are refused."""
        waiting = self.state.elect(self.rng)
        for host in self.zombies[1:]:
            host.coordinator.resigned(0)  # it hears of it at last
        self.zombies = [self.host, *self.zombies[:1]]
        self.host = Host(self)
        for done in waiting:
            done(NotLeaderOrFollower.code, -1)
        self._load(self.host)

    def _load(self, host: Host) -> None:
        shard = host.coordinator.elected(0, self.state.epoch)
        for key, value in self.state.records:
            shard.replay(key, value)
        host.coordinator.loaded(shard)
        host.shard = shard

    # --- the end ---

    def settle(self) -> None:
        """No more faults, no more clients: what remains is the coordinator's to clean up."""
        self.faults = False
        for _ in range(100):
            self.now_ms += TIMEOUT_MS
            self.tick()
            self.host.coordinator.finish()
            while self.state.pending or self.network:
                self.append()
                self.deliver()
            self.send()
            if not self.network and not self.state.pending and len(self.host.outbox) == 0:
                return
        raise AssertionError("the coordinator does not come to rest")


@pytest.mark.parametrize("seed", range(150))
def test_any_order_of_events(seed: int) -> None:
    world = World(seed)
    world.storm(800)
    world.settle()
    world.settle()

    assert world.host.shard is not None
    for transaction in world.host.shard.transactions.values():
        assert transaction.state in AT_REST, transaction
        assert transaction.pending is None, transaction
    for partition, log in world.data.items():
        assert not log.open, f"{partition} has an open transaction"
    for work in world.works:
        assert work.settled == work.written
        assert len(work.outcomes) <= 1, f"committed here, aborted there: {work}"
        if work.told is not None and work.written:
            assert work.outcomes == {work.told}

    assert not any(producer.busy for producer in world.producers), "nobody waits for ever"

    for name in IDS:
        late = Producer(world, name, recovers=False)
        for _ in range(10):
            late.step()
            world.settle()
            if late.identity is not None:
                break
        assert late.identity is not None, f"{name}: no producer id"


def test_the_storm_reaches_every_state() -> None:
    """The proofs above cover all of them."""
    seen: set[tuple[State, State | None]] = set()
    codes: set[int] = set()
    for seed in range(20):
        world = World(seed)
        for _ in range(40):
            world.storm(20)
            assert world.host.shard is not None
            for transaction in world.host.shard.transactions.values():
                seen.add((transaction.state, transaction.pending))
        codes.update(code for work in world.works for code in work.outcomes)
    assert codes == {True, False}
    assert {state for state, _ in seen} == set(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}
    assert {pending for _, pending in seen} >= {None, *State} - {State.DEAD, State.PREPARE_EPOCH_FENCE}


def test_producer_ids_rotate_before_their_epochs_end() -> None:
    world = World(0)
    world.faults = False
    producer = Producer(world, "old", recovers=False)
    producer.step()
    world.settle()
    assert world.host.shard is not None
    assert producer.identity is not None
    first_id = producer.identity[0]
    transaction = world.host.shard.transactions["old"]
    transaction.epoch = EPOCH_MAX - 2
    epochs = []
    for _ in range(3):
        late = Producer(world, "old", recovers=False)
        late.step()
        world.settle()
        epochs.append(late.identity)
    assert epochs == [(first_id, EPOCH_MAX - 1), (world._producer_ids, 0), (world._producer_ids, 1)]
    assert world._producer_ids != first_id
