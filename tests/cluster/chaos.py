"""Everything that may befall a cluster, one thing after another, and a record of it with its times.

Each fault ends before the next one begins, but not what it has left behind: a follower that is not in sync yet, a
controller that is new. `Chaos.strike` draws a fault by the seed's chance. What it did stands in the output, by the time
since the beginning and by the clock, as the brokers' logs have it.
"""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from kazoo.exceptions import KazooException

from ottla.kafka import TopicPartition
from tests.cluster import asking
from tests.cluster.orders import Targets, assigned, order
from tests.cluster.replicas import partitions
from tests.cluster.rounds import Round
from tests.cluster.stand import SESSION_MS, Cluster, Member, ZooKeeper
from tests.support.waiting import eventually

#: After a fault: a session ends, a leader is elected, a producer that has waited comes back.
RECOVERY_S = 120.0
#: The lengths of faults that last for a time, because nothing that could be waited for comes of it.
SHORT_S, LONG_S = 1.0, 1.5 * SESSION_MS / 1000
#: The words of a broker when a log directory has failed.
NOTICED = "offline until a restart"
INTERNAL = ("__consumer_offsets", "__transaction_state")


class Chaos:
    """Faults of a cluster in network namespaces, one of whose brokers has two log directories."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster, self.chance = cluster, chance
        self.began = time.monotonic()
        self.counts: Counter[str] = Counter()
        self._said = ""

    def say(self, what: str) -> None:
        self._said = what
        print(f"{time.monotonic() - self.began:7.1f} s, {time.strftime('%H:%M:%S')}: {what}", flush=True)

    def strike(self, load: Round, *, ending: bool = True) -> None:
        """One fault, until it is over and writes go on. `ending` says whether it may end a broker's process."""
        lasting: list[Callable[[Round], None]] = [
            self.pauses,
            self.pauses_for_a_moment,
            self.cuts,
            self.isolates,
            self.takes_zookeeper_away,
            self.kills_a_zookeeper,
            self.pauses_a_zookeeper,
            self.pauses_all_zookeepers,
            self.moves,
        ]
        # Twice: kills are what happens most.
        ends = [*2 * [self.kills], self.stops, self.kills_two, self.kills_in_a_move, self.fails_a_directory]
        self._do(self.chance.choice(lasting + (ends if ending else [])), load)

    def _do(self, fault: Callable[[Round], None], load: Round) -> None:
        self.counts[fault.__name__] += 1
        fault(load)
        load.writes(50, RECOVERY_S)
        self.say("writes go on")

    def heal(self, load: Round) -> None:
        """All brokers are registered, all replicas in sync, and transactions go on."""
        for member in self.cluster.brokers:
            self.cluster.returns(member)
        self.cluster.all_in_sync(*load.topics, load.compacted, *INTERNAL, timeout_s=RECOVERY_S)
        load.flows(50, RECOVERY_S)
        self.say("all is well")

    def _anyone(self) -> Member:
        return self.chance.choice(self.cluster.brokers)

    def _for(self, load: Round, seconds: float) -> None:
        """So long, unless a client fails."""
        until = time.monotonic() + seconds
        load.wait("a fault's time is over", lambda: time.monotonic() > until, RECOVERY_S)

    # What ends a process.

    def _away(self, member: Member, load: Round) -> None:
        """Until writes go on without it, or for a moment only."""
        if self.chance.random() < 0.7:
            load.writes(50, RECOVERY_S)
        self.say(f"{member.name} starts")
        member.start()

    def kills(self, load: Round) -> None:
        member = self._anyone()
        self.say(f"{member.name} is killed")
        member.kill()
        self._away(member, load)

    def stops(self, load: Round) -> None:
        member = self._anyone()
        self.say(f"{member.name} is stopped")
        member.stop()
        self._away(member, load)

    def kills_two(self, load: Round) -> None:
        """Nothing can be written until one of them is back."""
        pair = self.chance.sample(self.cluster.brokers, 2)
        for member in pair:
            self.say(f"{member.name} is killed")
            member.kill()
        self._for(load, self.chance.uniform(0, LONG_S))
        for member in pair:
            self.say(f"{member.name} starts")
            member.start()

    def fails_a_directory(self, load: Round) -> None:
        """Of the broker that has two, one is not there for a while; after a restart with both all is well."""
        (member,) = [one for one in self.cluster.brokers if one.more_data is not None]
        logs = member.more_data
        assert logs is not None
        away = logs.with_name("away")
        self.say(f"a directory of {member.name} fails")
        logs.rename(away)
        try:
            eventually(f"{member.name} notices", lambda: NOTICED in member.server.output(), RECOVERY_S)
            load.writes(50, RECOVERY_S)
            self.say(f"{member.name} is stopped")
            member.stop()
        finally:
            away.rename(logs)
        self._away(member, load)

    # What does not.

    def pauses(self, load: Round) -> None:
        """Until the others go on without it."""
        member = self._anyone()
        self.say(f"{member.name} stands still")
        with member.paused():
            self.cluster.leaves(member)
            load.writes(50, RECOVERY_S)
        self.say(f"{member.name} goes on")
        self.cluster.returns(member)

    def pauses_for_a_moment(self, load: Round) -> None:
        member = self._anyone()
        self.say(f"{member.name} stands still for a moment")
        with member.paused():
            self._for(load, self.chance.uniform(SHORT_S, LONG_S))

    def cuts(self, load: Round) -> None:
        """Two brokers do not hear each other, or one the other. Where one is the controller, writes may stand still."""
        one, other = self.chance.sample(self.cluster.brokers, 2)
        ways = (self.cluster.network.cut, self.cluster.network.cut_one_way)
        cut = self.chance.choice(ways)
        self.say(f"{cut.__name__} {one.name} {other.name}")
        with cut(one.name, other.name):
            self._for(load, self.chance.uniform(SHORT_S, LONG_S))
        self.say("the cut is healed")

    def isolates(self, load: Round) -> None:
        """Only clients and the observer hear a broker."""
        member = self._anyone()
        self.say(f"{member.name} is cut off")
        with self.cluster.network.isolate(member.name, but_for=("clients", "observer")):
            self.cluster.leaves(member)
            load.writes(50, RECOVERY_S)
        self.say(f"{member.name} is back")
        self.cluster.returns(member)

    def takes_zookeeper_away(self, load: Round) -> None:
        """A broker does not hear ZooKeeper, longer or shorter than its session."""
        member = self._anyone()
        self.say(f"{member.name} does not hear ZooKeeper")
        with ExitStack() as stack:
            for zookeeper in self.cluster.zookeepers:
                stack.enter_context(self.cluster.network.cut(member.name, zookeeper.name))
            self._for(load, self.chance.uniform(SHORT_S, 2 * LONG_S))
        self.say(f"{member.name} hears ZooKeeper")
        self.cluster.returns(member)

    def kills_a_zookeeper(self, load: Round) -> None:
        zookeeper = self._a_zookeeper()
        self.say(f"{zookeeper.name}, {zookeeper.mode()}, is killed")
        zookeeper.kill()
        load.writes(50, RECOVERY_S)
        self.say(f"{zookeeper.name} starts")
        zookeeper.start()
        self._tree()

    def pauses_a_zookeeper(self, load: Round) -> None:
        zookeeper = self._a_zookeeper()
        self.say(f"{zookeeper.name}, {zookeeper.mode()}, stands still")
        with zookeeper.paused():
            self._for(load, self.chance.uniform(SHORT_S, 2 * LONG_S))
        self.say(f"{zookeeper.name} goes on")
        self._tree()

    def pauses_all_zookeepers(self, load: Round) -> None:
        self.say("all ZooKeepers stand still")
        with ExitStack() as stack:
            for zookeeper in self.cluster.zookeepers:
                stack.enter_context(zookeeper.paused())
            self._for(load, self.chance.uniform(SHORT_S, 2 * LONG_S))
        self.say("all ZooKeepers go on")
        self._tree()

    def _a_zookeeper(self) -> ZooKeeper:
        return self.chance.choice(self.cluster.zookeepers)

    def _tree(self) -> None:
        """Waits until the ensemble serves, and all brokers have sessions."""

        def serves() -> bool:
            with contextlib.suppress(KazooException):
                return len(self.cluster.observer.registered()) == len(self.cluster.brokers)
            return False

        eventually("all brokers are registered in the tree", serves, RECOVERY_S)

    def moves(self, load: Round) -> None:
        """At its end nobody has a replica of what moved away."""

        def left_behind() -> list[TopicPartition]:
            folders = {name: partitions(self.cluster.directories, name.topic)[name.partition] for name in targets}
            return [name for name, replicas in targets.items() if len(folders[name]) != len(replicas or ())]

        for targets in self._targets(load):
            self._order(targets)
            self._moved(targets)
            eventually("what moved is gone", lambda: not left_behind(), facts=left_behind)

    def kills_in_a_move(self, load: Round) -> None:
        """A controller that dies when it has written the end of a move, and told nobody yet, leaves a replica behind
        where it is no more. Kafka's does so too; it is deleted at that broker's next start, or taken up again here.
        """
        for targets in self._targets(load):
            self._order(targets)
            member = self._anyone()
            self.say(f"{member.name} is killed")
            member.kill()
            # Where it is one of two that are left, nothing can be written until it is back.
            self._for(load, self.chance.uniform(0, SHORT_S))
            self.say(f"{member.name} starts")
            member.start()
            self._moved(targets)

    def _targets(self, load: Round) -> Iterator[Targets]:
        """Some partitions go to two brokers, and come back to three in another order: each has lost a replica, or has
        another leader.
        """
        topics = (*load.topics, load.compacted, *INTERNAL)
        self.cluster.all_in_sync(*topics, timeout_s=RECOVERY_S)
        names = [TopicPartition(topic, index) for topic in topics for index in self.cluster.observer.assignment(topic)]
        chosen = self.chance.sample(names, self.chance.randint(1, len(names)))
        for count in (2, 3):
            self.say(f"{len(chosen)} partitions move to {count} brokers each")
            yield {name: self._some(count) for name in chosen}
            self.say("they have moved")

    def _order(self, targets: Targets) -> None:
        told = order(self.cluster, targets)
        assert set(told.values()) == {"NONE"}, told

    def _moved(self, targets: Targets) -> None:
        """Waits until the moves are over: a partition that is on its way may be assigned as it will be already."""

        topics = {name.topic for name in targets}

        def over() -> bool:
            moving = any(self.cluster.observer.moving(topic) for topic in topics)
            return assigned(self.cluster, targets) == dict(targets) and not moving

        eventually("the moves are over", over, RECOVERY_S, facts=lambda: (assigned(self.cluster, targets), targets))
        self.cluster.all_in_sync(*topics, timeout_s=RECOVERY_S)

    def _some(self, count: int) -> list[int]:
        return self.chance.sample([member.id for member in self.cluster.brokers], count)


def left_open(cluster: Cluster, topics: Sequence[str]) -> None:
    """Waits until no transaction is open: one that was left open ends by its time limit."""
    eventually(
        "all transactions have ended",
        lambda: not asking.open_transactions(cluster, *topics),
        RECOVERY_S,
        facts=lambda: asking.open_transactions(cluster, *topics),
    )
