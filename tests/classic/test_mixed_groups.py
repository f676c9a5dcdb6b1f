"""Java's members and ours in one group, on one ZooKeeper: the same registrations, the same assignment, every message
once.
"""

import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from ottla.classic import Blacklist, TopicFilter, Whitelist
from tests.classic.conftest import Place, group
from tests.classic.filling import fill, offsets
from tests.classic.members import Member
from tests.peers.old_clients import VERSIONS, OldConsumer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]

OLD, NEW = VERSIONS
JAVA = {"auto_offset_reset": "smallest", "zookeeper_session_timeout_ms": 3000, "rebalance_backoff_ms": 500}


@contextmanager
def tree(place: Place) -> Iterator[KazooClient]:
    client = KazooClient(place.zookeeper)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def java(version: str, place: Place, mine: str, what: str, streams: int = 1, **settings: Any) -> OldConsumer:
    more = {**JAVA, "rebalance_max_retries": 40, **settings}
    return OldConsumer(version, place.zookeeper, mine, what, streams, **more)


def owners(client: KazooClient, mine: str, topic: str) -> dict[int, str]:
    path = f"/consumers/{mine}/owners/{topic}"
    if not client.exists(path):
        return {}
    found = {}
    for name in client.get_children(path):
        if client.exists(f"{path}/{name}"):
            found[int(name)] = client.get(f"{path}/{name}")[0].decode()
    return found


def registrations(place: Place, mine: str) -> list[tuple[str, bytes]]:
    with tree(place) as client:
        path = f"/consumers/{mine}/ids"
        return [(name, client.get(f"{path}/{name}")[0]) for name in sorted(client.get_children(path))]


def without_what_differs(registration: tuple[str, bytes]) -> tuple[str, bytes]:
    name, data = registration
    name = re.sub(r"-\d{13}-[0-9a-f]{8}$", "-MS-HEX8", name)
    return name, re.sub(rb'"timestamp":"\d{13}"', b'"timestamp":"MS"', data)


CASES: list[tuple[str, str | TopicFilter]] = [
    ("static", "topic"),
    ("white", Whitelist(r"classic\.t-\d+,other")),
    ("black", Blacklist("a.*")),
]


@pytest.mark.parametrize(
    ("version", "case"),
    [
        pytest.param(version, case, marks=[] if (version, case[0]) == (NEW, "white") else pytest.mark.soak)
        for version, case in itertools.product(VERSIONS, CASES)
    ],
)
def test_registrations_are_those_of_java_byte_by_byte(ours: Place, version: str, case: tuple[str, Any]) -> None:
    kind, what = case
    theirs, mine = group(), group()
    if kind == "white":
        ours.create(f"classic.t-{time.monotonic_ns()}")
    text = what if isinstance(what, str) else f"{kind}:{what.regex}"
    with java(version, ours, theirs, text, 3).wait_ready():
        (of_java,) = registrations(ours, theirs)
    with Member(ours, mine, what, 3).join():
        (of_ours,) = registrations(ours, mine)
    assert without_what_differs(of_ours) == without_what_differs((of_java[0].replace(theirs, mine), of_java[1]))
    assert json.loads(of_ours[1])["timestamp"].isdecimal()


@pytest.mark.parametrize(
    ("version", "strategy"),
    [
        pytest.param(NEW, "roundrobin"),
        pytest.param(NEW, "range", marks=pytest.mark.soak),
        pytest.param(OLD, "roundrobin", marks=pytest.mark.soak),
        pytest.param(OLD, "range", marks=pytest.mark.soak),
    ],
)
def test_java_and_ours_compute_one_assignment(ours: Place, version: str, strategy: str) -> None:
    """Every partition is owned, and none twice: two views of who owns what would leave some out."""
    prefix, mine = f"shared{time.monotonic_ns()}", group()
    topics = {prefix: 17, f"{prefix}-and-more": 23}
    for topic, partitions in topics.items():
        ours.create(topic, partitions)
    named = {"partition_assignment_strategy": strategy}
    with tree(ours) as client, Member(ours, mine, Whitelist(f"{prefix}.*"), 12, **named).join() as member:

        def found() -> dict[tuple[str, int], str]:
            return {(topic, at): name for topic in topics for at, name in owners(client, mine, topic).items()}

        with java(version, ours, mine, f"white:{prefix}.*", 12, **named).wait_ready():
            eventually("everything is owned", lambda: len(found()) == 40 and len(member.connector.owned) < 40)
            of_ours = sum(name.startswith(member.connector.consumer_id) for name in found().values())
            assert len(member.connector.owned) == of_ours
            if strategy == "roundrobin":
                assert _shares(found()) == [1] * 8 + [2] * 16
        eventually("all come back", lambda: len(member.connector.owned) == 40)


def _shares(found: dict[tuple[str, int], str]) -> list[int]:
    names = list(found.values())
    return sorted(names.count(name) for name in set(names))


