"""The promises for a record by how many replicas its topic has, how many of them `min.insync.replicas` asks for, and
what its producer waits for: the table in `docs/cluster.md`, cell by cell, under each fault.

The worst moment is made: the followers stand still while the last records are written, and the fault comes then. So an
acknowledgement that came without the followers is seen to be worth what the table says.
"""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.client.errors import ConnectionLost
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from tests.cluster import asking
from tests.cluster.kinds import OTTLA
from tests.cluster.network import need_namespaces
from tests.cluster.stand import Cluster, Member
from tests.support.client import batch, values
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
RECORDS, LAST_RECORDS = 5, 2
#: Long enough for the worst moment, in which followers stand still.
LAG_MS, SESSION_MS = 30_000, 8000
#: How long a write with acks=all waits for followers.
WRITE_MS = 500
ALL = "all"
ACKS = {"0": 0, "1": 1, ALL: -1}

KEPT, LOST = "kept", "may be lost"
ON, STOPS = "goes on", "stops"


class Kind(NamedTuple):
    """A topic, and what its producer waits for."""

    replicas: int
    least: int
    acks: str

    @property
    def topic(self) -> str:
        return f"replicas-{self.replicas}-least-{self.least}-acks-{self.acks}"


class Promise(NamedTuple):
    """The fate of acknowledged records, and of writing until the fault is over."""

    records: str
    writing: str


FAULTS = ("killed", "power", "two", "cut")
"""In the order of the table's columns."""


