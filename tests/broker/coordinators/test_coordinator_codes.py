"""Which code a coordinator answers while it fails over, where several would be true: Kafka's. At some codes clients
look for another coordinator, and at others they ask the same one again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.coordination.tree import SessionState
from ottla.errors import CoordinatorLoadInProgress, InvalidGroupId, InvalidTxnState, NotCoordinator
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support import transactions
from tests.support.client import Client
from tests.support.written_tree import started, told

pytestmark = pytest.mark.trio
GROUP, NAME, TOPIC = "readers", "mover", "data"


@asynccontextmanager
async def committing(tmp_path: Path) -> AsyncIterator[tuple[Broker, Callable[..., Awaitable[int]]]]:
    """A broker with a transaction that has no group, and what a commit of a group's offsets in it is answered with."""
    async with started(tmp_path) as broker:
        await told(broker, lambda client: client.create(TOPIC))
        producer = await told(broker, lambda client: transactions.begun(client, NAME, 0))

        async def committed(group: str = GROUP) -> int:
            def ask(client: Client) -> int:
                rows = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
                request = TxnOffsetCommitRequest(
                    transactional_id=NAME,
                    group_id=group,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
                )
                ((row,),) = [one.partitions for one in client.call(TXN_OFFSET_COMMIT, request, 3).topics]
                return int(row.error_code)

            return await told(broker, ask)

        yield broker, committed


async def test_a_broker_that_does_not_hear_the_tree_refuses_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may coordinate the transaction by now, and know that the group is part of it."""
    async with committing(tmp_path) as (broker, committed):
        await broker.groups.topic.ensure()
        assert await committed() == InvalidTxnState.code
        with monkeypatch.context() as patched:
            patched.setattr(type(broker.tree), "state", property(lambda _: SessionState.SUSPENDED))
            assert await committed() == CoordinatorLoadInProgress.code
        assert await committed() == InvalidTxnState.code


async def test_offsets_in_a_transaction_where_neither_is_coordinated(tmp_path: Path) -> None:
    async with committing(tmp_path) as (broker, committed):
        groups, states = broker.groups, broker.transactions
        await groups.topic.ensure()
        # Nobody leads the id's partition, as far as is known here: that nothing can be said of its transaction does not
        # matter to who coordinates no group.
        states.coordinator.resigned(states.topic.partition_for(NAME))
        index = groups.topic.partition_for(GROUP)
        term = groups.topic.term(index)
        assert term is not None
        groups.resigned(index)
        assert await committed() == NotCoordinator.code
        assert await committed("") == InvalidGroupId.code
        groups.elected(index, term)
        # Of what is coordinated here, the same broker is asked again.
        assert await committed() == CoordinatorLoadInProgress.code
