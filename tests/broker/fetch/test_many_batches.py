"""A Produce of many rows is served in pieces: what becomes of each is the same, and others do not wait for it.

How much of the loop it takes in one go is counted in `test_loop_turns.py`.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from ottla.client.errors import ConnectionLost
from ottla.errors import InvalidProducerIdMapping, InvalidRecord, RequestTimedOut, UnknownTopicOrPartition
from ottla.kafka import ACKS_ALL
from ottla.slices import ROWS
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from tests.support.another_replica import with_another_replica
from tests.support.client import Client, batch, values
from tests.support.leased import started
from tests.support.message_sets import message_set
from tests.support.waiting import PATIENCE_S, comes_true

#: Several pieces.
MANY = 3 * ROWS + 5
#: A partition, and what is sent for it.
Row = tuple[int, bytes | None]


def request(
    topic: str, rows: Sequence[Row], acks: int, *, timeout_ms: int = 60_000, transactional_id: str | None = None
) -> ProduceRequest:
    partitions = [PartitionProduceData(partition_index=index, records=records) for index, records in rows]
    topics = [TopicProduceData(name=topic, partitions=partitions)]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topics=topics)


def told(client: Client, asked: ProduceRequest, version: int = 8) -> list[tuple[int, int, int]]:
    """Partition, error code and base offset of each row of the answer."""
    (topic,) = client.call(PRODUCE, asked, version).responses
    return [(row.partition_index, row.error_code, row.base_offset) for row in topic.partitions]


def written(client: Client, topic: str, partition: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while more := values(client.fetch(topic, len(found), partition=partition)):
        found += more
    return found


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
@pytest.mark.parametrize("version", [2, 3, 8])
def test_every_row_is_answered_in_its_place(client: Client, acks: int, version: int) -> None:
    topic = f"batches-{acks}-{version}"
    client.create(topic, 2)
    rows: list[Row] = []
    wanted: list[tuple[int, int, int]] = []
    sent: tuple[list[bytes], list[bytes]] = [], []
    for number in range(MANY):
        partition = number % 4
        value = b"%d" % number
        records = batch(value) if version >= 3 else message_set(1, "none", (0, None, value))
        if partition == 3:
            rows.append((0, None))
            wanted.append((0, InvalidRecord.code if version >= 3 else 0, -1))
        elif partition == 2:
            rows.append((partition, records))
            wanted.append((partition, UnknownTopicOrPartition.code, -1))
        else:
            rows.append((partition, records))
            wanted.append((partition, 0, len(sent[partition])))
            sent[partition].append(value)
    asked = request(topic, rows, acks)
    if version < 3:
        asked = ProduceRequest(acks=acks, timeout_ms=asked.timeout_ms, topics=asked.topics)
    assert told(client, asked, version) == wanted
    assert (written(client, topic, 0), written(client, topic, 1)) == sent


def test_what_comes_behind_it_is_appended_behind_it(client: Client) -> None:
    client.create("behind")
    many = request("behind", [(0, batch(b"%d" % number)) for number in range(MANY)], 1)
    client.send(PRODUCE, many, 8)
    client.send(PRODUCE, request("behind", [(0, batch(b"last"))], 1), 8)
    answers = [client.receive() for _ in range(2)]
    assert [len(answer.responses[0].partitions) for answer in answers] == [MANY, 1]
    assert written(client, "behind", 0) == [*(b"%d" % number for number in range(MANY)), b"last"]


def test_without_acks_it_is_silent_until_a_row_fails(client: Client) -> None:
    client.create("silent")
    good: list[Row] = [(0, batch(b"%d" % number)) for number in range(MANY)]
    client.send_only(PRODUCE, 8, request("silent", good, 0))
    client.call(API_VERSIONS, ApiVersionsRequest())
    assert len(written(client, "silent", 0)) == MANY
    client.send_only(PRODUCE, 8, request("silent", [good[0], (7, batch(b"x")), *good], 0))
    with pytest.raises(ConnectionLost):
        client.call(API_VERSIONS, ApiVersionsRequest())


def test_batches_of_several_transactions_are_refused_as_one(client: Client) -> None:
    client.create("mixed")

    def of(producer: int) -> bytes:
        return batch(b"x", producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    rows = [(0, of(7 if number < MANY - 1 else 8)) for number in range(MANY)]
    answer = told(client, request("mixed", rows, ACKS_ALL, transactional_id="mixed"))
    assert answer == [(0, InvalidProducerIdMapping.code, -1)] * MANY
    assert written(client, "mixed", 0) == []


@pytest.mark.trio
async def test_rows_that_others_do_not_confirm_time_out_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that the request gives is that of all rows, not of each piece."""
    timeouts: list[int] = []
    async with started(tmp_path, monkeypatch) as one:
        partition = await with_another_replica(one)
        add = one.broker.deadlines.add

        def noted(timeout_ms: int, operation: object) -> None:
            timeouts.append(timeout_ms)
            add(timeout_ms, operation)

        monkeypatch.setattr(one.broker.deadlines, "add", noted)
        asked = request("t", [(0, batch(b"x"))] * MANY, ACKS_ALL, timeout_ms=50)
        with trio.fail_after(PATIENCE_S):
            answer = await one.talk(lambda client: told(client, asked))
        assert answer == [(0, RequestTimedOut.code, -1)] * MANY
        # While the disk is slow an I/O thread appends, and rows that have no time left do not wait for it.
        await comes_true("all are appended", lambda: partition.log.end_offset == MANY)
        assert partition.log.high_watermark == 0
        assert timeouts[0] <= 50
        assert timeouts[1:] == [0] * 3
