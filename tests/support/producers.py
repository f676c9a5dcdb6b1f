"""Batches of an idempotent producer, sent as often as a test likes."""

from ottla.wire.k00_produce import PartitionProduceResponse
from tests.support.client import Client, batch


def retried(client: Client, topic: str, producer_id: int, sequence: int) -> tuple[int, int]:
    """Sends the producer's batch of this number; error and offset."""
    records = batch(b"%d" % sequence, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    row: PartitionProduceResponse = client.produce(topic, records).responses[0].partitions[0]
    return row.error_code, row.base_offset
