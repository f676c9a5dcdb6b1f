"""Messages in pieces are what they are at once."""

import random

import pytest

from ottla.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire import api
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.wire.instances import codec, every_message, instance


@pytest.mark.parametrize("items", [1, 2, 7])
def test_pieces_are_the_whole(items: int) -> None:
    rng = random.Random(1)
    for key, side, version in every_message():
        found, encode, decode = codec(key, side)
        schema = getattr(found, f"_{side}")
        message = instance(getattr(found, side), version, rng)
        body = encode(version, message)
        encoding = schema.encoding(version, message, items)
        while encoding.go_on():
            assert not encoding.is_done
        assert encoding.is_done
        assert encoding.bytes == body
        decoding = schema.decoding(version, body, items)
        while decoding.go_on():
            pass
        assert decoding.message == decode(version, body), (found, side, version)


def request(topics: int, rows: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name=f"t-{topic}", partitions=[ListOffsetsPartition(index) for index in range(rows)])
            for topic in range(topics)
        ],
    )


@pytest.mark.parametrize(("topics", "rows"), [(1, 1000), (1000, 1), (40, 25)])
def test_a_piece_has_so_many_items(topics: int, rows: int) -> None:
    """However they are spread over arrays."""
    body = LIST_OFFSETS.encode_request(1, request(topics, rows))
    decoding = LIST_OFFSETS._request.decoding(1, body, 100)
    assert sum(len(topic.partitions) for topic in decoding.message.topics) <= 100
    pieces, before = 0, 0
    more = True
    while more:
        more = decoding.go_on()
        pieces += 1
        there = len(decoding.message.topics) + sum(len(topic.partitions) for topic in decoding.message.topics)
        assert there - before <= 200
        before = there
    assert pieces >= (topics + topics * rows) // 200
    assert decoding.message == request(topics, rows)


def test_all_of_a_message_is_checked_before_its_first_piece() -> None:
    body = LIST_OFFSETS.encode_request(1, request(3, 1000))
    with pytest.raises(RemoteProtocolError, match=r"topics\[2\]\.partitions"):
        LIST_OFFSETS._request.decoding(1, body[:-1], 10)
    too_many = LIST_OFFSETS.encode_request(1, request(1, LIST_OFFSETS.items_max))
    with pytest.raises(RemoteProtocolError, match="items"):
        LIST_OFFSETS._request.decoding(1, too_many, 10)


def test_a_row_that_cannot_be_encoded_is_an_error() -> None:
    found = api(2)
    message = request(1, 1000)
    message.topics[0].partitions[700].partition_index = 1 << 40
    encoding = found._request.encoding(1, message, 10)
    with pytest.raises(LocalProtocolError, match="does not fit"):
        all(iter(encoding.go_on, False))
