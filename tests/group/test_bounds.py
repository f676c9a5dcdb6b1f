"""What one group keeps for clients that never come back is bounded."""

from typing import Any

from ottla.errors import CoordinatorNotAvailable, InvalidRequest, MemberIdRequired
from ottla.group.effects import Answer
from ottla.group.members import JoinRequest, JoinResult
from ottla.group.state import ID_BEGINNING_MAX, METADATA_BYTES_MAX, PENDING_MEMBERS_MAX, Group, Limits
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from tests.peers.ottla import Brokers
from tests.support.client import connect
from tests.support.group_client import Member

SESSION_MS = 10_000


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
