"""The memory of a group for clients that never come back is bounded, and so is the loop's time for the largest."""

import gc
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import ottla.group
from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InvalidRequest,
    MemberIdRequired,
    UnknownServerError,
)
from ottla.group.coordinator import GroupCoordinator
from ottla.group.effects import Answer, Store
from ottla.group.hosted import GroupSettings, Hosted
from ottla.group.members import NAMED_MAX, JoinRequest, JoinResult, SyncResult, named
from ottla.group.roster import Kept
from ottla.group.state import (
    COMPLETING,
    EMPTY,
    GIVEN_UP_AT_ONCE,
    ID_BEGINNING_MAX,
    PREPARING,
    STABLE,
    Group,
    Limits,
)
from ottla.logging_setup import Bounded
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from tests.peers.ottla import Brokers
from tests.support.client import connect
from tests.support.group_client import Member
from tests.support.loop_steps import counted_here

SESSION_MS = 10_000
PENDING_MEMBERS_MAX = Limits().pending_members_max
METADATA_BYTES_MAX = Limits().metadata_bytes_max
GROUP_BYTES_MAX = Limits().group_bytes_max
#: `group.max.size` is 5,000 by default. A count grows with the members in the same way, whatever they are.
MEMBERS = 1_000
#: Lines of Python that one step of the loop may take for each member.
LINES_OF_MEMBER_MAX = 100


def asks_for_an_id(group: Group, now_ms: int, client_id: str = "c") -> JoinResult:
    request = JoinRequest(
        "", None, client_id, "/h", SESSION_MS, SESSION_MS, "consumer", [("range", b"")], must_know_its_id=True
    )
    group.join(now_ms, "token", request)
    (effect,) = group.effects
    group.effects.clear()
    assert isinstance(effect, Answer)
    result: Any = effect.result
    return result


def test_so_many_ids_wait_for_their_members() -> None:
    numbers = iter(range(10**6))
    group = Group("g", Limits(), lambda: str(next(numbers)))
    for _ in range(PENDING_MEMBERS_MAX):
        assert asks_for_an_id(group, 0).error == MemberIdRequired.code
    assert asks_for_an_id(group, 0).error == CoordinatorNotAvailable.code
    assert len(group.pending_members) == PENDING_MEMBERS_MAX
    group.tick(SESSION_MS)
    assert not group.pending_members
    assert asks_for_an_id(group, SESSION_MS).error == MemberIdRequired.code


def test_the_bounds_are_settings(brokers: Brokers) -> None:
    broker = brokers(
        settings={
            "group.max.pending.members": "2",
            "group.member.metadata.max.bytes": "1000",
            "group.max.bytes": "1500",
        }
    )

    def answer_of(version: int, size_bytes: int) -> int:
        member = Member.connect(broker, "bounded")
        member.send_join(version=version, metadata=bytes(size_bytes))
        return member.receive_join()

    # From version 4 on a member asks for its id first.
    errors = [answer_of(4, 10) for _ in range(3)]
    assert errors == [MemberIdRequired.code, MemberIdRequired.code, CoordinatorNotAvailable.code]
    assert answer_of(3, 1001) == InvalidRequest.code
    assert answer_of(3, 900) == 0
    assert answer_of(3, 900) == GroupMaxSizeReached.code


def test_ids_are_short() -> None:
    group = Group("g", Limits(), lambda: "0" * 36)
    for name in ("c" * 32_767, "\u2603" * 10_000):
        given = asks_for_an_id(group, 0, name).member_id
        assert len(given.encode()) <= ID_BEGINNING_MAX + 37
        assert given.startswith(name[:100])
    assert asks_for_an_id(group, 0, "my-client").member_id == f"my-client-{'0' * 36}"


