"""Quotas hold for what leases serve: a plain Produce and a plain Fetch, which the hub answers alone until there is any
quota.
"""

import time
from collections.abc import Iterator

import pytest

from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.peers.ottla import Broker
from tests.support.client import Client, batch, values

BIG = batch(b"x" * 30_000)
PLENTY = 1e9
#: Requests until a quota is heard of through the tree, and its first window is used up.
TRIES = 300


@pytest.fixture
def admin(shared_broker: Broker) -> Iterator[Client]:
    with Client.connect("127.0.0.1", shared_broker.port, "admin") as client:
        yield client


@pytest.fixture
def limited(shared_broker: Broker, admin: Client) -> Iterator[Client]:
    """A client with the id "limited", without quotas in the beginning and in the end."""
    with Client.connect("127.0.0.1", shared_broker.port, "limited") as client:
        yield client
    limit(admin, producer_byte_rate=None, consumer_byte_rate=None)


def limit(admin: Client, **quotas: float | None) -> None:
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name="limited")], ops=ops)
    (row,) = admin.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry])).entries
    assert row.error_code == 0


def leased(admin: Client, topic: str) -> None:
    """A topic under a lease: its first plain requests were asked about, and those that follow are not."""
    admin.create(topic)
    for _ in range(3):
        admin.produce(topic, BIG, acks=1)
        assert len(values(admin.fetch(topic))) > 0


def assert_muted(limited: Client, admin: Client, throttle_ms: int, sent: float) -> None:
    """Nothing of the throttled connection is served before its time is over, and others are served meanwhile. `sent` is
    the moment in which the throttled request was sent.
    """
    assert admin.fetch("others-are-served").throttle_time_ms == 0
    limited.call(METADATA, MetadataRequest(topics=[]))
    assert time.monotonic() - sent >= throttle_ms / 1000


@pytest.mark.parametrize(("version", "options"), [(11, {}), (9, {}), (11, {"isolation_level": 1}), (3, {})], ids=str)
def test_a_plain_fetch_is_throttled(limited: Client, admin: Client, version: int, options: dict[str, int]) -> None:
    topic = f"plain-fetch-{version}-{len(options)}"
    leased(admin, topic)
    limit(admin, consumer_byte_rate=30_000.0)
    for _ in range(TRIES):
        sent = time.monotonic()
        answer = limited.fetch(topic, version=version, max_bytes=1, **options)
        if answer.throttle_time_ms:
            break
        assert values(answer) == [b"x" * 30_000]
    else:
        raise AssertionError("never throttled")
    assert answer.responses == []
    assert_muted(limited, admin, answer.throttle_time_ms, sent)
    limit(admin, consumer_byte_rate=PLENTY)
    for _ in range(TRIES):
        answer = limited.fetch(topic, version=version, max_bytes=1, **options)
        if not answer.throttle_time_ms:
            break
    assert values(answer) == [b"x" * 30_000], "nothing is missed"


def test_a_plain_produce_is_throttled(limited: Client, admin: Client) -> None:
    leased(admin, "plain-produce")
    limit(admin, producer_byte_rate=30_000.0)
    for _ in range(TRIES):
        sent = time.monotonic()
        answer = limited.produce("plain-produce", BIG, acks=1)
        assert answer.responses[0].partitions[0].error_code == 0
        if answer.throttle_time_ms:
            break
    else:
        raise AssertionError("never throttled")
    assert_muted(limited, admin, answer.throttle_time_ms, sent)
