"""Changes of the in-sync replicas by request to a scripted controller (AlterIsr), with the tree beside it."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from ottla.broker.metadata_cache import MetadataCache
from ottla.coordination import znodes
from ottla.coordination.tree import ConnectionLoss
from ottla.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    OperationNotAttempted,
    ProtocolError,
    RemoteProtocolError,
    StaleBrokerEpoch,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.peers import Peers
from ottla.replication.isr_changes import IsrChanges
from ottla.replication.isr_proposals import BACKOFF_MS, REFUSED_MS
from ottla.replication.partition import Partition
from ottla.wire.k56_alter_isr import (
    AlterIsrRequest,
    AlterIsrResponse,
    AlterIsrResponsePartition,
    AlterIsrResponseTopic,
)
from tests.replication.followers import ScriptedPeers
from tests.replication.leaders import EPOCH, ME, REPLICAS, SECOND, THIRD, Led, fetch, lag, led, waits
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio

CONTROLLER, NEXT = 8, 9
BROKER_EPOCH = 77


@dataclass
class Stand:
    led: Led
    changes: IsrChanges
    peers: ScriptedPeers
    cache: MetadataCache
    broker_epoch: int = BROKER_EPOCH

    @property
    def asked(self) -> list[AlterIsrRequest]:
        return [message for _, _, message, _ in self.peers.asked]

    @property
    def controllers(self) -> list[int]:
        return [broker for broker, *_ in self.peers.asked]

    def rows(self, number: int = -1) -> list[tuple[int, int, list[int], int]]:
        """The rows of a request: partition, leader epoch, ISR and version."""
        return [
            (row.partition_index, row.leader_epoch, row.new_isr, row.current_isr_version)
            for topic in self.asked[number].topics
            for row in topic.partitions
        ]

    def becomes_controller(self, broker: int) -> None:
        self.cache.controller_id = broker
        self.cache.changed()

    async def until(self, condition: Callable[[], Any]) -> None:
        await comes_true("the condition of the test", condition)


@asynccontextmanager
async def changing(path: Path) -> AsyncIterator[Stand]:
    cache, peers = MetadataCache(controller_id=CONTROLLER), ScriptedPeers()
    async with led(path) as here, trio.open_nursery() as nursery:
        stand: Stand
        changes = IsrChanges(
            ME,
            cast("Peers", peers),
            here.tree,
            controller=lambda: cache.controller_id,
            told=cache.wait_until,
            broker_epoch=lambda: stand.broker_epoch,
        )
        stand = Stand(here, changes, peers, cache)
        here.propose = changes.propose
        nursery.start_soon(changes.run)
        yield stand
        nursery.cancel_scope.cancel()


def made(asked: AlterIsrRequest) -> AlterIsrResponse:
    """Everything is done as it is asked for."""
    answer = AlterIsrResponse()
    for topic in asked.topics:
        rows = [
            AlterIsrResponsePartition(
                partition_index=row.partition_index,
                leader_id=asked.broker_id,
                leader_epoch=row.leader_epoch,
                isr=row.new_isr,
                current_isr_version=row.current_isr_version + 1,
            )
            for row in topic.partitions
        ]
        answer.topics.append(AlterIsrResponseTopic(name=topic.name, partitions=rows))
    return answer


def refused(*codes: int) -> Callable[[AlterIsrRequest], AlterIsrResponse]:
    """Each row gets its code; 0 is done."""

    def answer(asked: AlterIsrRequest) -> AlterIsrResponse:
        answer = made(asked)
        rows = [row for topic in answer.topics for row in topic.partitions]
        for row, code in zip(rows, codes, strict=True):
            row.error_code = code
        return answer

    return answer


def without(broker: int) -> Callable[[AlterIsrRequest], AlterIsrResponse]:
    """Each row is answered with the state that it had before, in which the broker is not."""

    def answer(asked: AlterIsrRequest) -> AlterIsrResponse:
        answer = made(asked)
        for topic in answer.topics:
            for row in topic.partitions:
                row.isr = [replica for replica in row.isr if replica != broker]
                row.current_isr_version -= 1
        return answer

    return answer


def said(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


async def test_a_follower_that_lags_leaves_and_one_that_has_come_joins(tmp_path: Path) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        assert partition.state is not None
        version = partition.state.zk_version
        stand.peers.answers = [made, made]
        lag(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        assert partition.isr == (ME, SECOND)
        assert stand.rows() == [(0, EPOCH, [ME, SECOND], version)]
        assert (stand.asked[0].broker_id, stand.asked[0].broker_epoch) == (ME, BROKER_EPOCH)
        assert stand.controllers == [CONTROLLER]
        fetch(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        assert partition.isr == REPLICAS
        assert stand.rows() == [(0, EPOCH, [*REPLICAS], version + 1)]
        changes = stand.changes
        assert (changes.shrinks_total, changes.expansions_total, changes.failures_total) == (1, 1, 0)


def is_refused(partition: Partition) -> bool:
    return partition.in_sync is not None and partition.in_sync.is_refused


async def test_each_row_has_its_answer(tmp_path: Path, mock_clock: MockClock) -> None:
    async with changing(tmp_path) as stand:
        partitions = await stand.led.lead(4)
        await stand.led.write(2, leader=9, epoch=EPOCH + 1)
        await stand.led.tree.delete(znodes.state_path("t", 3))
        codes = (0, OperationNotAttempted.code, FencedLeaderEpoch.code, UnknownTopicOrPartition.code)
        stand.peers.answers = [refused(*codes)]
        for partition in partitions:
            lag(partition, THIRD)
        await stand.until(lambda: stand.changes.failures_total == 3)
        await trio.testing.wait_all_tasks_blocked()
        assert [waits(partition) for partition in partitions] == [False, False, True, True]
        assert [len(partition.isr) for partition in partitions] == [2, 3, 3, 3]
        assert stand.changes.failures_total == 3
        # What was refused may be proposed anew, after a while; the others wait for what the tree
        # says: LeaderAndIsr, and StopReplica.
        for partition in partitions:
            lag(partition, THIRD)
        mock_clock.jump(REFUSED_MS / 1000)
        await stand.until(lambda: not is_refused(partitions[1]))
        stand.peers.answers = [made]
        for partition in partitions:
            lag(partition, THIRD)
        await stand.until(lambda: partitions[1].isr == (ME, SECOND))
        assert [row[0] for row in stand.rows()] == [1]
        assert len(stand.asked) == 2
        stand.led.appoint(partitions[2], 9, epoch=EPOCH + 1)
        assert not waits(partitions[2])


@pytest.mark.parametrize("refusal", [refused(OperationNotAttempted.code), without(THIRD)], ids=["error", "state"])
async def test_a_refused_follower_that_fetches_is_not_proposed_with_every_fetch(
    refusal: Callable[[AlterIsrRequest], AlterIsrResponse], tmp_path: Path, mock_clock: MockClock
) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.led.appoint(partition, 3, epoch=EPOCH + 1, isr=(ME, SECOND))
        for count in range(1, 4):
            stand.peers.answers = [refusal]
            fetch(partition, THIRD)
            await stand.until(lambda: not stand.peers.answers)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(10):
                fetch(partition, THIRD)
            await trio.testing.wait_all_tasks_blocked()
            assert len(stand.asked) == count
            assert partition.log.high_watermark == partition.log.end_offset, "who is refused is not waited for"
            assert (stand.changes.expansions_total, stand.changes.failures_total) == (0, count)
            mock_clock.jump(REFUSED_MS / 1000)
            await stand.until(lambda: not is_refused(partition))


@pytest.mark.parametrize(
    "code", [UnknownServerError.code, NotController.code, None], ids=["error", "passed-on", "none"]
)
async def test_where_nobody_knows_whether_it_was_made_the_same_is_asked_for_again(
    code: int | None, tmp_path: Path, mock_clock: MockClock
) -> None:
    """The high watermark waits for who may be in the ISR by now."""
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.led.appoint(partition, 3, epoch=EPOCH + 1, isr=(ME, SECOND))
        stand.peers.answers = [AlterIsrResponse() if code is None else refused(code), made]
        fetch(partition, THIRD)
        await stand.until(lambda: len(stand.peers.answers) == 1)
        await trio.testing.wait_all_tasks_blocked()
        assert partition.in_sync is not None
        assert partition.in_sync.maximal_isr == {*REPLICAS}
        mock_clock.jump(BACKOFF_MS / 1000)
        await stand.until(lambda: not waits(partition))
        assert partition.isr == REPLICAS
        assert stand.rows(0) == stand.rows(1)


@pytest.mark.parametrize("error", [InvalidRequest, FencedLeaderEpoch, UnknownTopicOrPartition])
async def test_a_change_that_is_wrong_and_was_not_made_is_proposed_anew(
    error: type[ProtocolError], tmp_path: Path, mock_clock: MockClock
) -> None:
    """Where the tree has nothing newer, no leader epoch is on its way: it would be waited for in vain."""
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.peers.answers = [refused(error.code)]
        lag(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        assert is_refused(partition)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(REFUSED_MS / 1000)
        await stand.until(lambda: not is_refused(partition))
        stand.peers.answers = [made]
        lag(partition, THIRD)
        await stand.until(lambda: partition.isr == (ME, SECOND))


async def test_a_change_that_is_wrong_because_it_was_made_is_taken(tmp_path: Path) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        await stand.led.write(0, isr=(ME, SECOND))
        stand.peers.answers = [refused(InvalidRequest.code)]
        lag(partition, THIRD)
        await stand.until(lambda: partition.isr == (ME, SECOND))
        assert not is_refused(partition)


@pytest.mark.parametrize("what", ["sync", "get"])
async def test_a_change_that_is_wrong_stays_while_the_tree_is_silent(
    what: str, tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        await stand.led.write(0, isr=(ME, SECOND))

        async def loses(*_: Any) -> Any:
            raise ConnectionLoss(what)

        with monkeypatch.context() as patched:
            patched.setattr(stand.led.tree, what, loses)
            stand.peers.answers = 2 * [refused(InvalidRequest.code)]
            lag(partition, THIRD)
            await stand.until(lambda: len(stand.peers.answers) == 1)
            await trio.testing.wait_all_tasks_blocked()
            assert waits(partition)
        mock_clock.jump(BACKOFF_MS / 1000)
        await stand.until(lambda: partition.isr == (ME, SECOND))


# --- lost answers ---


async def test_a_change_whose_answer_was_lost_is_found_in_the_tree(tmp_path: Path, mock_clock: MockClock) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        version = await stand.led.write(0, isr=(ME, SECOND))
        stand.peers.answers = [ConnectionError("the answer is lost"), refused(InvalidUpdateVersion.code)]
        lag(partition, THIRD)
        await stand.until(lambda: len(stand.asked) == 1)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(BACKOFF_MS / 1000)
        await stand.until(lambda: not waits(partition))
        assert partition.isr == (ME, SECOND)
        assert partition.state is not None
        assert partition.state.zk_version == version
        assert stand.changes.shrinks_total == 1


async def test_a_newer_leader_epoch_in_the_tree_is_waited_for(tmp_path: Path) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        await stand.led.write(0, leader=SECOND, epoch=EPOCH + 1, isr=(SECOND,))
        stand.peers.answers = [refused(InvalidUpdateVersion.code)]
        lag(partition, THIRD)
        await stand.until(lambda: not stand.peers.answers)
        await trio.testing.wait_all_tasks_blocked()
        assert waits(partition)
        assert partition.isr == REPLICAS
        assert len(stand.asked) == 1


async def test_a_tree_that_is_behind_or_silent_is_looked_at_again(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It shows the state that was refused as old, or nothing: the change may be made, so it is not taken back."""
    caplog.set_level(logging.INFO)
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.led.appoint(partition, 0, epoch=EPOCH + 1, isr=(ME, SECOND))
        behind = await stand.led.write(0, epoch=EPOCH, isr=(ME,))
        stand.led.appoint(partition, behind + 1, epoch=EPOCH + 2, isr=(ME, SECOND))
        get, lost = stand.led.tree.get, 2

        async def loses(path: str, watch: Any = None) -> Any:
            nonlocal lost
            lost -= 1
            if lost >= 0:
                raise ConnectionLoss(path)
            return await get(path, watch)

        monkeypatch.setattr(stand.led.tree, "get", loses)
        stand.peers.answers = 1000 * [refused(InvalidUpdateVersion.code)]
        fetch(partition, THIRD)

        async def meanwhile(holds: Callable[[], bool]) -> None:
            def later() -> bool:
                mock_clock.jump(BACKOFF_MS / 1000)
                return holds()

            await stand.until(later)

        # Twice nothing can be read, then there is an old state.
        await meanwhile(lambda: len(stand.asked) >= 4)
        assert partition.in_sync is not None
        assert partition.in_sync.maximal_isr == {*REPLICAS}
        await stand.led.write(0, epoch=EPOCH + 2, isr=(ME, SECOND))
        await stand.led.write(0, epoch=EPOCH + 2, isr=REPLICAS)
        await meanwhile(lambda: not waits(partition))
        assert partition.isr == REPLICAS
        assert said(caplog, "its state cannot be read") == 1