def test_metadata_has_a_size(brokers: Brokers) -> None:
    broker = brokers()
    large = Member.connect(broker, "sized")
    large.send_join(version=3, metadata=bytes(METADATA_BYTES_MAX))
    assert large.receive_join() == InvalidRequest.code
    with connect(broker) as client:
        (group,) = client.call(DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["sized"]), 5).groups
        assert (group.group_state, group.members) == ("Dead", [])
    assert "larger than" in broker.output_tail()
    honest = Member.connect(broker, "sized")
    honest.send_join(version=3, metadata=bytes(1024 * 1024 - 1024))
    assert honest.receive_join() == 0


def joins(group: Group, number: int, metadata: bytes) -> int:
    """The error of a join that is answered, -1 for one that waits."""
    request = JoinRequest("", f"i{number}", "c", "/h", SESSION_MS, SESSION_MS, "consumer", [("range", metadata)])
    group.join(0, f"token {number}", request)
    errors = [effect.result.error for effect in group.effects if isinstance(effect, Answer)]
    group.effects.clear()
    return errors[0] if errors else -1


def new_group(limits: Limits | None = None, kept: Kept | None = None) -> Group:
    numbers = iter(range(10**6))
    return Group("g", limits or Limits(), lambda: str(next(numbers)), kept)


def test_a_group_keeps_so_much_of_its_members() -> None:
    group = new_group()
    member = METADATA_BYTES_MAX - 100
    errors = [joins(group, number, bytes(member)) for number in range(4)]
    assert errors == [-1, -1, GroupMaxSizeReached.code, GroupMaxSizeReached.code]
    assert len(group.members) == 2
    assert joins(group, 5, b"small") == -1, "who has room comes in"


def test_what_a_member_says_again_takes_the_place_of_what_it_said() -> None:
    kept = Kept()
    group = new_group(kept=kept)
    assert joins(group, 0, bytes(METADATA_BYTES_MAX)) == -1
    for _ in range(5):
        # The same static member, with another process: the one before is fenced.
        assert joins(group, 0, bytes(METADATA_BYTES_MAX)) == FencedInstanceId.code
    assert METADATA_BYTES_MAX < kept.bytes < METADATA_BYTES_MAX + 1000
    group.die()
    assert kept.bytes == 0


def test_all_groups_have_a_sum() -> None:
    kept, limits = Kept(), Limits(bytes_max=100_000)
    groups = [new_group(limits, kept) for _ in range(4)]
    large = bytes(40_000)
    assert [joins(group, 0, large) for group in groups] == [-1, -1, *[CoordinatorNotAvailable.code] * 2]
    assert joins(groups[3], 1, b"small") == -1, "small ones have as much again"
    groups[0].die()
    assert joins(groups[2], 0, large) == -1


def test_an_assignment_has_a_size() -> None:
    group = new_group()
    assert joins(group, 0, b"") == -1
    group.tick(group.next_timer_ms)
    (answer,) = group.effects
    assert isinstance(answer, Answer)
    group.effects.clear()
    (member_id,) = group.members
    group.sync(0, "sync", member_id, "i0", 1, None, None, {member_id: bytes(GROUP_BYTES_MAX), "nobody": b""})
    (refused,) = group.effects
    assert isinstance(refused, Answer)
    assert refused.result.error == UnknownServerError.code
    assert group.state is PREPARING, "as after an assignment that could not be stored"


def test_members_are_given_up_some_at_a_time() -> None:
    group = new_group()
    members = 2 * GIVEN_UP_AT_ONCE + 1
    for number in range(members):
        assert joins(group, number, b"") == -1
    while group.state is PREPARING:
        group.tick(group.next_timer_ms)
    left = [members]
    while left[-1]:
        group.tick(100 * SESSION_MS)
        left.append(len(group.members))
    # Who did not join again when a rebalance ends goes with it.
    assert left[:2] == [members, members - GIVEN_UP_AT_ONCE]


def member_joins(group: Group, now_ms: int, member_id: str = "", metadata: bytes = b"m") -> None:
    protocols = [(name, metadata * 60) for name in ("range", "roundrobin", "sticky")]
    request = JoinRequest(member_id, None, "client", "/127.0.0.1", SESSION_MS, SESSION_MS, "consumer", protocols)
    group.join(now_ms, "token", request)


