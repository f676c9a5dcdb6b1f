"""Topics and their partitions, as metadata have them."""

from dataclasses import dataclass

from ottla.wire.k03_metadata import MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the cluster sees it now. `leader` is -1 while there is none."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions in order."""

    name: str
    internal: bool
    partitions: tuple[Partition, ...]


def as_topic(found: MetadataResponseTopic) -> Topic:
    """A topic as metadata have it."""
    partitions = sorted(
        (
            Partition(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in found.partitions
        ),
        key=lambda each: each.number,
    )
    return Topic(found.name, found.is_internal, tuple(partitions))