async def test_a_state_that_is_as_wanted_already_is_no_change(tmp_path: Path) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()

        def as_it_is(asked: AlterIsrRequest) -> AlterIsrResponse:
            answer = made(asked)
            answer.topics[0].partitions[0].current_isr_version -= 1
            return answer

        stand.peers.answers = [as_it_is]
        lag(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        assert partition.isr == REPLICAS
        assert (stand.changes.shrinks_total, stand.changes.expansions_total) == (0, 0)


async def test_an_answer_for_another_leader_epoch_changes_nothing(tmp_path: Path) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.peers.may_answer = trio.Event()
        stand.peers.answers = [made]
        lag(partition, THIRD)
        await stand.until(lambda: stand.asked)
        stand.led.appoint(partition, 9, epoch=EPOCH + 1)
        stand.peers.may_answer.set()
        await stand.until(lambda: not stand.peers.answers)
        await trio.testing.wait_all_tasks_blocked()
        assert partition.isr == REPLICAS
        assert (stand.changes.shrinks_total, stand.changes.expansions_total) == (0, 0)


# --- controllers that come and go ---


@pytest.mark.parametrize("code", [NotController.code, StaleBrokerEpoch.code], ids=["not-controller", "stale-epoch"])
async def test_a_request_that_is_refused_as_a_whole_is_sent_again(
    code: int, tmp_path: Path, mock_clock: MockClock
) -> None:
    """To who is the controller then, with the broker epoch of then."""
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.peers.answers = [AlterIsrResponse(error_code=code), made]
        lag(partition, THIRD)
        await stand.until(lambda: len(stand.asked) == 1)
        await trio.testing.wait_all_tasks_blocked()
        stand.becomes_controller(NEXT)
        stand.broker_epoch = 78
        mock_clock.jump(BACKOFF_MS / 1000 * 0.9)
        await trio.testing.wait_all_tasks_blocked()
        assert len(stand.asked) == 1
        mock_clock.jump(BACKOFF_MS / 1000 * 0.2)
        await stand.until(lambda: not waits(partition))
        assert stand.controllers == [CONTROLLER, NEXT]
        assert [asked.broker_epoch for asked in stand.asked] == [BROKER_EPOCH, 78]
        assert stand.rows(0) == stand.rows(1)
        assert stand.changes.failures_total == 0


async def test_a_controller_that_is_out_of_reach_is_named_once(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.peers.answers = [*(3 * [ConnectionError("broker 8 is not there now")]), RemoteProtocolError("junk"), made]
        lag(partition, THIRD)
        for count in range(1, 5):
            await stand.until(lambda count=count: len(stand.asked) == count)  # type: ignore[misc]
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(BACKOFF_MS / 1000)
        await stand.until(lambda: not waits(partition))
        assert (said(caplog, "broker 8 is not there now"), said(caplog, "junk")) == (1, 1)


async def test_nobody_is_asked_while_no_controller_is_known(tmp_path: Path, mock_clock: MockClock) -> None:
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.becomes_controller(-1)
        lag(partition, THIRD)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(10)
        await trio.testing.wait_all_tasks_blocked()
        assert not stand.asked
        stand.peers.answers = [made]
        stand.becomes_controller(NEXT)
        await stand.until(lambda: not waits(partition))
        assert stand.controllers == [NEXT]


async def test_a_silent_controller_is_given_up_for_the_next_one(tmp_path: Path, mock_clock: MockClock) -> None:
    """It may be paused, or cut off, and the request would wait for as long as its connection."""
    async with changing(tmp_path) as stand:
        (partition,) = await stand.led.lead()
        stand.peers.may_answer = trio.Event()
        stand.peers.answers = [made]
        lag(partition, THIRD)
        await stand.until(lambda: stand.asked)
        stand.becomes_controller(NEXT)
        await trio.testing.wait_all_tasks_blocked()
        stand.peers.may_answer.set()
        mock_clock.jump(BACKOFF_MS / 1000)
        await stand.until(lambda: not waits(partition))
        assert stand.controllers == [CONTROLLER, NEXT]


# --- one at a time ---


async def test_one_request_is_under_way_and_the_next_has_what_came_meanwhile(tmp_path: Path) -> None:
    async with changing(tmp_path) as stand:
        partitions = await stand.led.lead(3)
        stand.peers.may_answer = trio.Event()
        stand.peers.answers = [made, made]
        for partition in partitions:
            lag(partition, THIRD)
            await trio.testing.wait_all_tasks_blocked()
        assert len(stand.asked) == 1
        stand.peers.may_answer.set()
        await stand.until(lambda: not any(map(waits, partitions)))
        assert [[row[0] for row in stand.rows(number)] for number in range(2)] == [[0], [1, 2]]


async def test_a_newer_leader_epoch_overtakes_what_is_proposed(tmp_path: Path, mock_clock: MockClock) -> None:
    async with changing(tmp_path) as stand:
        partitions = await stand.led.lead(3)
        stand.peers.answers = [ConnectionError("not now"), made]
        for partition in partitions:
            lag(partition, THIRD)
        await stand.until(lambda: len(stand.asked) == 1)
        await trio.testing.wait_all_tasks_blocked()
        stand.led.appoint(partitions[0], 9, epoch=EPOCH + 1)
        lag(partitions[0], SECOND)
        partitions[1].resign()
        mock_clock.jump(BACKOFF_MS / 1000)
        await stand.until(lambda: not waits(partitions[0]) and not waits(partitions[2]))
        assert [(row[0], row[1], row[2]) for row in stand.rows()] == [
            (0, EPOCH + 1, [ME, THIRD]),
            (2, EPOCH, [ME, SECOND]),
        ]
        assert partitions[0].isr == (ME, THIRD)
