"""Coordinators (rust/py/coordinator.rs)."""

from typing_extensions import Buffer

from ottla._core._records import BatchInfo

def decode_batches(data: Buffer) -> list[tuple[BatchInfo, list[tuple[int, bytes | None, bytes | None]]]]:
    """The whole batches of a buffer, each with its records as (offset, key, value); control records too."""
