"""Subscriptions that consumers write about themselves, read as far as they are understood."""

from ottla.group.subscription import assigned, subscribed


def test_subscriptions_are_read_as_far_as_they_are_understood() -> None:
    topics = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc"
    assert subscribed(topics + b"\xff\xff\xff\xff later fields") == ["a", "bc"]
    assert subscribed(b"\x00\x00\x00\x00\x00\x00") == []
    for end in range(len(topics)):
        assert subscribed(topics[:end]) is None
    assert subscribed(b"\xff\xff\x00\x00\x00\x00") is None
    assert subscribed(b"\x00\x00\x7f\xff\xff\xff") is None


def test_assignments_are_read() -> None:
    partitions = (
        b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05\x00\x01b\x00\x00\x00\x00"
    )
    assert assigned(partitions + b"\xff\xff\xff\xff") == [("a", 0), ("a", 5)]
    assert assigned(b"") == []
    for end in range(1, len(partitions)):
        assert assigned(partitions[:end]) is None
    assert assigned(b"\x00\x00\x00\x00\x00\x01\x00\x01a\x7f\xff\xff\xff") is None
