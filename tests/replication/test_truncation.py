"""Where a follower's log is cut off, by the leader epochs of both logs."""

import random

from ottla.replication.truncation import Cut, cut
from tests.replication.cluster_model import Replica


def log(*epochs: int, high_watermark: int = 0) -> Replica:
    """A log with one record of each of these leader epochs."""
    replica = Replica(1)
    for place, epoch in enumerate(epochs):
        replica.append((epoch, place))
    replica.high_watermark = high_watermark
    return replica


def cut_of(follower: Replica, leader: Replica) -> Cut:
    """The cut of the follower's log by the leader's answer to its last epoch."""
    epoch, end = leader.end_of(follower.last_epoch)
    return cut(follower.end, follower.high_watermark, follower.end_of, follower.epochs, epoch, end)


def test_the_last_epoch_ends_earlier_at_the_leader() -> None:
    assert cut_of(log(0, 0, 1, 1), log(0, 0, 1, 2)) == Cut(3, is_complete=True)


def test_what_is_committed_is_not_cut_off_for_a_late_high_watermark() -> None:
    """KIP-101: the follower has what the leader committed, and has not heard that it is committed."""
    assert cut_of(log(0, 0, 0, high_watermark=1), log(0, 0, 0, 1)) == Cut(3, is_complete=True)


def test_an_epoch_that_the_follower_never_saw_is_asked_for_again() -> None:
    """KIP-279: both logs have grown under epochs that the other does not know."""
    follower, leader = log(0, 0, 1, 1), log(0, 0, 0, 2)
    first = cut_of(follower, leader)
    assert first == Cut(2, is_complete=True)
    follower, leader = log(0, 2, 2), log(0, 1, 1, 3)
    first = cut_of(follower, leader)
    assert first == Cut(1, is_complete=False)
    follower.truncate(first.offset)
    assert cut_of(follower, leader) == Cut(1, is_complete=True)


def test_a_leader_that_knows_no_newer_epoch_says_nothing_about_what_is_not_committed() -> None:
    assert cut(5, 2, log(3, 3, 3, 3, 3).end_of, [(3, 0)], -1, -1) == Cut(2, is_complete=True)


def test_epochs_without_records_are_forgotten_before_a_record_is() -> None:
    """The coordination tree is older than the log's last epochs, and the leader's epoch is below them."""
    follower = log(3, 3, 5, high_watermark=1)
    follower.begin(7)
    follower.begin(8)
    first = cut(follower.end, follower.high_watermark, follower.end_of, follower.epochs, -1, -1)
    assert first == Cut(3, is_complete=False)
    follower.truncate(first.offset)
    assert follower.last_epoch == 5
    leader = log(3, 3, 5)
    leader.begin(6)
    assert cut_of(follower, leader) == Cut(3, is_complete=True)


def test_where_the_last_records_epoch_is_unknown_too_only_what_is_committed_is_sure() -> None:
    assert cut(3, 2, log(3, 3, 8).end_of, [(3, 0), (8, 2)], -1, -1) == Cut(2, is_complete=True)
    # Nor is an epoch without records forgotten that is the only one: nobody could tell then where the logs part.
    assert cut(3, 2, log(3, 3, 8).end_of, [(8, 3)], -1, -1) == Cut(2, is_complete=True)


def test_a_leader_without_epochs_says_where_it_ends() -> None:
    assert cut(5, 2, log(3, 3, 3, 3, 3).end_of, [(3, 0)], -1, 4) == Cut(4, is_complete=True)


def test_logs_agree_after_some_rounds_whatever_was_in_them() -> None:
    rng = random.Random(1)
    for _ in range(500):
        # One leader wrote each epoch, so records of one epoch at one offset are the same in both.
        common = sorted(rng.choices(range(3), k=rng.randint(0, 4)))
        ends = [sorted(rng.choices(range(first, 12, 2), k=rng.randint(0, 5))) for first in (4, 5)]
        follower, leader = (log(*common, *end) for end in ends)
        for _ in range(20):
            epoch, end = leader.end_of(follower.last_epoch)
            if follower.last_epoch == -1 or (epoch == follower.last_epoch and end >= follower.end):
                break
            follower.truncate(cut_of(follower, leader).offset)
        assert follower.log == leader.log[: follower.end]
        assert follower.end >= len(common) or follower.last_epoch == -1
