"""Produce and Fetch through the hub, with records in a real log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla._core import (
    FetchRow,
    Log,
    LogConfig,
    LogDirectory,
    PartitionToRead,
    ProduceRow,
    Reader,
    Request,
    decode_fetch_response,
    decode_produce_response,
    encode_fetch_request,
    encode_produce_request,
)
from ottla.errors import KafkaError
from ottla.wire.headers import request_frame
from tests.net.support import FETCH, METADATA, PRODUCE, Peer, batch, request_bytes, serving

pytestmark = pytest.mark.trio


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[Log]]:
    directory = LogDirectory.open(tmp_path)
    logs = directory.create("events", [0, 1, 2], LogConfig())
    for log in logs:
        log.begin_epoch(0)
    yield logs
    directory.close()


async def produce(peer: Peer, version: int, partitions: list[tuple[str, int, bytes | None]], acks: int = 1) -> None:
    body = encode_produce_request(version, None, acks, 1500, partitions)
    await peer.send(request_frame(PRODUCE, version, 7, "test", body))


@pytest.mark.parametrize("version", range(3, 9))
async def test_produce_shares_its_frame_with_the_log(logs: list[Log], version: int) -> None:
    seen: list[tuple[object, ...]] = []

    def handler(request: Request) -> None:
        asked = request.produce()
        seen.append((asked.acks, asked.timeout_ms, asked.transactional_id, asked.partitions, len(asked)))
        results: list[object] = []
        for index, (_, partition, has_records) in enumerate(asked.partitions):
            if has_records:
                results.append(logs[partition].append_bytes(asked.records_bytes(index) or b"", 0))
            else:
                results.append(ProduceRow(87, record_errors=[(0, "no"), (3, None)], message="empty"))
        request.limit(lambda: 9, True)
        request.reply_produce(results)

    async with serving(handler) as one:
        peer = await one.connect()
        for round_ in range(2):
            await produce(
                peer, version, [("events", 1, batch(b"a", b"b")), ("events", 2, batch(b"c")), ("other", 0, None)]
            )
            _, body = await peer.frame()
            answer = decode_produce_response(body, version)
            assert answer.throttle_time_ms == 9
            found = [(one.topic, one.partition, one.error_code, one.base_offset) for one in answer.partitions]
            assert found == [("events", 1, 0, 2 * round_), ("events", 2, 0, round_), ("other", 0, 87, -1)]
            if version >= 8:
                assert answer.partitions[2].record_errors == [(0, "no"), (3, None)]
                assert answer.partitions[2].error_message == "empty"
        partitions = (("events", 1, True), ("events", 2, True), ("other", 0, False))
        assert seen[0] == (1, 1500, None, partitions, 3)
        assert logs[1].end_offset == 4


async def test_what_is_not_asked_cannot_be_answered(logs: list[Log]) -> None:
    def handler(request: Request) -> None:
        if request.api_key == METADATA:
            with pytest.raises(TypeError, match="not a Produce"):
                request.produce()
            with pytest.raises(TypeError, match="not a Fetch"):
                request.fetch()
            with pytest.raises(TypeError, match="comes first"):
                request.reply_produce([])
            request.reply(b"ok")
            return
        with pytest.raises(BufferError):
            memoryview(request)
        asked = request.produce()
        with pytest.raises(TypeError):
            request.produce()
        with pytest.raises(IndexError):
            asked.records_bytes(5)
        with pytest.raises(ValueError, match="0 results for 1"):
            request.reply_produce([])
        request.reply_produce([ProduceRow(base_offset=0, log_start_offset=0)])

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 5))
        assert await peer.frame() == (5, b"ok")
        await produce(peer, 7, [("events", 0, batch(b"a"))])
        assert decode_produce_response((await peer.frame())[1], 7).partitions[0].error_code == 0


async def test_a_malformed_produce_closes_its_connection_only(logs: list[Log]) -> None:
    async with serving(
        lambda request: request.reply_produce([ProduceRow(base_offset=0, log_start_offset=0)] * len(request.produce()))
    ) as one:
        bad, good = await one.connect(), await one.connect()
        await bad.send(request_bytes(PRODUCE, 7, 1, b"\xff" * 40))
        assert await bad.end() == b""
        await produce(good, 7, [("events", 0, b"")])
        await good.frame()


@pytest.mark.parametrize("version", range(4, 13))
async def test_fetch_sends_slices_of_the_log(logs: list[Log], version: int) -> None:
    data = [batch(b"%d" % number * 100) for number in range(1000)]
    for one_batch in data:
        logs[0].append_bytes(one_batch, 0)
    logs[1].append_bytes(batch(b"one"), 0)
    seen: list[object] = []

    def handler(request: Request) -> None:
        asked = request.fetch()
        seen.append((asked.replica_id, asked.max_wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation_level))
        assert asked.reader is (Reader.COMMITTED if asked.isolation_level else Reader.CONSUMER)
        rows: list[FetchRow] = []
        for one in asked.partitions:
            _, partition = one.key
            if partition > 2:
                rows.append(FetchRow(3))
                continue
            log = logs[partition]
            rows.append(
                FetchRow(
                    high_watermark=log.end_offset,
                    last_stable_offset=log.end_offset,
                    log_start_offset=0,
                    aborted_transactions=[(5, 6)],
                    records=log.read(one.offset, 1 << 20),
                    diverging_epoch=(4, 44),
                )
            )
        rows.append(FetchRow(records=b"in memory"))
        of = [*asked.partitions, PartitionToRead(("more", 9), 0, 0)]
        with pytest.raises(ValueError, match="3 names for 4 rows"):
            request.reply_fetch(rows, of=of[:3])
        with pytest.raises(IndexError):
            request.reply_fetch(rows)
        request.reply_fetch(rows, of=of, throttle_ms=3, session_id=0)

    async with serving(handler) as one:
        peer = await one.connect()
        size = 1 << 20
        asked = [("events", 0, 0, size, -1, -1, -1), ("events", 1, 0, size, -1, -1, -1), ("none", 3, 0, 99, -1, -1, -1)]
        for _ in range(3):
            body = encode_fetch_request(
                version, asked, max_wait_ms=500, min_bytes=1, max_bytes=1 << 25, isolation_level=1
            )
            await peer.send(request_frame(FETCH, version, 7, "test", body))
            length = int.from_bytes(await peer.exactly(4), "big")
            frame = await peer.exactly(length)
            answer = decode_fetch_response(frame, version, 5 if version >= 12 else 4)
            found = [(one.topic, one.partition, one.error_code) for one in answer.partitions]
            assert found == [("events", 0, 0), ("events", 1, 0), ("none", 3, 3), ("more", 9, 0)]
            first, second, third, last = answer.partitions
            assert bytes(first.records) == logs[0].read(0, 1 << 20).slice.read()  # type: ignore[union-attr]
            assert first.high_watermark == 1000
            assert bytes(second.records) == logs[1].read(0, 1 << 20).slice.read()  # type: ignore[union-attr]
            assert bytes(third.records or b"") == b""
            assert bytes(last.records) == b"in memory"
            assert second.diverging_epoch == ((4, 44) if version >= 12 else None)
        assert seen[0] == (-1, 500, 1, 1 << 25, 1)


async def test_a_closed_log_costs_one_connection(logs: list[Log]) -> None:
    def handler(request: Request) -> None:
        for index, (_, partition, has_records) in enumerate(request.produce().partitions):
            assert (index, partition, has_records) == (0, 0, True)
        raise KafkaError("the log is broken")

    async with serving(handler) as one:
        peer = await one.connect()
        await produce(peer, 7, [("events", 0, batch(b"a"))])
        assert await peer.end() == b""
        await one.until(lambda: one.gone)
        assert one.gone[0].reason == "API key 0 version 7: the request could not be handled"