def work_of(prepare: Callable[[], Group], step: Callable[[Group], object]) -> int:
    """Lines of Python that a step takes, and rows that it hands to C."""
    group = prepare()
    with counted_here(ottla.group.__path__[0]) as steps:
        step(group)
    return steps.lines + steps.rows


def largest_group() -> Group:
    """All members have joined, and are told when the timer rings."""
    group = new_group()
    for _ in range(MEMBERS):
        member_joins(group, 0)
    group.tick(group.next_timer_ms)
    assert group.state is PREPARING
    return group


def largest_generation() -> Group:
    """All members wait for what they are assigned."""
    group = largest_group()
    group.tick(group.next_timer_ms)
    assert group.state is COMPLETING
    assert len(group.effects) == MEMBERS
    group.effects.clear()
    for member_id in group.members:
        group.sync(0, "token", member_id, None, group.generation, None, None, {})
    return group


def largest_stored_generation() -> Group:
    group = largest_generation()
    (store,) = group.effects
    assert isinstance(store, Store)
    group.effects.clear()
    group.stored(0, store, 0)
    assert group.state is STABLE
    group.effects.clear()
    return group


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of groups go to a handler as that of `ottla serve`, but nowhere from there."""
    handler = logging.NullHandler()
    handler.addFilter(Bounded())
    logger = logging.getLogger("ottla.group")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()  # type: ignore[attr-defined]  # of who logs what: the levels are other ones


@pytest.mark.usefixtures("logged")
def test_no_step_of_the_largest_group_takes_long() -> None:
    def end_of_joins(group: Group) -> None:
        group.tick(group.next_timer_ms)
        assert len(group.effects) == MEMBERS

    def assign(group: Group) -> None:
        store = group.effects.pop()
        assert isinstance(store, Store)
        group.stored(0, store, 0)
        assert len(group.effects) == MEMBERS

    def fail(group: Group) -> None:
        group.effects.clear()
        assert group.leave(0, next(reversed(group.members)), None) == 0
        assert len(group.effects) == MEMBERS

    def only_one_comes_again() -> Group:
        group = largest_stored_generation()
        member_joins(group, 0, next(iter(group.members)), b"other")
        return group

    def end_without_the_others(group: Group) -> None:
        group._complete_join(SESSION_MS)
        assert len(group.members) == 1

    def all_leave(group: Group) -> None:
        topic: Any = SimpleNamespace(append_then=lambda *_: None)
        deadlines: Any = SimpleNamespace(add=lambda *_: None)
        coordinator = GroupCoordinator(topic, deadlines, GroupSettings())
        coordinator.groups["g"] = Hosted(group, 0, 0, 0)
        assert coordinator.leave("g", [(member_id, None) for member_id in group.members]) == (0, [0] * MEMBERS)
        assert group.state is EMPTY

    steps = {
        "the end of joins": work_of(largest_group, end_of_joins),
        "the assignment": work_of(largest_generation, assign),
        "no assignment": work_of(largest_generation, fail),
        "the end of joins of which one came": work_of(only_one_comes_again, end_without_the_others),
        "all leave": work_of(largest_stored_generation, all_leave),
    }
    assert min(steps.values()) > MEMBERS, "each member is looked at"
    assert max(steps.values()) < LINES_OF_MEMBER_MAX * MEMBERS, steps


def test_the_collector_does_not_look_at_what_members_are_told() -> None:
    """There may be thousands of them at a time."""
    assert not gc.is_tracked(JoinResult("m", members=[]))
    assert not gc.is_tracked(SyncResult())


def test_the_log_names_a_few_members() -> None:
    assert named(["a"]) == "member a"
    assert named(["a", "b"]) == "2 members (a, b)"
    many = named([str(number) for number in range(NAMED_MAX + 1)])
    assert many == f"{NAMED_MAX + 1} members ({', '.join(map(str, range(NAMED_MAX)))}, ...)"
