"""Assignments as values; that Java computes the same is shown by groups that it shares (`test_mixed_groups.py`)."""

import random

import pytest

from ottla.classic import Blacklist, ConsumerRebalanceFailed, InvalidConfig, Whitelist
from ottla.classic.assignment import range_assignment, roundrobin_assignment
from ottla.classic.registry import MalformedRegistration, Subscription, new_consumer_id
from ottla.kafka import TopicPartition


def of(found: dict[TopicPartition, str], name: str) -> list[int]:
    return [place.partition for place, owner in found.items() if owner == name]


def test_range_gives_the_remainder_to_the_first_threads_in_the_order_of_text() -> None:
    threads = [f"c-{number}" for number in range(11)]
    found = range_assignment({"t": threads}, {"t": range(13)})
    assert of(found, "c-0") == [0, 1]
    assert of(found, "c-1") == [2, 3]
    assert of(found, "c-10") == [4], "before c-2, as text"
    assert of(found, "c-9") == [12]


def test_more_threads_than_partitions() -> None:
    found = range_assignment({"t": ["a-0", "b-0", "c-0"]}, {"t": [0, 1]})
    assert found == {TopicPartition("t", 0): "a-0", TopicPartition("t", 1): "b-0"}


def test_a_topic_that_is_not_there() -> None:
    assert range_assignment({"t": ["a-0"]}, {}) == roundrobin_assignment({"t": ["a-0"]}, {}) == {}


@pytest.mark.parametrize("strategy", [range_assignment, roundrobin_assignment])
def test_every_partition_has_one_owner(strategy: object) -> None:
    random_ = random.Random(5)
    for _ in range(200):
        threads = [f"m{member}-{number}" for member in range(random_.randint(1, 5)) for number in range(2)]
        topics = {f"t{number}": range(random_.randint(1, 9)) for number in range(random_.randint(1, 4))}
        found = strategy(dict.fromkeys(topics, threads), topics)  # type: ignore[operator]
        assert sorted(found) == sorted(TopicPartition(topic, at) for topic, row in topics.items() for at in row)
        counts = [list(found.values()).count(name) for name in threads]
        if strategy is roundrobin_assignment:
            assert max(counts) - min(counts) <= 1


def test_roundrobin_needs_like_members() -> None:
    with pytest.raises(ConsumerRebalanceFailed, match="'t' and 'u' have different threads"):
        roundrobin_assignment({"t": ["a-0", "b-0"], "u": ["a-0"]}, {"t": [0], "u": [0]})


def test_registrations_are_read_back() -> None:
    for subscription in (
        Subscription({"t": 2, "ü": 1}),
        Subscription.filtered(Whitelist(r"a\.b, c"), 3),
        Subscription.filtered(Blacklist("'x.*'"), 1),
    ):
        assert Subscription.decode(subscription.encode(5)) == subscription
    assert Subscription({"t": 2}).encode(5) == (
        b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"5"}'
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"t:1,u:2",
        b'{"subscription":{"t":0},"pattern":"static"}',
        b'{"subscription":{"t":1000000000},"pattern":"static"}',
        b'{"subscription":{"t":"x"},"pattern":"static"}',
        b'{"subscription":["t"],"pattern":"static"}',
        b'{"subscription":{"t":1},"pattern":"grey_list"}',
        b'{"subscription":{"(":1},"pattern":"white_list"}',
        b'{"subscription":{"a":1,"b":1},"pattern":"white_list"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_malformed_registrations(data: bytes) -> None:
    with pytest.raises((MalformedRegistration, InvalidConfig)):
        Subscription.decode(data)


def test_filters() -> None:
    white, black = Whitelist("a.*,b"), Blacklist("a.*|b")
    names = ["a", "ab", "b", "bb", "c", "__consumer_offsets"]
    assert [name for name in names if white.allows(name, exclude_internal=True)] == ["a", "ab", "b"]
    assert [name for name in names if black.allows(name, exclude_internal=True)] == ["bb", "c"]
    assert black.allows("__consumer_offsets", exclude_internal=False)


def test_ids() -> None:
    assert new_consumer_id("g", "mine") == "g_mine"
    group, _, rest = new_consumer_id("g").partition("_")
    assert group == "g"
    _, ms, unique = rest.rsplit("-", 2)
    assert ms.isdecimal()
    assert len(unique) == 8
