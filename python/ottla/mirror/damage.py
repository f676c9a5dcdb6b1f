"""What can be copied of an answer in which something is damaged: all that is before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla import _core
from ottla.errors import CorruptMessage

if TYPE_CHECKING:
    from collections.abc import Sequence


def before_damage(
    mirror: _core.Mirror, records: memoryview, position: int, aborted: Sequence[tuple[int, int]]
) -> _core.Copied | None:
    """As `_core.Mirror.copy`, of the batches before the first that cannot be copied. None if there are none."""
    try:
        ends = [each.position for each in _core.read_batches(records, check_crc=False)]
    except CorruptMessage:
        return None
    found: _core.Copied | None = None
    # So many batches can be copied at least, and at most.
    least, most = 0, max(len(ends) - 1, 0)
    while least < most:
        count = (least + most + 1) // 2
        try:
            found = mirror.copy(records[: ends[count]], position, aborted)
            least = count
        except CorruptMessage:
            most = count - 1
    return found
