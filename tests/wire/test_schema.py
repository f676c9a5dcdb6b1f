"""The walker through every declared message: identity, cuts, damage, and what a version cannot say."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Annotated

import pytest

from ottla import _core
from ottla.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire import KEYS, api
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.wire.k08_offset_commit import OFFSET_COMMIT, OffsetCommitRequest
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from ottla.wire.schema import Api, Int16, Message, Uuid, V, describe
from tests.wire.instances import codec, every_message, instance


@pytest.mark.parametrize(("key", "side", "version"), every_message())
def test_every_message_comes_back_and_every_cut_is_an_error(key: int, side: str, version: int) -> None:
    found, encode, decode = codec(key, side)
    rng = random.Random(f"{key} {side} {version}")
    for _ in range(3):
        message = instance(getattr(found, side), version, rng)
        encoded = encode(version, message)
        assert decode(version, encoded) == message
        assert decode(version, memoryview(b"xyz" + encoded), 3) == message
        for length in rng.sample(range(len(encoded)), min(len(encoded), 60)):
            with pytest.raises(RemoteProtocolError, match=r"^\w.* at byte \d+: ") as caught:
                decode(version, encoded[:length])
            assert position(caught.value) <= length


@pytest.mark.parametrize(("key", "side", "version"), every_message())
def test_damaged_and_random_bytes_are_an_error_or_a_message(key: int, side: str, version: int) -> None:
    found, encode, decode = codec(key, side)
    rng = random.Random(f"{key} {side} {version} damage")
    for _ in range(20):
        damaged = bytearray(encode(version, instance(getattr(found, side), version, rng)) or b"\0")
        for _ in range(rng.choice((1, 1, 4))):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        for data in (damaged, rng.randbytes(rng.randrange(100))):
            if (error := refused(decode, version, data)) is not None:
                assert position(error) <= len(data)


def refused(decode: Callable[[int, bytes], object], version: int, data: bytes) -> RemoteProtocolError | None:
    try:
        decode(version, data)
    except RemoteProtocolError as error:
        return error
    return None


def position(error: RemoteProtocolError) -> int:
    found = re.search(r" at byte (\d+): ", str(error))
    assert found, error
    return int(found[1])


def test_lying_counts_cost_nothing() -> None:
    for version, lie in ((8, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x0f")):
        with pytest.raises(RemoteProtocolError, match=r"topics at byte 0: .* items cannot fit in the 3 bytes"):
            METADATA.decode_request(version, lie + b"\0\0\0")


def test_errors_name_the_field_with_its_index() -> None:
    brokers = [MetadataResponseBroker(1, "a", 9092), MetadataResponseBroker(2, "b", "9092")]  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match=r"brokers\[1\]\.port: an int is needed, not <class 'str'>"):
        METADATA.encode_response(0, MetadataResponse(brokers=brokers))
    brokers[1] = MetadataResponseBroker(2, "b", 2**31)
    with pytest.raises(LocalProtocolError, match=r"brokers\[1\]\.port: 2147483648 does not fit its type"):
        METADATA.encode_response(0, MetadataResponse(brokers=brokers))
    brokers[1] = MetadataResponseBroker(2, "b" * 40_000, 1)
    with pytest.raises(LocalProtocolError, match=r"brokers\[1\]\.host: too long"):
        METADATA.encode_response(0, MetadataResponse(brokers=brokers))
    encoded = METADATA.encode_response(0, MetadataResponse(brokers=[brokers[0]] * 2))
    damaged = encoded[:10] + b"\xc3" + encoded[11:]
    with pytest.raises(RemoteProtocolError, match=r"brokers\[0\]\.host at byte 8: the text is not UTF-8"):
        METADATA.decode_response(0, damaged)


@pytest.mark.parametrize("version", [8, 9])
def test_text_has_at_most_32767_bytes_in_both_encodings(version: int) -> None:
    longest = MetadataResponse(cluster_id="c" * 32_767)
    encoded = METADATA.encode_response(version, longest)
    assert METADATA.decode_response(version, encoded) == longest
    with pytest.raises(LocalProtocolError, match="cluster_id: too long"):
        METADATA.encode_response(version, MetadataResponse(cluster_id="c" * 32_768))
    if version >= METADATA.flexible_from:
        # Throttle time, no brokers, then one byte more than there may be.
        with pytest.raises(RemoteProtocolError, match="cluster_id at byte 5: the text is longer than 32,767 bytes"):
            METADATA.decode_response(version, bytes(4) + b"\1" + b"\x81\x80\x02" + b"c" * 32_768)


def test_what_a_version_lacks_is_dropped_only_if_it_may_be() -> None:
    # Kafka marks the software's name as ignorable, the instance id of a group member not.
    assert API_VERSIONS.encode_request(0, ApiVersionsRequest("name", "1")) == b""
    with pytest.raises(LocalProtocolError, match="group_instance_id: version 6 lacks this field"):
        OFFSET_COMMIT.encode_request(6, OffsetCommitRequest(group_instance_id="static"))
    assert OFFSET_COMMIT.encode_request(6, OffsetCommitRequest(group_instance_id=None))


def test_null_only_where_the_version_knows_it() -> None:
    assert METADATA.encode_request(1, MetadataRequest(topics=None)) == b"\xff\xff\xff\xff"
    with pytest.raises(LocalProtocolError, match="topics: null is not allowed in version 0"):
        METADATA.encode_request(0, MetadataRequest(topics=None))
    with pytest.raises(RemoteProtocolError, match="topics at byte 0: null is not allowed here"):
        METADATA.decode_request(0, b"\xff\xff\xff\xff")


def test_unknown_versions() -> None:
    for version in (-1, 10):
        with pytest.raises(LocalProtocolError, match="is not known"):
            METADATA.decode_request(version, b"")
        with pytest.raises(LocalProtocolError, match="is not known"):
            METADATA.encode_request(version, MetadataRequest())


def test_another_message_is_refused() -> None:
    with pytest.raises(TypeError, match=r"MetadataResponse is needed, not .*OffsetCommitRequest"):
        METADATA.encode_response(0, OffsetCommitRequest())  # type: ignore[arg-type]


@pytest.mark.parametrize("key", KEYS)
def test_unknown_tagged_fields_are_skipped(key: int) -> None:
    for side in ("request", "response"):
        found, encode, decode = codec(key, side)
        message = getattr(found, side)()
        for version in found.versions:
            encoded = encode(version, message)
            if version >= found.flexible_from:
                assert encoded[-1:] == b"\0"
                encoded = encoded[:-1] + b"\1\x8f\x4e\3abc"
            assert decode(version, encoded + b"what follows is not looked at") == message


class Item(Message):
    id: Uuid = bytes(16)
    names: Annotated[list[str] | None, V("1+", nullable="2+", tag=7, tagged="2+")] = []


class Everything(Message):
    """A message with what no API of 2.7 has: UUIDs, a field that becomes a tagged one."""

    items: list[Item] = []
    number: Annotated[Int16, V("0-1")] = 5


def test_uuids_and_fields_that_become_tagged() -> None:
    example = Api(99, "Everything", "0-2", flexible=2, request=Everything, response=Everything)
    one = Everything([Item(b"0123456789abcdef", ["n"])])
    uuid = b"0123456789abcdef"
    assert example.encode_request(1, one) == bytes.fromhex("00000001") + uuid + bytes.fromhex("00000001 0001 6e 0005")
    assert example.encode_request(2, one) == bytes.fromhex("02") + uuid + bytes.fromhex("01 07 03 02 02 6e 00")
    for version in (1, 2):
        assert example.decode_request(version, example.encode_request(version, one)) == one
    with pytest.raises(LocalProtocolError, match=r"items\[0\]\.id: a UUID has 16 bytes"):
        example.encode_request(2, Everything([Item(b"short")]))


def test_a_declaration_must_make_sense() -> None:
    with pytest.raises(ValueError, match="int128 is no type of a message"):
        _core.Schema(("Name", Item, [("field", "int128", (0, 0), (1, 0), None, (1, 0), False, 0)]), (0, 0), 32767)

    class NoDefault(Message):
        field: int

    with pytest.raises(TypeError, match="field needs a default"):
        describe(NoDefault)


def test_keys_find_their_files() -> None:
    assert [api(key).key for key in KEYS] == list(KEYS)
    with pytest.raises(KeyError):
        api(52)
