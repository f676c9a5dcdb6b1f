"""Where a follower's log has to end so that its leader's goes on from there (KIP-101, KIP-279). Values in, values
out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

#: In an answer: the leader does not know.
UNKNOWN = -1


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A log is to end at `offset`."""

    offset: int
    #: Whether the logs agree then. Otherwise the leader is to be asked again, for the epoch that is the last one then.
    is_complete: bool


class Truncation(NamedTuple):
    """The log of a partition is cut so that it ends at `offset`, or starts anew there."""

    partition: Partition
    offset: int
    leader_epoch: int
    is_anew: bool = False


def cut(
    end_offset: int,
    high_watermark: int,
    epoch_end_offset: Callable[[int], tuple[int, int]],
    epochs: Sequence[tuple[int, int]],
    leader_epoch: int,
    leader_end_offset: int,
) -> Cut:
    """Says where a follower's log has to end.

    Args:
        end_offset, high_watermark: of the follower's log.
        epoch_end_offset: the largest epoch of the follower's log that is at most the given one, and where it ends;
            (-1, -1) if there is none.
        epochs: the epochs of the follower's log, and where each begins; at least one.
        leader_epoch, leader_end_offset: the largest epoch of the leader's log that is at most the follower's last one,
            and where it ends; -1 for what the leader does not know.
    """
    (_, epochs_start), (_, last_start) = epochs[0], epochs[-1]
    if leader_end_offset == UNKNOWN:
        # The leader has no epochs, or only older ones: the coordination tree is older than the logs.
        if last_start >= end_offset > epochs_start:
            # The last epochs have no records: they are forgotten, and the last record's epoch may be known. (Kafka 2.7
            # cuts at the high watermark at once, which may be far behind after a crash.)
            return Cut(end_offset, is_complete=False)
        # Nothing above what is committed is sure.
        return Cut(min(high_watermark, end_offset), is_complete=True)
    if leader_epoch == UNKNOWN:
        return Cut(min(leader_end_offset, end_offset), is_complete=True)
    epoch, epoch_end = epoch_end_offset(leader_epoch)
    if epoch == UNKNOWN or epoch_end == UNKNOWN:
        # All that the follower has is of younger epochs, of which the leader has none. (Kafka 2.7 cuts at the leader's
        # end, and if the follower's log is shorter it asks for the same again and again.)
        return Cut(min(epochs_start, leader_end_offset, end_offset), is_complete=True)
    if epoch != leader_epoch:
        # The follower has never seen that epoch: what it has after its own last one before that is somebody else's.
        return Cut(min(epoch_end, end_offset), is_complete=False)
    return Cut(min(epoch_end, leader_end_offset, end_offset), is_complete=True)
