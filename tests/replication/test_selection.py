"""Which replica a consumer is sent to, as values."""

import pytest

from ottla.replication.in_sync import InSync
from ottla.replication.selection import nearest

LEADER, SECOND, THIRD, FOURTH = 1, 2, 3, 4
RACKS: dict[int, str | None] = {LEADER: "east", SECOND: "west", THIRD: "west", FOURTH: "north"}
#: Where the leader's log ends.
END = 100


def followed(isr: tuple[int, ...] = (1, 2, 3, 4), **fetched: tuple[int, int, int]) -> InSync:
    """A leader whose followers have fetched: (end offset, start offset, when)."""
    in_sync = InSync(LEADER, 0, RACKS, isr, 0, 0, now_ms=0)
    for name, (end, start, at_ms) in fetched.items():
        in_sync.fetched({"second": SECOND, "third": THIRD, "fourth": FOURTH}[name], end, start, END, at_ms)
    return in_sync


def test_the_follower_in_the_rack() -> None:
    in_sync = followed(second=(END, 0, 5), fourth=(END, 0, 5))
    chosen = {rack: nearest(rack, 50, in_sync, RACKS.get) for rack in ("west", "north", "east", "south", "")}
    assert chosen == {"west": SECOND, "north": FOURTH, "east": None, "south": None, "": None}


def test_the_leader_if_it_is_in_the_rack() -> None:
    in_sync = followed(second=(END, 0, 5))
    assert nearest("west", 50, in_sync, {**RACKS, LEADER: "west"}.get) is None


@pytest.mark.parametrize(("offset", "chosen"), [(9, None), (10, SECOND), (80, SECOND), (81, None), (-1, None)])
def test_only_a_follower_that_has_the_offset(offset: int, chosen: int | None) -> None:
    """Its end is among them: that is what a consumer asks for that has read all."""
    assert nearest("west", offset, followed(second=(80, 10, 5)), RACKS.get) == chosen


def test_nobody_who_has_not_fetched_in_this_leader_epoch() -> None:
    for offset in (-1, 0, 50):
        assert nearest("west", offset, followed(), RACKS.get) is None


def test_nobody_who_is_not_alive() -> None:
    alive = {**RACKS, SECOND: None}
    assert nearest("west", 50, followed(second=(END, 0, 5)), alive.get) is None
    assert nearest("west", 50, followed(second=(END, 0, 5), third=(90, 0, 5)), alive.get) == THIRD


def test_nobody_who_is_not_in_sync() -> None:
    in_sync = followed(isr=(1, 3, 4), second=(END, 0, 5))
    assert nearest("west", 50, in_sync, RACKS.get) is None
    assert in_sync.changed(0, (1, 3, 4, 2), 1)
    assert nearest("west", 50, in_sync, RACKS.get) == SECOND


def test_the_most_caught_up_of_several() -> None:
    assert nearest("west", 50, followed(second=(90, 0, 5), third=(80, 0, 5)), RACKS.get) == SECOND
    assert nearest("west", 50, followed(second=(80, 0, 5), third=(90, 0, 5)), RACKS.get) == THIRD
    # Of those with the same end, who had everything last; then by id.
    assert nearest("west", 50, followed(second=(END, 0, 6), third=(END, 0, 5)), RACKS.get) == SECOND
    assert nearest("west", 50, followed(second=(END, 0, 5), third=(END, 0, 5)), RACKS.get) == THIRD
    never = followed(isr=(1,), second=(80, 0, 5), third=(80, 0, 5))
    never.changed(0, (1, 2, 3), 1)
    assert nearest("west", 50, never, RACKS.get) == THIRD


def test_a_rack_that_no_broker_names() -> None:
    """Brokers without a rack are in none."""
    in_sync = followed(second=(END, 0, 5))
    assert nearest("None", 50, in_sync, dict.fromkeys(RACKS).get) is None
