"""Changes of the in-sync replicas that leaders write into the tree themselves (protocols before 2.7-IV2), with the
embedded tree.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from ottla.coordination import znodes
from ottla.coordination.tree import ConnectionLoss
from ottla.kafka import TopicPartition
from ottla.replication import isr_writes
from ottla.replication.isr_proposals import BACKOFF_MS
from ottla.replication.isr_writes import AGAIN_S, QUIET_S, SILENCE_S, IsrWrites
from tests.replication.leaders import CONTROLLER_EPOCH, EPOCH, ME, REPLICAS, SECOND, THIRD, Led, fetch, lag, led, waits
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


@dataclass
class Stand:
    led: Led
    writes: IsrWrites
    clock: MockClock

    async def until(self, condition: Callable[[], Any], step_s: float = 0) -> None:
        """Waits for what comes true while time goes on by steps."""

        def later() -> Any:
            if not (answer := condition()) and step_s:
                self.clock.jump(step_s)
            return answer

        await comes_true("the condition of the test", later)

    async def settled(self) -> None:
        """Returns when everything that was asked of the tree is done: its operations are done in their order."""
        for _ in range(3):
            await self.led.tree.exists("/")
            await trio.testing.wait_all_tasks_blocked()

    async def told(self) -> list[list[TopicPartition]]:
        """The partitions that were left for the controller, oldest first."""
        await self.settled()
        tree = self.led.tree
        names = await tree.children(znodes.ISR_CHANGES)
        assert all(name.startswith("isr_change_") for name in names)
        nodes = [(path, await tree.get(path)) for path in (f"{znodes.ISR_CHANGES}/{name}" for name in names)]
        return [znodes.decode_partitions(path, node.data) for path, node in nodes]


@asynccontextmanager
async def writing(path: Path, clock: MockClock) -> AsyncIterator[Stand]:
    async with led(path) as here, trio.open_nursery() as nursery:
        writes = IsrWrites(ME, here.tree)
        here.propose = writes.propose
        nursery.start_soon(writes.run)
        yield Stand(here, writes, clock)
        nursery.cancel_scope.cancel()


def zk_version(partition: Any) -> int:
    version: int = partition.state.zk_version
    return version


async def test_changes_are_written_on_condition_of_the_known_version(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        before = zk_version(partition)
        lag(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        state, version = await stand.led.state(0)
        assert state == znodes.PartitionState(ME, EPOCH, (ME, SECOND), CONTROLLER_EPOCH)
        assert partition.isr == (ME, SECOND)
        assert version == zk_version(partition) == before + 1
        fetch(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        state, version = await stand.led.state(0)
        assert state.isr == partition.isr == REPLICAS
        assert version == zk_version(partition) == before + 2
        writes = stand.writes
        assert (writes.shrinks_total, writes.expansions_total, writes.failures_total) == (1, 1, 0)


async def test_a_state_of_a_newer_leader_epoch_is_not_overwritten(tmp_path: Path, mock_clock: MockClock) -> None:
    """This leader was replaced, and does not know it yet: the next LeaderAndIsr says so."""
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        version = await stand.led.write(0, leader=SECOND, epoch=EPOCH + 1, isr=(SECOND,))
        lag(partition, THIRD)
        await stand.until(lambda: stand.writes.failures_total == 1)
        await stand.settled()
        mock_clock.jump(10)
        assert await stand.led.state(0) == (
            znodes.PartitionState(SECOND, EPOCH + 1, (SECOND,), CONTROLLER_EPOCH),
            version,
        )
        assert (partition.isr, waits(partition)) == (REPLICAS, True)
        assert stand.writes.failures_total == 1


async def test_another_isr_of_the_same_leader_epoch_is_taken(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        version = await stand.led.write(0, isr=(ME, THIRD))
        lag(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        assert (partition.isr, zk_version(partition)) == ((ME, THIRD), version)
        assert stand.writes.failures_total == 1


async def test_a_leaders_own_write_is_recognised_after_a_lost_answer(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        stand.led.appoint(partition, zk_version(partition), epoch=EPOCH + 1, isr=(ME, SECOND))
        put, lost = stand.led.tree.set, 1

        async def loses(path: str, data: bytes, version: int = -1) -> Any:
            nonlocal lost
            stat = await put(path, data, version)
            lost -= 1
            if lost >= 0:
                raise ConnectionLoss(path)
            return stat

        monkeypatch.setattr(stand.led.tree, "set", loses)
        fetch(partition, THIRD)
        await stand.until(lambda: lost == 0)
        assert partition.in_sync is not None
        assert partition.in_sync.maximal_isr == {*REPLICAS}
        await stand.until(lambda: not waits(partition), BACKOFF_MS / 1000)
        state, version = await stand.led.state(0)
        assert partition.isr == state.isr == REPLICAS
        assert zk_version(partition) == version
        assert (stand.writes.expansions_total, stand.writes.failures_total) == (1, 0)
        assert sum("nobody knows whether its ISR was written" in one.getMessage() for one in caplog.records) == 1


async def test_a_state_without_a_version_is_never_written(tmp_path: Path, mock_clock: MockClock) -> None:
    """To the tree -1 would mean any version."""
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        stand.led.appoint(partition, -1, epoch=EPOCH + 1)
        version = await stand.led.write(0, leader=SECOND, epoch=EPOCH + 2, isr=(SECOND,))
        lag(partition, THIRD)
        await stand.until(lambda: stand.writes.failures_total == 1)
        assert (await stand.led.state(0))[1] == version


async def test_a_partition_that_is_being_deleted_is_left_alone(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        await stand.led.tree.delete(znodes.state_path("t", 0))
        lag(partition, THIRD)
        await stand.until(lambda: stand.writes.failures_total == 1)
        assert partition.isr == REPLICAS


async def test_many_at_once_and_one_that_fails(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        partitions = await stand.led.lead(250)
        await stand.led.tree.delete(znodes.state_path("t", 7))
        for partition in partitions:
            lag(partition, THIRD)
        await stand.until(lambda: sum(map(waits, partitions)) == 1)
        assert stand.writes.shrinks_total == 249


# --- what the controller is told ---


async def test_the_controller_is_told_when_nothing_changes_any_more(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        partitions = await stand.led.lead(3)
        for partition in (partitions[2], partitions[0]):
            lag(partition, THIRD)
            await stand.until(lambda partition=partition: not waits(partition))  # type: ignore[misc]
            mock_clock.jump(QUIET_S * 0.9)
            assert await stand.told() == []
        mock_clock.jump(QUIET_S * 0.2)
        (path,) = [f"{znodes.ISR_CHANGES}/{name}" for name in await wait_for_children(stand, 1)]
        node = await stand.led.tree.get(path)
        # As Kafka's brokers write it.
        assert node.data == (b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":2}]}')
        assert node.stat.ephemeral_owner == 0
        mock_clock.jump(2 * SILENCE_S)
        assert len(await stand.told()) == 1


async def wait_for_children(stand: Stand, count: int) -> list[str]:
    while len(names := await stand.led.tree.children(znodes.ISR_CHANGES)) < count:
        await stand.settled()
    return names


async def test_the_controller_is_told_now_and_then_while_much_changes(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        changes_until_told = 0
        while not await stand.told():
            if THIRD in partition.isr:
                lag(partition, THIRD)
            else:
                fetch(partition, THIRD)
            await stand.until(lambda: not waits(partition))
            changes_until_told += 1
            mock_clock.jump(QUIET_S * 0.8)
        assert changes_until_told == pytest.approx(SILENCE_S / (QUIET_S * 0.8), abs=1)


async def test_after_a_long_silence_the_controller_is_told_at_once(tmp_path: Path, mock_clock: MockClock) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        mock_clock.jump(SILENCE_S)
        lag(partition, THIRD)
        await wait_for_children(stand, 1)
        assert await stand.told() == [[TopicPartition("t", 0)]]


async def test_the_controller_is_told_though_the_tree_is_out_of_reach_for_a_while(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writing(tmp_path, mock_clock) as stand:
        (partition,) = await stand.led.lead()
        create, lost = stand.led.tree.create, 2

        async def loses(*arguments: Any, **named: Any) -> str:
            nonlocal lost
            lost -= 1
            if lost >= 0:
                raise ConnectionLoss("/")
            return await create(*arguments, **named)

        monkeypatch.setattr(stand.led.tree, "create", loses)
        # A tree that Kafka has never used has no place for it yet.
        await stand.led.tree.delete(znodes.ISR_CHANGES)
        lag(partition, THIRD)
        await stand.until(lambda: not waits(partition))
        await stand.until(lambda: lost < 0, AGAIN_S)
        while await stand.led.tree.exists(znodes.ISR_CHANGES) is None:
            await stand.settled()
        await wait_for_children(stand, 1)
        assert await stand.told() == [[TopicPartition("t", 0)]]


async def test_a_list_is_no_larger_than_a_node_may_be(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_writes, "LISTED_MAX", 2)
    async with writing(tmp_path, mock_clock) as stand:
        partitions = await stand.led.lead(3)
        for partition in partitions:
            lag(partition, THIRD)
        await stand.until(lambda: not any(map(waits, partitions)))
        mock_clock.jump(SILENCE_S)
        await wait_for_children(stand, 1)
        await stand.settled()
        mock_clock.jump(SILENCE_S)
        await wait_for_children(stand, 2)
        told = await stand.told()
        assert sorted(map(len, told)) == [1, 2]
        assert {name.partition for names in told for name in names} == {0, 1, 2}
