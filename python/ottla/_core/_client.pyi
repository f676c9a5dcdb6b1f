"""Partitioners of clients (rust/py/client.rs)."""

from typing_extensions import Buffer

def java_hash(utf_16: Buffer) -> int:
    """Java's `String.hashCode()` of a text in UTF-16, big-endian."""

def murmur2(data: Buffer) -> int: ...
