"""Which partition a record goes to: with a key by Java's murmur2, without one all to the same until a batch is full.

The hash must be Kafka's own: the same key must go to the same partition whichever client sends it.
"""

from ottla import _core


def keyed(key: bytes, partitions: int) -> int:
    """The partition that Apache Kafka's Java client of 2.7 chooses for this key among `partitions`."""
    return (_core.murmur2(key) & 0x7FFFFFFF) % partitions
