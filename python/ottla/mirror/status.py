"""How far a flow has come, as both clusters know it: nothing is asked of the instances that copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.admin import Admin
from ottla.client.cluster import Cluster
from ottla.client.offsets import list_offsets
from ottla.kafka import LATEST, TopicPartition
from ottla.mirror.config import ClusterConfig, FlowConfig
from ottla.mirror.copying import group_of
from ottla.mirror.topics import Topics


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a partition of the source: `copied` is the offset that copying goes on from, None if it has not begun; `end`
    is that of committed records.
    """

    copied: int | None
    end: int

    @property
    def lag(self) -> int | None:
        """How many offsets are not copied yet; None if copying has not begun."""
        return None if self.copied is None else max(0, self.end - self.copied)


@dataclass(frozen=True, slots=True)
class Status:
    """Of a flow. `instances` is how many copy it now; `state` is that of the group whose members they are."""

    flow: str
    instances: int
    state: str
    partitions: Mapping[TopicPartition, Progress] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """That of all partitions that have one."""
        return sum(each.lag or 0 for each in self.partitions.values())


async def status_of(flow: FlowConfig, *, timeout_ms: float) -> Status:
    """Asks both clusters. Raises KafkaError, OSError, RemoteProtocolError: one of them, which does not answer."""
    async with cluster_of(flow.reads, timeout_ms) as source, cluster_of(flow.writes, timeout_ms) as target:
        await source.any_connection()
        await target.any_connection()
        topics = Topics(flow, Admin(source), Admin(target))
        partitions = [
            TopicPartition(topic.name, each.number)
            for topic in await Admin(source).describe_topics()
            if topics.is_wanted(topic.name)
            for each in topic.partitions
        ]
        groups = Admin(target).groups
        group = await groups.describe(group_of(flow))
        committed = await groups.committed(group_of(flow))
        ends = await list_offsets(source, dict.fromkeys(partitions, LATEST), read_committed=True)
        found = {}
        for each in sorted(partitions):
            mirror = TopicPartition(flow.names.remote(flow.source, each.topic), each.partition)
            copied = committed[mirror].offset if mirror in committed else None
            found[each] = Progress(copied, ends[each].offset)
    return Status(str(flow), len(group.members), group.state, found)


def cluster_of(config: ClusterConfig, timeout_ms: float) -> Cluster:
    """A cluster of a file, as its settings say."""
    return Cluster(config.servers, client_id=config.client_id, timeout_ms=timeout_ms, security=config.security)
