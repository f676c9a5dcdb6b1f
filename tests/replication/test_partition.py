"""A partition's roles and who waits for it, on a real log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import _core
from ottla.errors import FencedLeaderEpoch, NotLeaderOrFollower, StorageError, UnknownLeaderEpoch
from ottla.replication.partition import Partition, PartitionState

ME = 1


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("t", [0], _core.LogConfig())
    yield Partition("t", 0, ME, log)
    directory.close(clean=True)


def state(epoch: int, leader: int = ME, replicas: tuple[int, ...] = (ME,)) -> PartitionState:
    return PartitionState(1, leader, epoch, replicas, replicas, 0)


def append(partition: Partition) -> int:
    builder = _core.BatchBuilder()
    builder.append(1, None, b"v")
    return partition.log.append_bytes(builder.finish(), partition.leader_epoch).last_offset


def test_only_a_newer_epoch_changes_the_role(partition: Partition) -> None:
    assert partition.leader_error(-1) == NotLeaderOrFollower.code
    assert partition.apply(state(3))
    assert not partition.apply(state(3, leader=2))
    assert not partition.apply(state(2, leader=2))
    assert partition.is_leader
    assert partition.leader_error(-1) == partition.leader_error(3) == 0
    assert partition.leader_error(2) == FencedLeaderEpoch.code
    assert partition.leader_error(4) == UnknownLeaderEpoch.code


def test_a_new_leader_enters_its_epoch_even_without_a_record(partition: Partition) -> None:
    partition.apply(state(0))
    append(partition)
    partition.apply(state(5))
    assert partition.log.epoch_end_offset(5) == (5, 1)
    assert partition.log.epoch_end_offset(4) == (0, 1)


def test_acks_all_on_one_replica_waits_for_the_disk(partition: Partition) -> None:
    partition.apply(state(0))
    answers: list[int] = []
    last = append(partition)
    partition.advance_high_watermark()
    assert partition.wait_durable(last, answers.append), "a flush must be started"
    assert answers == []
    partition.log.flush()
    partition.flushed()
    assert answers == [0]


def test_acks_all_without_the_flush_waits_for_the_high_watermark_only(partition: Partition) -> None:
    partition.apply(state(0))
    partition.change(flush_on_acks_all=False)
    answers: list[int] = []
    last = append(partition)
    assert not partition.wait_durable(last, answers.append)
    assert answers == []
    partition.advance_high_watermark()
    assert answers == [0]


def test_a_role_change_fails_whoever_waits(partition: Partition) -> None:
    partition.apply(state(0))
    answers: list[int] = []
    last = append(partition)
    partition.wait_durable(last, answers.append)
    partition.apply(state(1, leader=2))
    assert answers == [NotLeaderOrFollower.code]
    partition.log.flush()
    partition.flushed()
    assert answers == [NotLeaderOrFollower.code], "answered once"


def test_a_fetch_is_woken_by_the_high_watermark_and_by_a_role_change(partition: Partition) -> None:
    woken: list[int] = []

    class Fetch:
        def advanced(self, partition: Partition) -> None:
            woken.append(partition.log.high_watermark)

        def expire(self) -> None:
            woken.append(-1)

    partition.apply(state(0))
    partition.park(Fetch())
    append(partition)
    assert woken == []
    partition.advance_high_watermark()
    partition.advance_high_watermark()
    assert woken == [1]
    partition.resign()
    assert woken == [1, 1]
    partition.release_fetches()
    assert woken == [1, 1, -1]


def test_with_followers_the_high_watermark_waits_for_them(partition: Partition) -> None:
    partition.apply(state(0, replicas=(ME, 2)))
    append(partition)
    partition.advance_high_watermark()
    assert partition.log.high_watermark == 0


def test_a_failed_directory_fails_whoever_waits_and_says_so_from_then_on(partition: Partition) -> None:
    partition.apply(state(0))
    answers: list[int] = []
    partition.wait_durable(append(partition), answers.append)
    partition.go_offline()
    assert answers == [StorageError.code]
    assert partition.leader_error(-1) == partition.leader_error(0) == StorageError.code


class Deletion:
    def __init__(self, partition: Partition) -> None:
        self.seen: list[int] = []
        partition.deletions[self] = None

    def advanced(self, partition: Partition) -> None:
        self.seen.append(partition.low_watermark({ME, 2}))

    def expire(self) -> None:
        raise AssertionError("there is no deadline here")


def test_the_low_watermark_is_the_least_start_of_the_replicas_that_are_alive(partition: Partition) -> None:
    partition.apply(state(0, replicas=(ME, 2, 3)))
    for _ in range(5):
        append(partition)
    partition.log.high_watermark = 5
    partition.log.set_start_offset(4)
    assert partition.low_watermark({ME}) == 4
    assert partition.low_watermark({ME, 2}) == -1, "a replica that said nothing may have everything"
    deletion = Deletion(partition)
    partition.replica_started(2, 3)
    partition.replica_started(3, 1)
    partition.replica_started(2, 7)
    assert deletion.seen == [3, 3, 4]
    assert partition.low_watermark({ME, 2, 3}) == 1
    partition.resign()
    assert len(deletion.seen) == 4, "who waits must see that this is no leader any more"
