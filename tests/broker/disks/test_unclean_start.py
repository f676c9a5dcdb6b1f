"""A broker whose machine lost its power, as controllers and other brokers see it."""

from pathlib import Path

import pytest

from ottla.errors import MayHaveLost, NotLeaderOrFollower, StorageError
from ottla.kafka import CONSUMER, NO_EPOCH
from ottla.replication.questions import ANY_EPOCH
from ottla.replication.unclean_start import Suspect
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.control_requests import OTHER, ask, elsewhere, leading, produced, started

pytestmark = pytest.mark.trio
T = ("t", 0)


async def test_a_suspected_replica_is_refused_and_says_where_its_log_ends(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:

        async def told(leader_epoch: int, isr: list[int]) -> int:
            asked = leading(broker, 1, leader_epoch)
            (state,) = asked.topic_states[0].partition_states
            state.isr, state.replicas = isr, [broker.id, OTHER]
            answer = await ask(broker, LEADER_AND_ISR, asked, 4)
            ((row,),) = [answer.partition_errors]
            return int(row.error_code)

        async def end(replica_id: int, epoch: int = ANY_EPOCH) -> tuple[int, int, int]:
            asked_row = OffsetForLeaderPartition(partition_index=0, current_leader_epoch=NO_EPOCH, leader_epoch=epoch)
            topics = [OffsetForLeaderTopic(name="t", partitions=[asked_row])]
            request = OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)
            answer = await ask(broker, OFFSET_FOR_LEADER_EPOCH, request, 3)
            ((row,),) = [topic.partitions for topic in answer.topics]
            return row.error_code, row.leader_epoch, row.end_offset

        assert await told(1, [broker.id]) == 0
        assert await produced(broker, "t") == 0
        assert await end(OTHER) == (0, 1, 1)
        await ask(broker, LEADER_AND_ISR, elsewhere(broker, 1, 2), 4)
        broker.unclean_start.suspects[T] = Suspect()
        assert await told(3, [broker.id, OTHER]) == MayHaveLost.code == StorageError.code
        assert await produced(broker, "t") == NotLeaderOrFollower.code
        assert await end(OTHER) == (0, 1, 1)
        # To others it is a replica that does not lead.
        assert await end(CONSUMER) == (NotLeaderOrFollower.code, -1, -1)
        assert await end(CONSUMER, 1) == (NotLeaderOrFollower.code, -1, -1)
        # Other replicas may ask for an epoch.
        assert [await end(OTHER, epoch) for epoch in (0, 1, 2)] == [(0, 0, 0), (0, 1, 1), (0, -1, -1)]
        assert broker._describe().is_unclean
        broker.unclean_start.forget(T)
        assert await told(3, [broker.id, OTHER]) == 0
        assert not broker._describe().is_unclean
        (directory,) = broker.logs.directories.online
        broker.logs.take_offline(directory, "a test says so")
        broker.replicas.mark_offline(*T)
        assert (await end(OTHER))[0] == StorageError.code
