"""The records of `__transaction_state`: their bytes, what is refused, and how they are read back."""

import contextlib
import random

import pytest

from ottla.errors import CorruptMessage
from ottla.transaction.records import decode_key, decode_value, encode_key, encode_value
from ottla.transaction.shard import Shard
from ottla.transaction.transaction import State, Transition

RECORD = Transition(
    State.ONGOING,
    producer_id=4000,
    epoch=7,
    timeout_ms=60_000,
    partitions=frozenset({("orders", 0), ("orders", 2), ("größe", 1)}),
    started_ms=1_700_000_000_000,
    updated_ms=1_700_000_000_123,
)


@pytest.mark.parametrize("state", [state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)])
def test_round_trip(state: State) -> None:
    record = RECORD._replace(state=state, partitions=frozenset() if state is State.EMPTY else RECORD.partitions)
    assert decode_value(encode_value(record)) == record


def test_the_bytes() -> None:
    assert encode_key("tx") == bytes.fromhex("0000 0002 7478")
    record = RECORD._replace(partitions=frozenset({("a", 1), ("a", 0)}))
    assert encode_value(record) == bytes.fromhex(
        "0000 0000000000000fa0 0007 0000ea60 01"
        "00000001 0001 61 00000002 00000000 00000001"
        "0000018bcfe5687b 0000018bcfe56800"
    )
    empty = RECORD._replace(state=State.EMPTY, partitions=frozenset(), started_ms=-1)
    assert encode_value(empty) == bytes.fromhex(
        "0000 0000000000000fa0 0007 0000ea60 00 ffffffff 0000018bcfe5687b ffffffffffffffff"
    )


def test_broken_records_are_refused_and_nothing_else_happens() -> None:
    whole = encode_value(RECORD)
    for end in range(len(whole)):
        with pytest.raises(CorruptMessage):
            decode_value(whole[:end])
    rng = random.Random(1)
    for _ in range(2_000):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with contextlib.suppress(CorruptMessage):
            decode_value(bytes(data))
    for key in (None, b"", b"\0", b"\0\0", b"\0\0\0\5abc", b"\0\0\xff\xff", b"\0\1\0\1a"):
        with pytest.raises(CorruptMessage):
            decode_key(key)
    with pytest.raises(CorruptMessage, match="version 1"):
        decode_value(b"\0\1" + whole[2:])


def test_the_last_record_of_an_id_counts() -> None:
    shard = Shard(0, 5)
    for name, state in (("a", State.ONGOING), ("b", State.PREPARE_COMMIT), ("a", State.PREPARE_ABORT)):
        shard.replay(encode_key(name), encode_value(RECORD._replace(state=state)))
    shard.replay(encode_key("c"), encode_value(RECORD))
    shard.replay(encode_key("c"), None)
    assert {name: each.state for name, each in shard.transactions.items()} == {
        "a": State.PREPARE_ABORT,
        "b": State.PREPARE_COMMIT,
    }
    assert shard.transactions["a"].partitions == RECORD.partitions
    assert [each.transactional_id for each in shard.prepared()] == ["a", "b"]
