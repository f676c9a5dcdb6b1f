"""Valid bytes made wrong: the changes that find most in decoders of lengths, counts, versions and checksums."""

import random
import zlib

from ottla import _core

_EXTREMES = (0, 1, -1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFFFFFFFFFF, -1 << 63)
_VARINT_LONGEST = b"\xff" * 9 + b"\x01"
MAGIC, CRC_2, BODY_2, CRC_1, BODY_1 = 16, 17, 21, 12, 16


def mutated(data: bytes, chance: random.Random, other: bytes = b"") -> bytes:
    """One to four changes; `other` is what pieces may be taken from."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        chance.choice(_CHANGES)(changed, chance, other)
    return bytes(changed)


def _place(data: bytearray, chance: random.Random) -> int:
    """Anywhere, more often near the beginning, where versions and counts are."""
    end = len(data) if chance.random() < 0.5 else min(len(data), 64)
    return chance.randrange(end + 1)


def _flip(data: bytearray, chance: random.Random, other: bytes) -> None:
    if data:
        data[min(_place(data, chance), len(data) - 1)] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, chance: random.Random, other: bytes) -> None:
    if data:
        data[min(_place(data, chance), len(data) - 1)] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))


def _number(data: bytearray, chance: random.Random, other: bytes) -> None:
    """A field of two, four or eight bytes with a value at the end of a range."""
    width = chance.choice((2, 4, 4, 8))
    place = _place(data, chance)
    value = chance.choice(_EXTREMES) & ((1 << 8 * width) - 1)
    data[place : place + width] = value.to_bytes(width, "big")


def _varint(data: bytearray, chance: random.Random, other: bytes) -> None:
    place = _place(data, chance)
    data[place : place + 1] = chance.choice((_VARINT_LONGEST, b"\xff\xff\xff\xff\x0f", b"\xff" * 11, b"\x80\x00"))


def _cut(data: bytearray, chance: random.Random, other: bytes) -> None:
    del data[_place(data, chance) :]


def _remove(data: bytearray, chance: random.Random, other: bytes) -> None:
    place = _place(data, chance)
    del data[place : place + chance.randrange(1, 9)]


def _insert(data: bytearray, chance: random.Random, other: bytes) -> None:
    place = _place(data, chance)
    data[place:place] = chance.randbytes(chance.randrange(1, 9))


def _splice(data: bytearray, chance: random.Random, other: bytes) -> None:
    if other:
        start = chance.randrange(len(other))
        place = _place(data, chance)
        data[place : place + chance.randrange(40)] = other[start : start + chance.randrange(1, 200)]


def _repeat(data: bytearray, chance: random.Random, other: bytes) -> None:
    data += data[: 1 << 12]


_CHANGES = (_flip, _flip, _byte, _number, _number, _varint, _cut, _remove, _insert, _splice, _repeat)


def sealed(batch: bytes, chance: random.Random) -> bytes:
    """With the length and the checksum that these bytes would have, mostly: else nothing but checksums is tested."""
    if len(batch) < BODY_2 or chance.random() < 0.2:
        return batch
    changed = bytearray(batch)
    if chance.random() < 0.8:
        changed[8:12] = (len(batch) - 12).to_bytes(4, "big")
    if changed[MAGIC] >= 2:
        changed[CRC_2:BODY_2] = _core.crc32c(bytes(changed[BODY_2:])).to_bytes(4, "big")
    else:
        changed[CRC_1:BODY_1] = zlib.crc32(changed[BODY_1:]).to_bytes(4, "big")
    return bytes(changed)