def once(place: Place, version: str, storage: str = "zookeeper", rounds: int = 1, partitions: int = 4) -> None:
    """Java and ours join and leave by turns while messages come; each of these is seen once."""
    topic, mine = place.topic(partitions), group()
    settings = {"offsets_storage": storage}
    sent: set[str] = set()
    seen: list[str] = []
    count = 0

    def more() -> None:
        nonlocal sent, count
        sent |= fill(place, topic, partitions, 50, start=count)
        count += 50

    def together(*members: Any) -> int:
        return len(seen) + sum(len(each.consumed) for each in members)

    for _ in range(rounds):
        with ExitStack() as stack:
            ours = stack.enter_context(Member(place, mine, topic, 2, **settings).join())
            more()
            eventually("ours alone", lambda: together(ours) >= len(sent))  # noqa: B023 - waits here
            theirs = java(version, place, mine, topic, 2, **settings).wait_ready()
            stack.enter_context(theirs)
            eventually("they share", lambda: len(ours.partitions) == partitions // 2)  # noqa: B023
            more()
            eventually("both", lambda: together(ours, theirs) >= len(sent))  # noqa: B023
            ours.stop()
            more()
            eventually("Java alone", lambda: together(ours, theirs) >= len(sent))  # noqa: B023
            third = stack.enter_context(Member(place, mine, topic, 1, **settings).join())
            more()
            eventually("a third", lambda: together(ours, theirs, third) >= len(sent))  # noqa: B023
            theirs.stop()
            more()
            eventually("the third alone", lambda: together(ours, theirs, third) >= len(sent))  # noqa: B023
        seen += [each.value for member in (ours, theirs, third) for each in member.consumed]
        assert len(seen) == len(set(seen))
        assert set(seen) == sent
    assert offsets(place, mine, topic, partitions, storage) == [count] * partitions


def test_every_message_once_across_joins_and_leaves_with_java(ours: Place) -> None:
    once(ours, NEW)


@pytest.mark.soak
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_every_message_once_for_long(place: Place, version: str, storage: str) -> None:
    once(place, version, storage, rounds=5, partitions=8)


@pytest.mark.soak
@pytest.mark.parametrize("version", VERSIONS)
def test_kills_and_topics_that_grow(place: Place, version: str) -> None:
    """A member that is killed gives up when its session is over; what it had consumed may come again."""
    topic, mine = place.topic(4), group()
    sent: set[str] = set()
    gone: set[str] = set()
    with Member(place, mine, topic, 2, auto_commit_interval_ms=100).join() as member:

        def lost() -> set[str]:
            return sent - gone - {each.value for each in member.consumed}

        for turn in range(4):
            partitions = 4 + 2 * turn
            theirs = java(version, place, mine, topic, 2, auto_commit_interval_ms=100).wait_ready()
            eventually("they share", lambda: len(member.partitions) < partitions)  # noqa: B023 - waits here
            sent |= fill(place, topic, partitions, 100, start=1000 * turn)
            theirs.kill()
            gone |= {each.value for each in theirs.consumed}
            place.grow(topic, partitions + 2)
            eventually("all come back", lambda: len(member.partitions) == partitions + 2)  # noqa: B023
            eventually("nothing is lost", lambda: not lost())


STRANGERS = [
    b"topic:1",
    b"",
    b"\xff\xfe\0",
    b"[]",
    b'{"version":1,"subscription":{"t":null},"pattern":"static"}',
    b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
]


@pytest.mark.parametrize("reset", ["smallest", "largest"])
def test_what_makes_no_sense_stops_no_group(ours: Place, reset: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, however often the group is balanced; and what may have been an offset skips nothing."""
    topic, mine = ours.topic(2), group()
    sent = fill(ours, topic, 2, 5)
    where = f"/consumers/{mine}"
    with tree(ours) as client:
        for number, content in enumerate(STRANGERS):
            client.create(f"{where}/ids/{mine}_bad-{number}", content, makepath=True)
        client.create(f"{where}/owners/{topic}/zero", b"\xff", makepath=True)
        client.create(f"{where}/offsets/{topic}/0", b"9" * 30, makepath=True)
        client.create(f"{where}/offsets/{topic}/1", b"many", makepath=True)
        with Member(ours, mine, topic, auto_offset_reset=reset).join() as member:
            assert member.partitions == {0, 1}
            eventually("all arrive", lambda: len(member.consumed) == 10)
            before = member.connector.rebalances
            client.create(f"{where}/ids/{mine}_bad-again", b"x")
            eventually("it has looked again", lambda: member.connector.rebalances > before)
    assert {each.value for each in member.consumed} == sent
    assert offsets(ours, mine, topic, 2) == [5, 5]
    for number in range(len(STRANGERS)):
        (said,) = [line for line in caplog.messages if f"{mine}_bad-{number} " in line]
        assert said.startswith(f"group '{mine}': {where}/ids/{mine}_bad-{number} is left out: not a consumer's regis")
        assert said.endswith(". It goes with nobody's session: delete it")
    for number, shown in enumerate(("9" * 30, "many")):
        (said,) = [line for line in caplog.messages if f"{where}/offsets/{topic}/{number} " in line]
        assert f"is no offset but b'{shown}': group '{mine}' reads {topic}-{number} from its beginning" in said


def test_an_owner_that_does_not_give_up(ours: Place) -> None:
    from ottla.classic import ConsumerRebalanceFailed

    topic, mine = ours.topic(1), group()
    with tree(ours) as client:
        path = f"/consumers/{mine}/owners/{topic}/0"
        client.create(path, b"somebody", makepath=True)
        settings = {"rebalance_max_retries": 1, "rebalance_backoff_ms": 50}
        told = f"after 1 retries: {path} names 'somebody', and goes with nobody's session: delete that node"
        with pytest.raises(ConsumerRebalanceFailed, match=told):
            Member(ours, mine, topic, **settings).join()
        with Member(ours, mine, topic) as member:
            client.delete(path)
            member.join()
            assert member.partitions == {0}
