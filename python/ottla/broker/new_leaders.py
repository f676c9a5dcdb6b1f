"""Partitions that were just made have leaders when their client is answered, as far as this broker's metadata shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.broker.metadata_cache import MetadataCache


async def without_leaders(metadata: MetadataCache, made: Mapping[str, int], timeout_ms: int) -> list[str]:
    """Waits for the partitions of topics, of which each has so many, to have leaders. Returns the topics that have not,
    after `timeout_ms` milliseconds.
    """

    def has_leaders(name: str) -> bool:
        return metadata.has_leaders(name, range(made[name]))

    if not made:
        return []
    with metadata.patience(max(timeout_ms, 0) / 1000):
        await metadata.wait_for_each(has_leaders, made)
    slices, late = Slices(), []
    for name in made:
        await slices.row()
        if not has_leaders(name):
            late.append(name)
    return late
