"""Transactions in a log: where readers of committed records stop, and what they leave out."""

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla import _core
from ottla.errors import InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced
from ottla.log import verify

from .transactions import ABORT, COMMIT, end, fill, open_log, write


def committed(log: _core.Log) -> list[bytes | None]:
    """The log as a consumer reads it: whole batches, aborted ones and markers left out by Kafka's rule."""
    seen: list[bytes | None] = []
    offset, bound = log.start_offset, log.last_stable_offset
    while (read := log.read(offset, 700, bound)).slice is not None:
        later = sorted(log.aborted_transactions(offset, read), key=lambda aborted: aborted[1])
        aborted: set[int] = set()
        for info, records in _core.decode_batches(read.slice.read()):
            while later and later[0][1] <= info.last_offset:
                aborted.add(later.pop(0)[0])
            if info.is_control:
                if records[0][1] == struct.pack(">hh", 0, 0):
                    aborted.discard(info.producer_id)
            elif not (info.is_transactional and info.producer_id in aborted):
                seen += [value for _, _, value in records]
            offset = info.last_offset + 1
    return seen


def known(producers: Iterable[_core.ActiveProducer]) -> list[tuple[int, ...]]:
    """All that a log knows of producers, to be compared."""
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.coordinator_epoch,
            each.transaction_start,
        )
        for each in producers
    ]


@pytest.mark.parametrize("clean", [True, False])
def test_committed_records_are_seen_and_no_others(tmp_path: Path, clean: bool) -> None:
    path = tmp_path / "orders-0"
    log = open_log(path, segment_bytes=3000, index_interval_bytes=200)
    expected = fill(log, rounds=150)
    log.high_watermark = log.end_offset
    assert len(log.segments) > 5
    assert committed(log) == expected
    assert log.last_stable_offset == log.end_offset - 2
    log.close()
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
        (tmp_path / "recovery-point-offset-checkpoint").unlink()
        for left in [*path.glob("*.txnindex"), *path.glob("*.snapshot")]:
            left.unlink()
    log = open_log(path)
    log.high_watermark = log.end_offset
    assert committed(log) == expected
    assert [each.producer_id for each in log.producers() if each.transaction_start >= 0] == [9]
    assert known(log.each_producer()) == known(log.producers())
    end(log, 9, COMMIT)
    log.high_watermark = log.end_offset
    assert committed(log) == [*expected, b"never seen", b"behind it"]


def test_who_may_not_write(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    write(log, 1, 0, b"a", epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        end(log, 1, ABORT, epoch=2)
    with pytest.raises(InvalidTxnState, match="outside of its open transaction"):
        write(log, 1, 1, b"b", epoch=3, transactional=False)
    end(log, 1, ABORT, epoch=4, coordinator_epoch=7)
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, 1, ABORT, epoch=4, coordinator_epoch=6)
    with pytest.raises(InvalidProducerEpoch):
        write(log, 1, 1, b"late", epoch=3)
    assert known(log.producers()) == [(1, 4, -1, log.producers()[0].last_timestamp_ms, 7, -1)]
    write(log, 1, 0, b"c", epoch=4)


def test_a_producer_with_an_open_transaction_is_never_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    write(log, 1, 0, b"a")
    write(log, 2, 0, b"b", transactional=False)
    assert log.expire_producers(1 << 60) == 1
    assert [each.producer_id for each in log.producers()] == [1]
    end(log, 1, COMMIT)
    assert log.expire_producers(1 << 60) == 1


def test_damage_to_a_transaction_index_is_found_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    log = open_log(path, segment_bytes=3000)
    fill(log)
    log.close()
    assert verify(path).damage == []
    index = max(path.glob("*.txnindex"), key=lambda file: file.stat().st_size)
    whole = index.read_bytes()
    assert len(whole) > 2 * 34

    def found(data: bytes) -> list[str]:
        index.write_bytes(data)
        damage = verify(path).damage
        assert {each.path for each in damage} == {str(index)}
        return [each.problem for each in damage]

    assert "is missing" in found(whole[:-34])[0]
    assert "no entry of a known version" in found(whole[:-1])[0]
    assert "no entry of a known version" in found(b"\0\1" + whole[2:])[0]
    last_offset = 34 + 18 + 7
    changed = whole[:last_offset] + bytes([whole[last_offset] ^ 1]) + whole[last_offset + 1 :]
    assert any(problem.startswith("no marker at") for problem in found(changed))
    # The producer of another transaction.
    assert any(problem.startswith("no marker at") for problem in found(whole[:9] + b"\7" + whole[10:]))
    _core.repair_log(path, _core.LogConfig())
    assert verify(path).damage == []
    assert index.read_bytes() == whole


@pytest.mark.parametrize("bytes_max", [1, 1500, 1 << 20])
def test_a_follower_knows_what_its_leader_knows(tmp_path: Path, bytes_max: int) -> None:
    for name in ("leader", "follower"):
        (tmp_path / name).mkdir()
    leader = open_log(tmp_path / "leader" / "orders-0", segment_bytes=3000, index_interval_bytes=200)
    expected = fill(leader, rounds=60)
    leader.high_watermark = leader.end_offset
    follower = open_log(tmp_path / "follower" / "orders-0", segment_bytes=1 << 20)
    while (piece := leader.read(follower.end_offset, bytes_max).slice) is not None:
        follower.append_as_follower(piece.read(), leader.leader_epoch)
    follower.high_watermark = follower.end_offset
    assert committed(follower) == expected
    assert follower.last_stable_offset == leader.last_stable_offset
    assert known(follower.producers()) == known(leader.producers())
    assert verify(tmp_path / "follower" / "orders-0").damage == []
