"""Exactly once against real brokers, without Spark: drivers that are killed, that live too long, and that are late."""

import json
import random
import threading
from contextlib import suppress

import pytest
import trio

from ottla.client import Cluster, TransactionalProducer
from ottla.client.partitioner import keyed
from ottla.client.transactional import fence
from ottla.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from ottla.spark.sink import commit
from ottla.spark.sink.protocol import (
    TOPIC,
    BatchTooLong,
    CheckpointRolledBack,
    Contents,
    Decision,
    DecisionMissing,
    Report,
    TransactionLost,
    check_same,
)
from ottla.wire.k26_end_txn import END_TXN
from tests.peers.ottla import Brokers
from tests.peers.proxy import PRODUCE, HoldingProxy
from tests.spark.queries import Killed, Query, Run
from tests.spark.topics import Topics
from tests.support.waiting import PATIENCE_S, eventually

TASKS = 4
# Where drivers are killed, and how many of the tasks' transactions are open then.
POINTS = {"before-decision": 4, "decided": 4, "between-ends": 3, "before-done": 0, "committed": 0}


@pytest.fixture(params=["ottla", pytest.param("apache", marks=[pytest.mark.java, pytest.mark.judge])])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Our broker and Apache Kafka 3.9, one after the other."""
    found: Topics = request.getfixturevalue("topics" if request.param == "ottla" else "apache_topics")
    return found.bootstrap


def until_open(query: Query, count: int) -> None:
    """Waits until the query has only `count` open transactions."""
    eventually(f"{count} are open", lambda: len(query.open_transactions()) == count, facts=query.open_transactions)


@pytest.mark.parametrize(("point", "still_open"), POINTS.items())
def test_a_driver_is_killed(bootstrap: str, point: str, still_open: int) -> None:
    query = Query(bootstrap)
    first = query.run()
    first.batch(0, query.rows(0), 3)
    reports = [first.task(1, query.rows(1)[number::TASKS]) for number in range(TASKS)]
    assert len(query.open_transactions()) == TASKS
    with pytest.raises(Killed, match=point):
        first.commit(1, reports, kill_at=point)
    assert len(query.open_transactions()) == still_open

    # Fewer tasks, other rows in each, one of them empty.
    second = query.run()
    again = [second.task(1, query.rows(1)[:150]), second.task(1, query.rows(1)[150:]), second.task(1, [])]
    decided = point != "before-decision"
    assert [report.skipped for report in again] == [decided] * 3
    assert again[2].transaction is None
    second.commit(1, again)
    second.batch(2, query.rows(2), 2)
    query.check()


@pytest.mark.parametrize("when", ["before the replay's commit", "after it"])
@pytest.mark.parametrize("held", [PRODUCE, END_TXN.key], ids=["append", "end"])
def test_a_decision_is_late(bootstrap: str, held: int, when: str) -> None:
    query = Query(bootstrap)
    query.run().batch(0, query.rows(0), 2)
    problems: list[BaseException] = []
    with HoldingProxy(int(bootstrap.rpartition(":")[2]), held) as proxy:
        late = query.run(proxy.bootstrap)
        direct = query.run()
        reports = [direct.attempt(query.rows(1)[number::TASKS]) for number in range(TASKS)]

        def decide() -> None:
            try:
                late.commit(1, reports)
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=decide)
        thread.start()
        assert proxy.holds.wait(PATIENCE_S)
        assert len(query.open_transactions()) == TASKS + 1, "the decision's own is open too"
        replay = query.run()
        again = [replay.task(1, query.rows(1)[number::2]) for number in range(2)]
        assert not any(report.skipped for report in again)
        if when == "after it":
            replay.commit(1, again)
            proxy.release()
            thread.join(PATIENCE_S)
        else:
            proxy.release()
            thread.join(PATIENCE_S)
            replay.commit(1, again)
        assert not thread.is_alive()
    if when == "after it":
        assert isinstance(problems[0], KafkaError), problems
    replay.batch(2, query.rows(2), 3)
    query.check()


def test_a_driver_lives_on_beside_its_successor(bootstrap: str) -> None:
    query = Query(bootstrap)
    old, new = query.run(), query.run()
    old.batch(0, query.rows(0), 2)
    reports = [old.attempt(query.rows(1)[number::3]) for number in range(3)]
    new.batch(1, query.rows(1), 2)
    ahead = [new.attempt(query.rows(2)[number::2]) for number in range(2)]
    old.commit(1, reports)  # finds it decided
    assert len(query.open_transactions()) == 2, "it ends its own, not its successor's"
    with pytest.raises(CheckpointRolledBack):
        old.commit(0, [])
    new.commit(2, ahead)
    query.check()


def test_two_attempts_of_a_task(bootstrap: str) -> None:
    query = Query(bootstrap)
    run = query.run()
    reports = [run.task(0, query.rows(0)[number::2]) for number in range(2)]
    run.task(0, query.rows(0)[1::2])
    assert len(query.open_transactions()) == 3
    run.commit(0, reports)
    query.check()


def test_a_batch_is_aborted_unless_it_is_decided(bootstrap: str) -> None:
    query = Query(bootstrap)
    run = query.run()
    reports = [run.task(0, query.rows(0)[number::2]) for number in range(2)]
    run.abort(0, reports)
    assert not query.open_transactions()
    with pytest.raises(BatchTooLong):
        run.commit(0, reports)
    reports = [run.task(0, query.rows(0)[number::3]) for number in range(3)]
    with pytest.raises(Killed):
        run.commit(0, reports, kill_at="between-ends")
    run.abort(0, reports)
    assert len(query.open_transactions()) == 2, "a decided batch's transactions are left to be committed"
    run.commit(0, reports)
    query.check()


def test_a_batch_takes_longer_than_its_transactions(bootstrap: str) -> None:
    query = Query(bootstrap, kafka__transaction__timeout__ms=1_000)
    run = query.run()
    reports = [run.task(0, query.rows(0)[number::2]) for number in range(2)]
    assert len(query.open_transactions()) == 2
    until_open(query, 0)
    with pytest.raises(BatchTooLong, match=r"transaction\.timeout\.ms is 1000"):
        run.commit(0, reports)
    run.abort(0, reports)
    query.run().batch(0, query.rows(0), 2)
    query.check()


def test_rows_that_were_decided_are_lost(bootstrap: str) -> None:
    query = Query(bootstrap)
    run = query.run()
    reports = [run.task(0, query.rows(0)[number::TASKS]) for number in range(TASKS)]
    with pytest.raises(Killed):
        run.commit(0, reports, kill_at="decided")
    stolen = reports[2].transaction
    assert stolen is not None

    async def steal() -> None:
        async with Cluster(bootstrap) as cluster:
            await fence(cluster, stolen.transactional_id)

    trio.run(steal)
    second = query.run()
    skipped = second.task(0, query.rows(0))
    for _ in range(2):  # each time again: it is never forgotten
        with pytest.raises(TransactionLost, match=r"1 of its 4 transactions .* 50 of 200 rows are missing"):
            second.commit(0, [skipped])
    query.input -= query.input.__class__(query.rows(0)[2::TASKS])
    query.check()


def test_a_checkpoint_is_rolled_back(bootstrap: str) -> None:
    query = Query(bootstrap)
    run = query.run()
    for batch_id in range(3):
        run.batch(batch_id, query.rows(batch_id), 2)
    late = query.run()
    with pytest.raises(CheckpointRolledBack, match=r"batch 1 .* committed batch 2"):
        late.task(1, query.rows(1))
    with pytest.raises(DecisionMissing, match="batch 3"):
        late.commit(3, [Report(True, None)])
    query.check()


@pytest.mark.parametrize("kill_at", [None, "between-ends"])
@pytest.mark.parametrize("plan", [None, "planned before"])
def test_a_checkpoint_is_rolled_back_by_one_batch(bootstrap: str, plan: str | None, kill_at: str | None) -> None:
    """The batch has more rows now, under the same number; what was decided of it is committed all the same."""
    query = Query(bootstrap)
    run = query.run()
    run.batch(0, query.rows(0), 2)
    reports = [run.task(1, query.rows(1, 7)[number::2]) for number in range(2)]
    with suppress(Killed):
        run.commit(1, reports, kill_at=kill_at, plan=plan)
    later = query.run()
    more = [*query.rows(1, 7), "one more"]
    for _ in range(2):
        with pytest.raises(CheckpointRolledBack, match=r"batch 1 .* 7 rows for .* 8 rows for"):
            later.commit(1, [later.task(1, more)], plan=plan and "planned anew")
    query.check()


def test_a_plan_tells_batches_apart_that_have_as_many_rows(bootstrap: str) -> None:
    query = Query(bootstrap)
    query.run().commit(0, [query.run().attempt(query.rows(0))], plan="planned before")
    again = query.run()
    with pytest.raises(CheckpointRolledBack):
        again.commit(0, [again.task(0, query.rows(0))], plan="planned anew")
    # Rows may come out otherwise when they are computed again: the plan is the same.
    again.commit(0, [again.task(0, query.rows(0)[1:])], plan="planned before")
    query.check()


def test_a_checkpoint_is_copied_to_write_to_another_topic(bootstrap: str) -> None:
    query, copied = Query(bootstrap), Query(bootstrap)
    query.run().commit(0, [query.run().attempt(query.rows(0, 8))], plan="the same")
    copied.id = query.id
    run = copied.run()
    with pytest.raises(CheckpointRolledBack, match=f"8 rows for {query.topic}. Now .* 8 rows for {copied.topic}"):
        run.commit(0, [run.task(0, query.rows(0, 8))], plan="the same")
    query.check()


def test_a_decision_of_an_earlier_version_counts_no_rows() -> None:
    old = json.loads(Decision(3, "run", (), Contents({"t": 5}, "plan")).encode())
    del old["rows"], old["plan"]
    found = Decision.decode(json.dumps(old).encode())
    assert found == Decision(3, "run", ())
    check_same(found, Contents({"t": 6}, "other"), "t")


def test_a_broker_is_killed(brokers: Brokers) -> None:
    broker = brokers()
    query = Query(broker.bootstrap)
    run = query.run()
    run.batch(0, query.rows(0), 2)
    for batch_id, point in enumerate(("before-decision", "between-ends"), 1):
        reports = [run.task(batch_id, query.rows(batch_id)[number::3]) for number in range(3)]
        with pytest.raises(Killed):
            run.commit(batch_id, reports, kill_at=point)
        assert len(query.open_transactions()) >= 2
        broker.kill()
        broker = brokers.restart(broker)
        run = query.run()
        run.batch(batch_id, query.rows(batch_id), 2)
    query.check()


def test_a_driver_is_fenced_while_it_decides(bootstrap: str) -> None:
    query = Query(bootstrap)
    run = query.run()
    reports = [run.task(0, query.rows(0)[number::2]) for number in range(2)]
    other = query.run()

    async def interrupted() -> None:
        async def reached(point: str) -> None:
            if point == "before-decision":
                async with Cluster(bootstrap) as cluster:
                    await fence(cluster, run.names.decision)

        await commit.commit(run.options, run.names, 0, reports, reached)

    with pytest.raises((ProducerFenced, InvalidProducerEpoch)):
        trio.run(interrupted)
    other.batch(0, query.rows(0), 2)
    query.check()


def test_what_other_queries_have_open_hides_no_decision(bootstrap: str) -> None:
    query = Query(bootstrap)
    run = query.run()
    reports = [run.task(0, query.rows(0)[number::2]) for number in range(2)]

    async def reached(point: str) -> None:
        if point == "decided":
            raise Killed(point)
        async with Cluster(bootstrap) as cluster:
            numbers = await cluster.partitions(TOPIC)
            place = keyed(run.names.key.encode(), len(numbers))
            settings = {"linger_ms": 0, "transaction_timeout_ms": 1_000}
            async with TransactionalProducer(cluster, f"stranger-{query.id}", **settings) as stranger:
                stranger.begin()
                await stranger.send(TOPIC, b"", key=b"stranger", partition=place)
                await stranger.flush()

    with pytest.raises(Killed):
        trio.run(commit.commit, run.options, run.names, 0, reports, reached)
    second = query.run()
    again = [second.task(0, query.rows(0)[number::3]) for number in range(3)]
    assert not any(report.skipped for report in again), "it is hidden still"
    second.commit(0, again)
    query.check()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 50))])
def test_random_kills(bootstrap: str, seed: int) -> None:
    """Drivers are killed anywhere, fail, come back from the dead between the steps of their successors, and commit or
    abort what they had.
    """
    chance = random.Random(seed)
    query = Query(bootstrap)
    run = query.run()
    ghosts: list[tuple[Run, int, list[Report]]] = []
    batch_id = 0
    while batch_id < 6:
        rows = query.rows(batch_id, 100)
        tasks = chance.randint(1, 5)
        reports = [run.task(batch_id, rows[number::tasks]) for number in range(tasks)]
        if chance.random() < 0.3:
            run.attempt(rows[::tasks])  # a speculative attempt that lost
        if ghosts and chance.random() < 0.4:
            ghost, old_batch_id, old_reports = chance.choice(ghosts)
            end = chance.choice([ghost.commit, ghost.abort])
            with suppress(KafkaError, CheckpointRolledBack, BatchTooLong):
                end(old_batch_id, old_reports)
        try:
            run.commit(batch_id, reports, kill_at=chance.choice([None, *POINTS]))
        except (Killed, BatchTooLong):
            ghosts.append((run, batch_id, reports))
            if chance.random() < 0.3:
                run.abort(batch_id, reports)
            run = query.run()
        else:
            batch_id += 1
    query.check()
