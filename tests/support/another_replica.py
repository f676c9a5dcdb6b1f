"""A partition with a replica that is not there."""

from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from tests.support.leased import One


async def with_another_replica(one: One) -> Partition:
    """A partition whose other replica is in sync, and does not fetch."""
    partition = await one.create("t")
    assert partition.state is not None
    me, other = partition.state.leader, partition.state.leader + 1
    await one.broker.replicas.apply("t", {0: PartitionState(1, me, 1, (me, other), (me, other), 1)})
    return partition
