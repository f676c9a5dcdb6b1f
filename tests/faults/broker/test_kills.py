"""kill -9 every two seconds, pauses and clean restarts, under the load of somebody else's clients: nothing is lost,
nothing comes twice, nothing aborted is read, no commit goes back, and a compacted topic holds the last of each key.

The process dies, the machine lives: what was written but not flushed survives (power cuts are the subject of
tests/faults/log). One run is shared by the tests of this module; each looks at it from its own side.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.replication.internal_topic import partition_for
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from tests.coordination.proxy import LossyProxy
from tests.faults.broker import settings
from tests.faults.broker.load import (
    CLIENT,
    COMPACTED,
    CONSUMER,
    COPIED,
    PARTITIONS,
    PLAIN,
    Churn,
    Client,
    Committer,
    Copier,
    Reader,
    Writer,
)
from tests.faults.broker.upheaval import REBORN, SHRUNK, SHRUNK_SEGMENT_BYTES, Abandoner, Mover, Recreator, Shrinker
from tests.faults.broker.victim import SESSION_MS, Victim
from tests.faults.checker import Operation, Outcome, Send, check, illegal
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.peers.skips import require
from tests.support.client import Client as BrokerClient
from tests.support.waiting import PATIENCE_S, eventually

try:
    import confluent_kafka as ck
except ImportError:
    ck = None

pytestmark = pytest.mark.clients
BETWEEN_S = 2.0
ROUND_S, SOAK_ROUND_S = 15.0, 60.0
#: A round goes on until there were so many kills, and each operator has done so much: a machine may be slow.
KILLS, DONE = 3, 4
SETTINGS = {
    "num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.cleaner.backoff.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 1 << 20,
    # The coordinators' logs are compacted all the time.
    "offsets.topic.segment.bytes": 20_000,
    "transaction.state.log.segment.bytes": 20_000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "group.min.session.timeout.ms": 1000,
    "log.segment.delete.delay.ms": 500,
}
DIRECTORIES = 2
INTERNAL = {"__consumer_offsets": 2, "__transaction_state": 2}
COMPACTION = {
    "cleanup_policy": "compact",
    "segment_bytes": "20000",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "86400000",
}


@dataclass
class Run:
    """The state after a run: the broker, still there, and what its clients remember."""

    victim: Victim
    writers: list[Writer]
    copier: Copier
    readers: list[Reader]
    committer: Committer
    churns: list[Churn]
    mover: Mover
    shrinker: Shrinker
    recreator: Recreator
    abandoner: Abandoner
    history: list[Operation]


def play(victim: Victim, seed: int, seconds: float) -> Run:
    """Load and faults for so long, and until there were enough; then everything that was begun is finished and read."""
    chance, bootstrap = random.Random(seed), victim.bootstrap
    with victim.connect() as client:
        for topic in (PLAIN, COPIED):
            client.create(topic, PARTITIONS)
        client.create(COMPACTED, 1, **COMPACTION)
        client.create(SHRUNK, 1, segment_bytes=str(SHRUNK_SEGMENT_BYTES))
    writers = [Writer(f"writer-{n}", bootstrap, seed, first=n << 32, per_round=5) for n in range(2)]
    copier, committer = Copier("copier", bootstrap, seed), Committer("committing", bootstrap, seed)
    # So that what a kill finds at the end of a partition is what the committer was told last.
    assert partition_for(copier.name, 2) != partition_for(committer.name, 2)
    readers = [Reader(f"reader-{level}", bootstrap, seed, committed=level) for level in (True, False)]
    churns = [Churn(f"churn-{kind}", bootstrap, seed, in_transactions=kind) for kind in (False, True)]
    movable = {PLAIN: PARTITIONS, COPIED: PARTITIONS, COMPACTED: 1, SHRUNK: 1, REBORN: 2, **INTERNAL}
    mover = Mover("mover", bootstrap, seed, victim.directories, movable)
    shrinker, recreator = Shrinker("shrinker", bootstrap, seed), Recreator("recreator", bootstrap, seed)
    abandoner = Abandoner("abandoner", bootstrap, seed)
    operators = [mover, shrinker, recreator, abandoner]
    everybody: list[Client] = [*writers, copier, committer, *readers, *churns, *operators]
    for one in everybody:
        one.start()
    end = time.monotonic() + seconds

    def enough() -> bool:
        done = (mover.moves, shrinker.deletions, recreator.lives, abandoner.abandoned)
        return victim.faults["kill"] >= KILLS and min(done) >= DONE

    while time.monotonic() < end or not (enough() or time.monotonic() > end + 5 * PATIENCE_S):
        time.sleep(BETWEEN_S)
        victim.hurt(chance)
    for one in [*writers, *churns, *operators]:
        one.end()
    with victim.connect() as client:
        ends = dict(zip(range(PARTITIONS), victim.ends(client, PLAIN, PARTITIONS, committed=True), strict=True))
        for group in (copier.name, committer.name):
            caught_up(victim, client, copier, group, ends)
        copier.end()
        committer.end()
        last = {
            (topic, index): offset
            for topic in (PLAIN, COPIED)
            for index, offset in enumerate(victim.ends(client, topic, PARTITIONS, committed=False))
        }
        for reader in readers:
            eventually(
                f"{reader.name} at the end",
                lambda reader=reader: reader.reached(last),  # type: ignore[misc]
                facts=lambda reader=reader: (  # type: ignore[misc]
                    reader.position,
                    victim.facts(client, {PLAIN: PARTITIONS, COPIED: PARTITIONS}),
                    copier.thrown_out,
                ),
            )
            reader.end()
    history = [operation for one in everybody for operation in one.history]
    return Run(victim, writers, copier, readers, committer, churns, mover, shrinker, recreator, abandoner, history)


def caught_up(victim: Victim, client: BrokerClient, copier: Copier, group: str, ends: dict[int, int]) -> None:
    """Waits until the group has committed all there is."""

    def commits(stable: bool) -> dict[int, tuple[int, int]]:
        copier.check()
        topics = [OffsetFetchRequestTopic(PLAIN, [*ends])]
        request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
        answer = client.call(OFFSET_FETCH, request, 7)
        rows = answer.topics[0].partitions if answer.topics else []
        return {row.partition_index: (row.error_code, row.committed_offset) for row in rows}

    def facts() -> object:
        topics = {PLAIN: PARTITIONS, COPIED: PARTITIONS, "__consumer_offsets": 2}
        return ends, commits(True), commits(False), copier.transactions, copier.thrown_out, victim.facts(client, topics)

    eventually(
        f"the end of {group}",
        lambda: commits(True) == {index: (0, end) for index, end in ends.items()},
        facts=facts,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    if ck is None:
        require("clients", "confluent-kafka is absent")
    with Brokers(tmp_path_factory.mktemp("kills")) as brokers:
        yield play(Victim(brokers, SETTINGS, directories=DIRECTORIES), settings.seed(), settings.seconds(ROUND_S))


def judge(run: Run) -> None:
    nothing_is_lost_or_twice(run)
    every_record_was_copied_once(run)
    commits_never_go_back(run)
    last_values_are_there(run)
    nothing_is_left_open(run)
    replicas_are_in_one_place(run)
    broker_did_not_complain(run)


def nothing_is_lost_or_twice(run: Run) -> None:
    found = illegal(check(run.history, drained=True))
    counts = Counter(anomaly.kind for anomaly in found)
    assert not found, f"{dict(counts)}\n" + "\n".join(map(str, found[:20]))
    assert sum(operation.outcome is Outcome.OK for writer in run.writers for operation in writer.history) > 1000


def every_record_was_copied_once(run: Run) -> None:
    """Checks that readers of committed records saw all of the original in the copy: each once, in its order."""
    reader = next(reader for reader in run.readers if reader.committed)
    originals: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
    copies: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
    for operation in reader.history:
        for poll in operation.steps:
            assert not isinstance(poll, Send)
            topic, index = poll.partition  # type: ignore[misc]
            target = originals if topic == PLAIN else copies
            target[index] += [Copier.original(value) for _, value in poll.records]  # type: ignore[arg-type]
    for index, expected in originals.items():
        differs = next((n for n, (a, b) in enumerate(zip(expected, copies[index], strict=False)) if a != b), None)
        place = f"partition {index}: {len(expected)} originals, {len(copies[index])} copies, different at {differs}"
        if differs is not None:
            first = {expected[differs], copies[index][differs]}
            pytest.fail(f"{place}\n" + "\n".join(attempts(run.copier, first)) + f"\n{run.copier.thrown_out}")
        assert len(expected) == len(copies[index]), place
    assert run.copier.fatal == [], f"after {run.copier.transactions} transactions"
    assert run.copier.transactions > 10


def attempts(copier: Copier, originals: set[int]) -> list[str]:
    """The transactions that read one of these, and those after each of them."""
    told, after = [], False
    for number, operation in enumerate(copier.history):
        polls = [step for step in operation.steps if not isinstance(step, Send)]
        touches = any(value in originals for poll in polls for _, value in poll.records)
        if touches or after:
            ranges = [(poll.partition, poll.records[0][0], poll.records[-1][0]) for poll in polls]
            told.append(f"{number}: {operation.outcome.name} {'has it' if touches else ''} {ranges}")
        after = touches
    return told


def commits_never_go_back(run: Run) -> None:
    assert run.committer.backwards == []
    assert run.committer.commits > 10


def last_values_are_there(run: Run) -> None:
    """Tombstones too: their time has not come."""
    found: dict[str, str | None] = {}
    reader = ck.Consumer(
        {
            "bootstrap.servers": run.victim.bootstrap,
            **CLIENT,
            **CONSUMER,
            "group.id": "judge",
            "isolation.level": "read_committed",
        }
    )
    with run.victim.connect() as client:
        (end,) = run.victim.ends(client, COMPACTED, 1, committed=True)
    reader.assign([ck.TopicPartition(COMPACTED, 0, 0)])
    count = 0

    def at_the_end() -> bool:
        nonlocal count
        for message in reader.consume(1000, 0.2):
            assert message.error() is None, message.error()
            value = message.value()
            found[message.key().decode()] = None if value is None else value.decode()
            count += 1
        (place,) = reader.position([ck.TopicPartition(COMPACTED, 0)])
        return place.offset >= end

    eventually("the end of the compacted topic", at_the_end)
    reader.close()
    model = {key: value for churn in run.churns for key, value in churn.model.items()}
    doubtful = {key: values for churn in run.churns for key, values in churn.doubtful.items()}
    for key in model.keys() | found.keys():
        allowed = {model.get(key)} | doubtful.get(key, set())
        assert key in found, f"{key} is gone, it was {model[key]!r}"
        assert found[key] in allowed, f"{key} is {found[key]!r}, not one of {allowed}"
    written = sum(churn.written for churn in run.churns)
    assert count < written / 2, f"{count} of {written} records are left: it was not compacted"


def nothing_is_left_open(run: Run) -> None:
    """The last stable offset is the high watermark again, and no transaction waits for its end."""
    victim = run.victim
    with victim.connect() as client:
        eventually("the end of all transactions", lambda: not victim.open_transactions(client))
        for topic, partitions in [(PLAIN, PARTITIONS), (COPIED, PARTITIONS), (COMPACTED, 1)]:
            stable = victim.ends(client, topic, partitions, committed=True)
            assert stable == victim.ends(client, topic, partitions, committed=False), topic


def replicas_are_in_one_place(run: Run) -> None:
    """No copy is left of a replica that moved or was deleted, and whatever was begun came to its end."""
    done = (run.mover.moves, run.shrinker.deletions, run.recreator.lives, run.abandoner.abandoned)
    assert min(done) >= DONE, done

    def left() -> list[str]:
        names = [path.name for folder in run.victim.directories for path in folder.iterdir() if path.is_dir()]
        return sorted(
            name for name in set(names) if names.count(name) > 1 or name.startswith(REBORN) or "." in name.strip("_")
        )

    eventually("one folder for each replica", lambda: not left(), facts=left)


def broker_did_not_complain(run: Run) -> None:
    said = "".join(path.read_text(errors="replace") for path in run.victim.logs)
    assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:3000]


def test_the_broker_was_hurt(run: Run) -> None:
    print(run.victim.faults, run.copier.transactions, run.committer.commits, run.committer.members)
    print(run.mover.moves, run.shrinker.deletions, run.recreator.lives, run.abandoner.abandoned)
    assert run.victim.faults["kill"] >= KILLS


def test_nothing_is_lost_or_twice(run: Run) -> None:
    nothing_is_lost_or_twice(run)


def test_every_record_was_copied_once(run: Run) -> None:
    every_record_was_copied_once(run)


def test_commits_never_go_back(run: Run) -> None:
    commits_never_go_back(run)


def test_the_compacted_topic_holds_the_last_of_each_key(run: Run) -> None:
    last_values_are_there(run)


def test_nothing_is_left_open(run: Run) -> None:
    nothing_is_left_open(run)


def test_replicas_are_in_one_place(run: Run) -> None:
    replicas_are_in_one_place(run)


def test_the_broker_did_not_complain(run: Run) -> None:
    broker_did_not_complain(run)


@pytest.mark.soak
@pytest.mark.zookeeper
@pytest.mark.parametrize("tree", ["embedded", "zookeeper"])
def test_for_a_long_time(tmp_path: Path, tree: str) -> None:
    """Run after run, each with a seed of its own and on a new directory. A ZooKeeper is killed too, sessions expire,
    and now and then an answer is lost with its connection.
    """
    chance = random.Random(settings.seed())
    for _ in settings.until(time.monotonic() + settings.seconds(900)):
        seed = chance.randrange(1 << 32)
        print(f"round with seed {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        with ExitStack() as stack:
            apache, brokers = stack.enter_context(Apache(folder)), stack.enter_context(Brokers(folder))
            if tree == "embedded":
                victim = Victim(brokers, SETTINGS, directories=DIRECTORIES)
            else:
                port = free_port()
                proxy = stack.enter_context(LossyProxy(("127.0.0.1", port)))
                proxy.lose_after(iter(lambda: chance.randrange(5, 200), None))
                victim = Victim(
                    brokers,
                    # A server that starts writes its files first, which takes seconds on a busy disk.
                    SETTINGS | {"zookeeper.session.timeout.ms": SESSION_MS, "zookeeper.connection.timeout.ms": 60_000},
                    f"127.0.0.1:{proxy.port}",
                    directories=DIRECTORIES,
                    own_zookeeper=lambda: apache.zookeeper_server(port=port)[0],  # noqa: B023
                )
            judge(play(victim, seed, SOAK_ROUND_S))
