"""Rates, token buckets and which quota holds, without a broker."""

import pytest

from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.limits import ABSENT, DEFAULT, Entity, Limits
from ottla.broker.quotas.rates import Rate, TokenBucket, Window
from ottla.config import BrokerConfig

WINDOW = Window(11, 1000)


def test_a_rate_of_a_young_client_counts_as_that_of_a_whole_window() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, 5_000)
    assert rate.per_second(5_000) == 100
    assert rate.throttle_ms(100, 5_000) == 0
    rate.record(1000, 5_000)
    assert rate.throttle_ms(100, 5_000) == 10_000
    assert rate.throttle_ms(150, 5_000) == round((200 - 150) / 150 * 10_000)


def test_what_is_older_than_the_window_does_not_count() -> None:
    rate = Rate(WINDOW)
    for second in range(30):
        rate.record(50, second * 1000)
    assert rate.per_second(29_000) == pytest.approx(50 * 11 / 10)
    assert rate.per_second(29_000 + 11_000) == 0


def test_after_the_throttle_time_the_rate_is_right_again() -> None:
    rate = Rate(WINDOW)
    rate.record(1500, 0)
    throttle_ms = rate.throttle_ms(100, 0)
    assert throttle_ms == 5000
    # The window is open for ten seconds at least, so until then nothing changes; then the old sample goes.
    assert rate.throttle_ms(100, 11_000) == 0


def test_nothing_is_allowed_by_a_quota_of_nothing_until_it_is_lifted() -> None:
    rate = Rate(WINDOW)
    bucket = TokenBucket(WINDOW)
    for time_ms in (0, 11_000, 22_000):
        rate.record(1, time_ms)
        assert rate.throttle_ms(0, time_ms) == 11_000
        bucket.take(1, 0, time_ms)
        assert bucket.throttle_ms(0, time_ms) == 11_000
    assert rate.throttle_ms(100, 33_000) == 0
    bucket.take(0, 100, 33_000)
    assert bucket.throttle_ms(100, 34_000) == 0


def test_what_was_not_sent_is_taken_back() -> None:
    rate = Rate(WINDOW)
    rate.record(5000, 0)
    rate.record(-5000, 0)
    assert rate.throttle_ms(1, 0) == 0


def test_a_bucket_begins_full_and_fills_at_its_quota() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.take(20, 2, 1000)
    assert bucket.throttle_ms(2, 1000) == 0, "22 is what a whole window allows"
    bucket.take(10, 2, 1000)
    assert bucket.throttle_ms(2, 1000) == 4000
    assert bucket.throttle_ms(2, 3000) == 2000
    assert bucket.throttle_ms(2, 5000) == 0
    bucket.take(1, 2, 5000)
    assert bucket.throttle_ms(2, 5000) == 500
    assert bucket.throttle_ms(2, 1_000_000) == 0
    bucket.take(23, 2, 1_000_000)
    assert bucket.throttle_ms(2, 1_000_000) == 500, "no more is saved than a window's"


@pytest.mark.parametrize(
    ("entity", "group"),
    [
        (Entity("u", "c"), ("u", "c")),
        (Entity("u", DEFAULT), ("u", "c")),
        (Entity("u", ABSENT), ("u", "")),
        (Entity(DEFAULT, "c"), ("u", "c")),
        (Entity(DEFAULT, DEFAULT), ("u", "c")),
        (Entity(DEFAULT, ABSENT), ("u", "")),
        (Entity(ABSENT, "c"), ("", "c")),
        (Entity(ABSENT, DEFAULT), ("", "c")),
    ],
)
def test_the_most_specific_quota_holds(entity: Entity, group: tuple[str, str]) -> None:
    """The rows are in Kafka's order: each holds against all that stand below it."""
    rows = [
        Entity("u", "c"),
        Entity("u", DEFAULT),
        Entity("u", ABSENT),
        Entity(DEFAULT, "c"),
        Entity(DEFAULT, DEFAULT),
        Entity(DEFAULT, ABSENT),
        Entity(ABSENT, "c"),
        Entity(ABSENT, DEFAULT),
    ]
    limits = Limits(99.0)
    for value, row in enumerate(rows):
        if value >= rows.index(entity):
            limits.set(row, value)
    assert limits.find("u", "c") == (group, rows.index(entity))
    for row in rows:
        limits.set(row, None)
    assert limits.find("u", "c") == (("", "c"), 99.0)


def test_names_are_no_defaults() -> None:
    limits = Limits()
    limits.set(Entity(ABSENT, "ABSENT"), 1)
    limits.set(Entity("<default>", ABSENT), 2)
    assert limits.find("u", "c") is None
    assert limits.find("u", "ABSENT") == (("", "ABSENT"), 1)


def test_what_was_throttled_away_is_not_counted() -> None:
    """Or one fetch that is too much would throttle all that follow it, though none was answered."""
    quotas = ClientQuotas(BrokerConfig())
    assert not quotas
    quotas.set(Entity(ABSENT, "c"), {"consumer_byte_rate": "1000", "other": "5"})
    assert quotas
    client = ("u", "c")
    assert quotas.fetch_bytes_max(client) == 10_000
    assert quotas.fetched(client, 20_000) == 10_000
    assert quotas.fetched(client, 9_000) == 0
    assert quotas.fetched(client, 2_000) > 0
    assert quotas.fetched(("u", "another"), 20_000) == 0
    quotas.set(Entity(ABSENT, "c"), {})
    assert not quotas


def test_those_who_are_forgotten_are_those_who_used_nothing_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.quotas.clients.METERS_MAX", 2)
    quotas = ClientQuotas(BrokerConfig())
    quotas.set(Entity(ABSENT, DEFAULT), {"producer_byte_rate": "1"})
    for client_id in ("a", "b", "a", "c"):
        quotas.produced(("u", client_id), 6, 0)
    assert quotas.produced(("u", "a"), 0, 0) > 0
    assert quotas.produced(("u", "b"), 0, 0) == 0
