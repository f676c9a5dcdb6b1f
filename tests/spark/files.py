"""Partitions' folders written by hand, batch by batch, with whatever is wrong with them."""

from collections.abc import Iterator
from pathlib import Path

from ottla import _core
from ottla.client import TopicPartition
from ottla.reading.segments import OFFSET_ENTRY, TIME_ENTRY

BASE_MS = 1_700_000_000_000
INDEX_BYTES = 1000


def a_batch(first: int, count: int) -> bytes:
    """Records whose value is their offset and whose time is a millisecond each."""
    records = [(BASE_MS + offset, None, b"%d" % offset, []) for offset in range(first, first + count)]
    return _core.encode_batch(records, base_offset=first)


def write_segment(folder: Path, first: int, batches: list[bytes], *, index: bool = True) -> Path:
    """BASE.log and, preallocated with zeros as a live broker does, its indexes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{first:020}.log"
    path.write_bytes(b"".join(batches))
    if index:
        offsets, times, since = b"", b"", 0
        for info in _core.read_batches(path.read_bytes()):
            if since > INDEX_BYTES:
                offsets += OFFSET_ENTRY.pack(info.last_offset - first, info.position)
                times += TIME_ENTRY.pack(info.max_timestamp_ms, info.last_offset - first)
                since = 0
            since += info.size_bytes
        path.with_suffix(".index").write_bytes(offsets + bytes(4096))
        path.with_suffix(".timeindex").write_bytes(times + bytes(4092))
    return path


def write_high_watermarks(root: Path, marks: dict[TopicPartition, int]) -> None:
    """The checkpoint file of a data directory."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in marks.items()]
    root.mkdir(parents=True, exist_ok=True)
    (root / "replication-offset-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(lines))


def swaps(folder: Path) -> Iterator[str]:
    """The states of a folder while the segments from 0 and 1000 become one without every other batch of the second."""
    old = [folder / f"{first:020}{suffix}" for first in (0, 1000) for suffix in (".index", ".timeindex", ".log")]
    new = [a_batch(number, 10) for number in [*range(0, 1000, 10), *range(1000, 1990, 20)]]
    made = write_segment(folder / "made", 0, new)
    files = [made.with_suffix(suffix) for suffix in (".index", ".timeindex", ".log")]
    cleaned = [path.rename(folder / f"{path.name}.cleaned") for path in files]
    (folder / "made").rmdir()
    yield "cleaned"
    swap = []
    for path in cleaned:
        swap.append(path.rename(path.with_suffix(".swap")))
        yield f"{path.name} is swap"
    for path in old:
        path.rename(path.with_name(f"{path.name}.deleted"))
        yield f"{path.name} is deleted"
    for path in swap:
        path.rename(path.with_suffix(""))
        yield f"{path.name} is in place"
    for path in old:
        path.with_name(f"{path.name}.deleted").unlink()
        yield f"{path.name} is gone"
