"""Names of mirrored topics."""

import pytest

from ottla.mirror.naming import Names, is_internal

PREFIXED, IDENTITY = Names(), Names(is_identity=True)


@pytest.mark.parametrize(
    ("names", "topic", "remote"),
    [
        (PREFIXED, "orders", "A.orders"),
        (PREFIXED, "B.orders", "A.B.orders"),
        (Names("_"), "orders", "A_orders"),
        (IDENTITY, "orders", "orders"),
        # They say by their name where they come from, whatever the others do.
        (IDENTITY, "heartbeats", "A.heartbeats"),
    ],
)
def test_what_a_topic_is_called_elsewhere(names: Names, topic: str, remote: str) -> None:
    assert names.remote("A", topic) == remote


@pytest.mark.parametrize(
    ("names", "topic", "source", "original"),
    [
        (PREFIXED, "orders", None, "orders"),
        (PREFIXED, "A.orders", "A", "orders"),
        (PREFIXED, "B.A.orders", "B", "orders"),
        (PREFIXED, ".orders", None, ".orders"),
        (PREFIXED, "orders.", None, "orders."),
        (Names("_"), "A.orders", None, "A.orders"),
        (IDENTITY, "A.orders", None, "A.orders"),
        (IDENTITY, "A.heartbeats", "A", "heartbeats"),
    ],
)
def test_where_a_topic_comes_from(names: Names, topic: str, source: str | None, original: str) -> None:
    assert (names.source(topic), names.original(topic)) == (source, original)


def test_nothing_goes_back_to_where_it_was() -> None:
    assert PREFIXED.was_in("A.orders", "A")
    assert PREFIXED.was_in("C.A.orders", "A")
    assert not PREFIXED.was_in("A.orders", "B")
    assert not PREFIXED.was_in("orders", "A")


def test_aliases_that_have_the_separator_in_themselves() -> None:
    names = Names(aliases=("dc.east", "dc.west", "dc"))
    assert (names.source("dc.east.orders"), names.upstream("dc.east.orders")) == ("dc.east", "orders")
    assert (names.source("dc.orders"), names.source("other.orders")) == ("dc", "other")
    assert names.original("dc.west.dc.east.orders.2") == "2"
    assert names.was_in("dc.west.dc.east.orders", "dc.east")
    assert not names.was_in("dc.west.orders", "dc.east")
    # It may be the topic `east.orders` of `dc`: then it has been there.
    assert names.was_in("dc.east.orders", "dc")


def test_internal_topics() -> None:
    inside = ["__consumer_offsets", ".x", "mm2-offset-syncs.B.internal", "A.checkpoints.internal", "connect-internal"]
    assert all(map(is_internal, inside))
    assert not any(map(is_internal, ["orders", "heartbeats", "A.heartbeats", "internal"]))
    assert PREFIXED.is_heartbeats("B.A.heartbeats")
    assert not PREFIXED.is_heartbeats("A.orders")
