"""What readers of committed records see of a partition's files (KIP-98), without a broker to ask.

A broker remembers which transactions are open. From files it follows in the same way: the newest snapshot of the
producers says what was open at its offset, and the batches since say what began and ended. What was aborted stands in
the segments' `.txnindex`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla import _core

SNAPSHOT = ".snapshot"
ABORTED = (".txnindex", ".txnindex.swap")


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted: its first offset in the partition, and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def last_stable_offset(
    folder: Path, first_base: int, end: int, batches: Callable[[int], Iterable[_core.BatchInfo]]
) -> int:
    """The first offset of the oldest transaction that is open at `end`; `end` if none is.

    `first_base` is where the first segment begins; `batches(offset)` gives the batches from the one with an offset on,
    in order.
    """
    known, opened = _newest_snapshot(folder, first_base, end)
    for batch in batches(known) if known < end else ():
        if batch.base_offset >= end:
            break
        if batch.is_control:
            opened.pop(batch.producer_id, None)
        elif batch.is_transactional and batch.last_offset >= known:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return max(first_base, min(opened.values(), default=end))


def _newest_snapshot(folder: Path, first_base: int, end: int) -> tuple[int, dict[int, int]]:
    """The offset of the newest snapshot that can be used, and by producer where its open transaction began. One from
    before the first segment says nothing: what ended the transactions that it calls open is gone.
    """
    offsets = (int(path.stem) for path in folder.glob(f"*{SNAPSHOT}") if path.stem.isdecimal())
    for offset in sorted((offset for offset in offsets if first_base <= offset <= end), reverse=True):
        try:
            entries = _core.read_producer_snapshot((folder / f"{offset:020}{SNAPSHOT}").read_bytes())
        except (FileNotFoundError, ValueError):
            continue
        return offset, {each.producer_id: each.transaction_start for each in entries if each.transaction_start >= 0}
    return first_base, {}


def aborted_transactions(folder: Path, start: int, end: int) -> list[Aborted]:
    """The aborted transactions that have offsets from `start` to before `end`."""
    found: set[Aborted] = set()
    for path in sorted(folder.iterdir()):
        if path.name.endswith(ABORTED):
            try:
                rows, _ = _core.read_transaction_index(path.read_bytes())
            except FileNotFoundError:
                continue  # compacted meanwhile, or too old
            listed = (Aborted(row.producer_id, row.first_offset, row.last_offset) for row in rows)
            found.update(one for one in listed if one.first_offset < end and one.last_offset >= start)
    return sorted(found, key=lambda each: each.first_offset)


def visible(batches: Iterable[_core.BatchInfo], aborted: Iterable[Aborted]) -> Iterator[_core.BatchInfo]:
    """The batches that are not part of an aborted transaction."""
    by_producer: dict[int, list[Aborted]] = {}
    for each in aborted:
        by_producer.setdefault(each.producer_id, []).append(each)
    for batch in batches:
        theirs = by_producer.get(batch.producer_id, ()) if batch.is_transactional else ()
        if not any(each.first_offset <= batch.base_offset <= each.last_offset for each in theirs):
            yield batch
