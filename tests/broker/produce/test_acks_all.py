"""The promise of an answer that waits for the other replicas and the disk: with acks=all, and of a transaction's end.

The disk is slow where a test says so, and another replica never fetches.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.errors import NotEnoughReplicasAfterAppend, RequestTimedOut, StorageError
from ottla.replication import leading
from ottla.replication.partition import Partition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.another_replica import with_another_replica
from tests.support.client import Client, batch
from tests.support.leased import produce, started
from tests.support.slow_disk import SlowDisk
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

#: On the loop, and on an I/O thread.
SIZES = pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])


def produce_for(client: Client, timeout_ms: int, size: int) -> int:
    row = TopicProduceData(name="t", partitions=[PartitionProduceData(records=batch(b"x" * size))])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=timeout_ms, topics=[row])
    return client.call(PRODUCE, request, 8).responses[0].partitions[0].error_code


def end_transaction(client: Client) -> int:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=5, producer_epoch=0, transaction_result=True, topics=[topic])
    (row,) = client.call(WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker]), 0).markers
    return row.topics[0].partitions[0].error_code


async def test_a_leader_that_is_left_alone_answers_and_shows_what_the_disk_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path, monkeypatch) as one, trio.open_nursery() as nursery:
        partition = await with_another_replica(one)
        disk = SlowDisk(one, monkeypatch)
        answers: list[tuple[int, int]] = []

        async def produce_one() -> None:
            answers.append(await one.talk(lambda client: produce(client, "t", b"a", acks=-1)))

        nursery.start_soon(produce_one)
        await comes_true(
            "a record whose answer waits", lambda: partition.log.end_offset == 1 and partition.waiting_produces
        )
        assert disk.asked == []
        assert leading.isr_changed(partition, 1, (one.broker.id,), 2)
        assert (disk.asked, partition.log.high_watermark, answers) == ([partition], 0, [])
        disk.go_on()
        await comes_true("the answer", lambda: answers == [(0, 0)])
        assert partition.log.high_watermark == 1


async def test_the_high_watermark_moves_once_for_all_appends_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t")
        moves: list[Partition] = []
        appended = Partition.appended

        def noted(moved: Partition) -> None:
            moves.append(moved)
            appended(moved)

        monkeypatch.setattr(Partition, "appended", noted)
        assert await one.talk(lambda client: produce(client, "t", b"a", acks=-1)) == (0, 0)
        assert moves == [partition]


@SIZES
async def test_a_produce_that_others_do_not_confirm_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await with_another_replica(one)
        with trio.fail_after(PATIENCE_S):
            assert await one.talk(lambda client: produce_for(client, 50, size)) == RequestTimedOut.code
        # It may yet become safe: until then nobody reads it.
        assert (partition.log.end_offset, partition.log.high_watermark) == (1, 0)


async def test_the_end_of_a_transaction_that_others_do_not_confirm_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path, monkeypatch, **{"request.timeout.ms": "50"}) as one:
        partition = await with_another_replica(one)
        with trio.fail_after(PATIENCE_S):
            assert await one.talk(end_transaction) == RequestTimedOut.code
        assert (partition.log.end_offset, partition.log.high_watermark) == (1, 0)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda client: produce_for(client, 20_000, 10), id="small"),
        pytest.param(lambda client: produce_for(client, 20_000, 200_000), id="large"),
        pytest.param(end_transaction, id="marker"),
    ],
)
@pytest.mark.parametrize("replicas_are_enough", [True, False])
async def test_an_answer_waits_for_the_disk_and_tells_what_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], int], replicas_are_enough: bool
) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t")
        disk = SlowDisk(one, monkeypatch)
        answers: list[int] = []

        async def answered(conversation: Callable[[Client], Any]) -> None:
            answers.append(await one.talk(conversation))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answered, ask)
                await comes_true("a flush that is asked for", lambda: disk.asked or answers)
                if not replicas_are_enough:
                    await one.talk(lambda client: client.alter_topic("t", {"min.insync.replicas": "2"}))
                    await comes_true("a partition that lacks replicas", lambda: not partition.has_enough_replicas)
                # A power cut now would take the record.
                assert (answers, partition.log.end_offset, partition.log.flushed_offset) == ([], 1, 0)
                disk.go_on()
        assert answers == [0 if replicas_are_enough else NotEnoughReplicasAfterAppend.code]
        assert partition.log.flushed_offset == 1


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda client: produce_for(client, 20_000, 10), id="small"),
        pytest.param(lambda client: produce_for(client, 20_000, 200_000), id="large"),
        pytest.param(end_transaction, id="marker"),
    ],
)
async def test_a_flush_that_fails_is_told_although_its_directory_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], int]
) -> None:
    """A log that a mistake of ours has broken is flushed no more; the others of its directory are in use."""
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t")
        disk = SlowDisk(one, monkeypatch)
        answers: list[int] = []

        async def answered() -> None:
            answers.append(await one.talk(ask))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answered)
                await comes_true("a flush that is asked for", lambda: disk.asked or answers)
                partition.log._panic_in_append()
                broken = await one.talk(lambda client: produce(client, "t", b"x" * 200_000, acks=1))
                assert broken == (StorageError.code, -1)
                assert answers == []
                disk.go_on()
        assert answers == [StorageError.code]
        assert not partition.is_offline


async def test_what_comes_behind_two_flushes_is_flushed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t")
        assert await one.talk(lambda client: produce(client, "t", b"x", acks=-1)) == (0, 0)
        # Two flushes end before the loop hears of the first.
        for offset in (1, 2):
            partition.log.append_bytes(batch(b"x"), partition.leader_epoch)
            one.broker.replicas.flush(partition)
            assert partition.log.flush() == offset + 1
        told: list[int] = []
        last = partition.log.append_bytes(batch(b"x"), partition.leader_epoch).last_offset
        partition.advance_high_watermark()
        assert partition.wait_durable(last, told.append)
        one.broker.replicas.flush(partition)
        assert partition.log.flushed_offset == last
        await comes_true("the third flush", lambda: told)
        assert (told, partition.log.flushed_offset) == ([0], last + 1)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda client: produce_for(client, 20_000, 10), id="small"),
        pytest.param(lambda client: produce_for(client, 20_000, 200_000), id="large"),
        pytest.param(end_transaction, id="marker"),
    ],
)
async def test_what_does_not_wait_for_the_disk_is_flushed_as_often_as_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], int]
) -> None:
    settings = {"log.flush.on.acks.all": "false", "log.flush.interval.messages": "1"}
    async with started(tmp_path, monkeypatch, **settings) as one:
        partition = await one.create("t")
        with trio.fail_after(PATIENCE_S):
            assert await one.talk(ask) == 0
            await comes_true("the flush", lambda: partition.log.flushed_offset == 1)
