"""Records to encode: every shape a field may have, and sizes on both sides of the codecs' blocks."""

import random
from collections.abc import Sequence

Header = tuple[str, bytes | None]
Sample = tuple[int, bytes | None, bytes | None, Sequence[Header]]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW_MS = 1_700_000_000_000


def shapes() -> list[Sample]:
    """Null, empty, small and large; headers with and without values, twice the same name."""
    return [
        (NOW_MS, b"key", b"value", []),
        (NOW_MS + 5, None, b"value", [("trace", b"\x00\x01"), ("trace", None), ("", b"")]),
        (NOW_MS - 1_000_000, b"", b"", []),
        (NOW_MS + 1, b"tombstone", None, [("größe", "ä".encode())]),
        (NOW_MS + 1, None, None, []),
        (NOW_MS + 86_400_000, b"k" * 200, bytes(range(256)) * 300, [("h", b"x" * 5_000)]),
    ]


def many(count: int, seed: int = 1) -> list[Sample]:
    """Text that compresses somewhat, of 20 to 400 bytes, every third with a key."""
    random_of = random.Random(seed)
    words = [b"GET", b"POST", b"/index.html", b"/image.png", b"200", b"404", b"Mozilla", b"bot", b"-", b"HTTP/1.1"]
    return [
        (
            NOW_MS + number,
            b"client-%d" % (number % 97) if number % 3 == 0 else None,
            b" ".join(random_of.choices(words, k=random_of.randrange(5, 60))),
            [("n", b"%d" % number)] if number % 10 == 0 else [],
        )
        for number in range(count)
    ]
