"""ListOffsets at a leader that does not know yet how far the former one had come (KIP-207)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import LeaderNotAvailable, OffsetNotAvailable
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.client import Client, batch
from tests.support.leased import started

pytestmark = pytest.mark.trio

LATEST, EARLIEST = -1, -2
FIRST_MS, NEVER_MS = 1_700_000_000_000, 1_800_000_000_000


def offset(client: Client, timestamp: int, version: int = 5) -> tuple[int, int]:
    """Error code and offset."""
    row = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[row])])
    answer = client.call(LIST_OFFSETS, asked, version).topics[0].partitions[0]
    return answer.error_code, answer.offset


async def test_what_is_below_its_high_watermark_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is not told, and what might lie beyond the high watermark; as `Log.fetchOffsetByTimestamp` in Kafka."""
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t")
        await one.talk(lambda client: client.produce("t", batch(b"a", b"b", timestamp_ms=FIRST_MS)))
        assert await one.talk(lambda client: offset(client, LATEST)) == (0, 2)
        assert await one.talk(lambda client: offset(client, NEVER_MS)) == (0, -1)
        partition.leader_epoch_start = 5
        for asked, expected in {
            LATEST: (OffsetNotAvailable.code, -1),
            EARLIEST: (0, 0),
            FIRST_MS: (0, 0),
            NEVER_MS: (OffsetNotAvailable.code, -1),
        }.items():
            assert await one.talk(lambda client, asked=asked: offset(client, asked)) == expected, asked
        # Before version 5 clients do not know that error.
        assert await one.talk(lambda client: offset(client, LATEST, 4)) == (LeaderNotAvailable.code, -1)
