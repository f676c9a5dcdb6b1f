"""A broker goes on knowing its idempotent producers, whatever was deleted of the log's beginning and however it ended.

As in Kafka, a snapshot keeps the last batch of each producer only: after a clean end that one is recognised, after a
kill the five of the window are, as far as the log is read again. None is ever taken for a new one.
"""

import random

import pytest

from ottla.errors import OutOfOrderSequenceNumber
from tests.faults.broker import settings
from tests.faults.broker.settings import COORDINATORS
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, connect
from tests.support.operations import delete
from tests.support.producers import retried
from tests.support.transactions import init

BATCHES = 12
REFUSED = (OutOfOrderSequenceNumber.code, -1)


def known(client: Client, topic: str, producer_id: int) -> None:
    """Asks for everything that must not be appended: batches sent again, and ones after a gap."""
    for sequence in range(BATCHES - 1):
        assert retried(client, topic, producer_id, sequence) in (REFUSED, (0, sequence)), (topic, sequence)
    assert retried(client, topic, producer_id, BATCHES - 1) == (0, BATCHES - 1), topic
    for sequence in (BATCHES + 1, BATCHES + 7):
        assert retried(client, topic, producer_id, sequence) == REFUSED, (topic, sequence)
    row = client.fetch(topic, BATCHES).responses[0].partition_responses[0]
    assert (row.error_code, row.high_watermark) == (0, BATCHES)


def ended(brokers: Brokers, broker: Broker, *, clean: bool) -> Broker:
    if clean:
        broker.stop()
    else:
        broker.kill()
    return brokers.restart(broker, settings=COORDINATORS)


@pytest.mark.parametrize("large_segments", [True, False])
def test_producers_are_known_after_deletions_and_restarts(brokers: Brokers, large_segments: bool) -> None:
    """Records are deleted up to several offsets, the end too; with segments of a batch each, files go with them."""
    chance = random.Random(settings.seed())
    broker = brokers(settings=COORDINATORS)
    topics = {f"t-{count}": count for count in range(0, BATCHES + 1, 3)}
    options = {} if large_segments else {"segment_bytes": "100", "file_delete_delay_ms": "0"}
    with connect(broker) as client:
        producer_id = init(client, None).producer_id
        for topic, count in topics.items():
            client.create(topic, retention_ms="-1", **options)
            for sequence in range(BATCHES):
                assert retried(client, topic, producer_id, sequence) == (0, sequence)
            assert delete(client, topic, count) == (0, count)
    for clean in chance.sample([True, False], 2):
        broker = ended(brokers, broker, clean=clean)
        with connect(broker) as client:
            for topic, count in topics.items():
                if count < BATCHES:
                    known(client, topic, producer_id)
    with connect(broker) as client:
        for topic in topics:
            assert retried(client, topic, producer_id, BATCHES) == (0, BATCHES), topic