def promises() -> dict[Kind, dict[str, Promise]]:
    """The table of the page."""
    rows = re.findall(r"^\| (\d) \| (\d) \| (0|1|all) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    table = {}
    for replicas, least, acks, cells in rows:
        each = [Promise(*cell.split(", ")) for cell in cells.split(" | ")]
        table[Kind(int(replicas), int(least), acks)] = dict(zip(FAULTS, each, strict=True))
    return table


def test_the_table_has_what_people_choose() -> None:
    table = promises()
    asked = {(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)}
    assert {(kind.replicas, kind.least) for kind in table if kind.acks == ALL} == asked
    assert {kind.replicas for kind in table if kind.acks == "1"} == {1, 2, 3}
    assert any(kind.acks == "0" for kind in table)
    said = {promise for row in table.values() for promise in row.values()}
    assert {records for records, _ in said} == {KEPT, LOST}
    assert {writing for _, writing in said} == {ON, STOPS}


#: The tests that play the rows of the page's first table, by the first cells.
PLAYED = {
    "a follower dies": ["controller.test_early_removal.test_clients_go_on_soon"],
    "the leader dies": [
        "leaders.test_leader_dies.test_the_leader_is_killed_five_times",
        "test_promises.test_what_is_promised",
    ],
    "a broker falls silent (its machine or network fails, it stands still)": [
        "leaders.test_leader_stands_still.test_a_leader_goes_on_after_its_session",
        "leaders.test_cut_off.test_followers_that_do_not_hear_their_leaders_leave_in_time",
    ],
    "the leader is stopped (SIGTERM)": ["leaders.test_clean_stop.test_the_leader_is_stopped"],
    "two of three die": ["leaders.test_min_insync.test_reads_go_on_and_writes_are_refused"],
    "all die": [
        "leaders.test_last_in_sync.test_the_last_in_sync_returns_last",
        "leaders.test_last_in_sync.test_all_in_sync_die_at_once",
    ],
    "all die, and another comes back with `unclean.leader.election.enable=true`": [
        "leaders.test_elections.test_an_unclean_election_on_purpose"
    ],
    "ZooKeeper stands still or is away, and all brokers live": [
        "controller.test_stalls.test_all_is_led_after_zookeeper_stood_still",
        "tree.test_zookeeper_faults.test_zookeeper_is_away",
    ],
    "a machine loses its power": ["disks.test_power.test_the_leader_of_three_loses_power"],
    "the machines of all in sync lose their power at once": [
        "disks.test_power_of_all.test_the_power_of_all_goes_at_once"
    ],
    "the last one in sync loses its power, and others live": [
        "disks.test_power_and_leaders.test_the_last_in_sync_waits_for_an_operator"
    ],
    "a broker comes back without its log (a disk or a folder is missing)": [
        "disks.test_wrong_logs.test_all_die_and_the_leader_comes_back_without_its_log",
        "disks.test_wrong_logs.test_the_last_in_sync_comes_back_without_its_log",
    ],
    "a broker starts with a wrong tree (a mistyped chroot, a ZooKeeper that was emptied)": [
        "disks.test_wrong_logs.test_a_broker_is_started_with_a_tree_that_is_not_its_clusters"
    ],
    "an old replica comes back (its partition moved while it was away, or its topic was deleted and made anew)": [
        "disks.test_wrong_logs.test_old_replicas_come_back"
    ],
}


def test_each_row_of_the_first_table_is_played() -> None:
    table = PAGE.read_text().partition("## What is promised\n")[2].partition("\n\nWhere a process dies")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    assert rows.pop(0) == "what happens"
    assert rows == [*PLAYED]
    for name in [each for tests in PLAYED.values() for each in tests]:
        module, _, test = name.rpartition(".")
        assert callable(getattr(importlib.import_module(f"tests.cluster.{module}"), test))


class Topics:
    """One topic of each kind, all led by one broker, and what was acknowledged there."""

    def __init__(self, cluster: Cluster, kinds: Iterable[Kind]) -> None:
        self.cluster = cluster
        self.kinds = list(kinds)
        self.acknowledged: dict[Kind, list[bytes]] = {kind: [] for kind in self.kinds}
        #: The broker that only clients reach.
        self.cut_off: Member | None = None
        self._count = 0
        controller = cluster.broker(cluster.observer.controller()[0])
        #: The leader, and who is named after it. The last one is the controller, which sees what happens.
        self.brokers = [*(member for member in cluster.brokers if member is not controller), controller]
        with asking.client(cluster, controller) as client:
            for kind in self.kinds:
                client.create_on(kind.topic, {0: [member.id for member in self.brokers[: kind.replicas]]})
                settings = {"min.insync.replicas": str(kind.least), "flush.messages": str(2**63 - 1)}
                client.alter_topic(kind.topic, settings)
        cluster.all_in_sync(*(kind.topic for kind in self.kinds))
        eventually("all are led, and their settings are known", self._is_known)

    def _is_known(self) -> bool:
        """Of those that want more replicas than there are nothing can be told before a fault."""
        return self.write(self.kinds, self.brokers[0]) == set(self.kinds)

    def write(self, kinds: Iterable[Kind], member: Member) -> set[Kind]:
        """A record for each of these topics; those that were acknowledged, as their producers want it."""
        self._count += 1
        value, done = b"%d" % self._count, set()
        for acks, number in ACKS.items():
            asked = {kind.topic: kind for kind in kinds if kind.acks == acks}
            for topic in asked if number == 0 else ():
                if self._is_sent(member, topic, value):
                    done.add(asked[topic])
            if number == 0 or not asked:
                continue
            rows = [TopicProduceData(topic, [PartitionProduceData(0, batch(value))]) for topic in asked]
            request = ProduceRequest(acks=number, timeout_ms=WRITE_MS, topics=rows)
            with asking.client(self.cluster, member, timeout_ms=20_000) as client:
                answer = client.call(PRODUCE, request, 8)
            done |= {asked[topic.name] for topic in answer.responses for row in topic.partitions if not row.error_code}
        for kind in done:
            self.acknowledged[kind].append(value)
        return done

    def _is_sent(self, member: Member, topic: str, value: bytes) -> bool:
        """True if a write with acks=0 was taken: where one is not, the connection ends, which says so."""
        with asking.client(self.cluster, member, timeout_ms=20_000) as client, contextlib.suppress(ConnectionLost):
            client.produce_silently(topic, batch(value))
            # Its turn comes after the write's.
            return asking.last_offset(client, topic) is not None
        return False

    def calm(self) -> None:
        """All replicas have all."""
        for _ in range(RECORDS):
            assert self.write(self.kinds, self.brokers[0]) == set(self.kinds)

        def same() -> bool:
            for kind in self.kinds:
                ends = self.cluster.log_ends(kind.topic)[0]
                if len({ends[member.id - 1] for member in self.brokers[: kind.replicas]}) != 1:
                    return False
            return True

        eventually("all replicas have all", same)

    def last_moment(self) -> None:
        """The followers get nothing of what is written now."""
        alone = {kind for kind in self.kinds if kind.acks != ALL or kind.replicas == 1}
        for _ in range(LAST_RECORDS):
            done = self.write(self.kinds, self.brokers[0])
            assert done == alone, "acks=all waits for followers, and nothing else does"

    def go_on(self, kinds: set[Kind]) -> None:
        """These are written to, by others if need be."""
        left = set(kinds)

        def rest() -> bool:
            for member in self.cluster.brokers:
                leads = {kind for kind in left if self.cluster.observer.state(kind.topic).leader == member.id}
                if leads and member.running and member is not self.cut_off:
                    left.difference_update(self.write(leads, member))
            return not left

        eventually("writing goes on", rest, facts=lambda: {kind.topic: self._state(kind) for kind in left})

    def stand_still(self, kinds: set[Kind]) -> None:
        """Nobody takes writes to these."""
        for member in self.cluster.brokers:
            leads = {kind for kind in kinds if self.cluster.observer.state(kind.topic).leader == member.id}
            if leads and member.running and member is not self.cut_off:
                assert self.write(leads, member) == set()

    def _state(self, kind: Kind) -> object:
        return self.cluster.observer.state(kind.topic)

    def lost(self, kind: Kind) -> list[bytes]:
        """The values that were acknowledged, and cannot be read."""
        with asking.client(self.cluster, self.cluster.leader(kind.topic)) as client:

            def end() -> tuple[int] | None:
                offset = asking.last_offset(client, kind.topic)
                return None if offset is None else (offset,)

            (count,) = eventually("it is led", end)
            there: list[bytes | None] = []
            while len(there) < count:
                there += values(client.fetch(kind.topic, len(there)))
        return [value for value in self.acknowledged[kind] if value not in there]


@contextlib.contextmanager
def paused(*members: Member) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for member in members:
            stack.enter_context(member.paused())
        yield


@contextlib.contextmanager
def killed(topics: Topics) -> Iterator[None]:
    with gone(topics, Member.kill):
        yield


@contextlib.contextmanager
def power(topics: Topics) -> Iterator[None]:
    def lose(leader: Member) -> None:
        print(f"the leader lost {leader.lose_power()}")

    with gone(topics, lose):
        yield


@contextlib.contextmanager
def gone(topics: Topics, happen: Callable[[Member], None]) -> Iterator[None]:
    """Ends the leader, in the worst moment; in the end it comes back."""
    leader, *others = topics.brokers
    with paused(*others):
        topics.last_moment()
        happen(leader)
    yield
    leader.start()


@contextlib.contextmanager
def two(topics: Topics) -> Iterator[None]:
    """The second dies when it is known that the first is gone, and comes back before it."""
    leader, second, third = topics.brokers
    with paused(second):
        with paused(third):
            topics.last_moment()
            leader.kill()
        topics.cluster.leaves(leader)
        second.kill()
    yield
    second.start()
    leader.start()


@contextlib.contextmanager
def cut(topics: Topics) -> Iterator[None]:
    """Neither the other brokers nor ZooKeeper hear the leader; its clients do."""
    leader = topics.brokers[0]
    with topics.cluster.network.isolate(leader.name, but_for=("clients", "observer")):
        topics.last_moment()
        topics.cut_off = leader
        topics.cluster.leaves(leader)
        yield
    topics.cut_off = None
    topics.cluster.returns(leader)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(killed, id="killed"),
        pytest.param(power, id="power", marks=pytest.mark.soak),
        pytest.param(two, id="two", marks=pytest.mark.soak),
        pytest.param(cut, id="cut", marks=pytest.mark.judge),
    ],
)
def test_what_is_promised(tmp_path: Path, fault: Callable[[Topics], contextlib.AbstractContextManager[None]]) -> None:
    if fault is cut:
        need_namespaces()
    settings = {
        "replica.lag.time.max.ms": LAG_MS,
        "zookeeper.session.timeout.ms": SESSION_MS,
        # A leader that comes back leads again by its records, not by its place in the list.
        "auto.leader.rebalance.enable": "false",
    }
    promised = {kind: row[fault.__name__] for kind, row in promises().items()}
    with Cluster(tmp_path, OTTLA, settings=settings, forgetful=fault is power) as cluster:
        topics = Topics(cluster, promised)
        topics.calm()
        with fault(topics):
            topics.go_on({kind for kind, promise in promised.items() if promise.writing == ON})
            topics.stand_still({kind for kind, promise in promised.items() if promise.writing == STOPS})
        cluster.all_in_sync(*(kind.topic for kind in promised))
        found = {kind: LOST if topics.lost(kind) else KEPT for kind in promised}
        assert found == {kind: promise.records for kind, promise in promised.items()}
        topics.go_on(set(promised))
