"""One partition on this broker, and events that tests let happen to it."""

from ottla import _core
from ottla.replication import leading
from ottla.replication.in_sync import Proposal
from ottla.replication.owner import Unowned
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState

ME = 1
LAG_MS = 1_000


class Recording(Unowned):
    """The owner of a partition: `proposals` are those of changes of its ISR."""

    def __init__(self, proposals: list[Proposal]) -> None:
        self.proposals = proposals

    def propose(self, partition: object, proposal: Proposal) -> None:
        self.proposals.append(proposal)


def state(epoch: int, leader: int = ME, replicas: tuple[int, ...] = (ME,)) -> PartitionState:
    return PartitionState(1, leader, epoch, replicas, replicas, 0)


def append(partition: Partition) -> int:
    builder = _core.BatchBuilder()
    builder.append(1, None, b"v")
    return partition.log.append_bytes(builder.finish(), partition.leader_epoch).last_offset


def is_flushed(partition: Partition) -> None:
    """The flush that was asked for has been done."""
    partition.log.flush()
    partition.flushed()


def leave_alone(led: Partition) -> None:
    """The followers lag behind, and the leader is alone in sync since; the disk has the log."""
    leading.look_at_followers(led, now_ms=1_001, lag_max_ms=1_000)
    leading.isr_changed(led, 0, (ME,), 1)
    is_flushed(led)


class Fetching:
    def __init__(self, partition: Partition, *, is_follower: bool) -> None:
        self.woken = 0
        partition.park(self, is_follower=is_follower)

    def advanced(self, partition: Partition) -> None:
        self.woken += 1

    def expire(self) -> None: ...
