"""Frames out of a stream: however the bytes are cut, the same frames come out, and nothing is allocated for a lie."""

import random

import pytest

from ottla.client.frames import STAGING_BYTES, FrameReader
from ottla.errors import RemoteProtocolError

SIZES = [0, 1, 5, 100, STAGING_BYTES - 5, STAGING_BYTES - 4, STAGING_BYTES - 3, STAGING_BYTES, 3 * STAGING_BYTES, 7]


def stream(sizes: list[int]) -> tuple[bytes, list[bytes]]:
    source = random.Random(1)
    bodies = [source.randbytes(size) for size in sizes]
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies), bodies


def fed(data: bytes, cuts: list[int]) -> list[bytes]:
    reader = FrameReader()
    return [
        bytes(frame)
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
        for frame in reader.feed(data[start:end])
    ]


def test_all_at_once() -> None:
    data, bodies = stream(SIZES)
    assert fed(data, []) == bodies


def test_byte_by_byte() -> None:
    data, bodies = stream([0, 3, 900, 70_000, 2])
    assert fed(data, list(range(1, len(data)))) == bodies


@pytest.mark.parametrize("seed", range(20))
def test_cut_anywhere(seed: int) -> None:
    data, bodies = stream(SIZES)
    cuts = sorted(random.Random(seed).sample(range(1, len(data)), 40))
    assert fed(data, cuts) == bodies


@pytest.mark.parametrize("seed", range(20))
def test_read_into_the_buffer(seed: int) -> None:
    """As a socket does it: any number of bytes, up to the room that the buffer has."""
    data, bodies = stream(SIZES)
    source, reader, position, frames = random.Random(seed), FrameReader(), 0, []
    while position < len(data):
        room = reader.buffer()
        count = min(source.randint(1, len(room)), len(data) - position)
        room[:count] = data[position : position + count]
        position += count
        reader.received(count)
        frames += [bytes(frame) for frame in reader.frames()]
    assert frames == bodies


def test_frames_own_their_memory() -> None:
    reader = FrameReader()
    (first,) = reader.feed(b"\0\0\0\1a")
    (second,) = reader.feed(b"\0\0\0\1b")
    assert (bytes(first), bytes(second)) == (b"a", b"b")


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_length_out_of_range(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a frame of {length} bytes; the limit is 1000"):
        list(FrameReader(1000).feed(length.to_bytes(4, "big", signed=True)))
