"""Fetches that wait while their leader comes to lead on in a new epoch: those that name the older one are told so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from ottla.errors import FencedLeaderEpoch
from ottla.kafka import NO_EPOCH
from ottla.replication.leases import SWITCH
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client
from tests.support.leased import started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

#: Longer than a client of these tests waits for its answer.
FOR_EVER_MS = 300_000
CONSUMER, FOLLOWER = -1, 7


def fetch(client: Client, replica_id: int, epoch: int, partitions: int, **options: int) -> Any:
    rows = [
        FetchPartition(partition=index, partition_max_bytes=1 << 20, current_leader_epoch=epoch)
        for index in range(partitions)
    ]
    topics = [FetchTopic(topic="t", partitions=rows)] if rows else []
    return client.call(FETCH, FetchRequest(replica_id=replica_id, topics=topics, min_bytes=1, **options), 12)


def without_a_session(client: Client, replica_id: int, epoch: int) -> Any:
    return fetch(client, replica_id, epoch, 2, max_wait_ms=FOR_EVER_MS, session_epoch=-1)


def in_a_session(client: Client, replica_id: int, epoch: int) -> Any:
    """The partitions rest."""
    first = fetch(client, replica_id, epoch, 2, max_wait_ms=0, session_epoch=0)
    assert first.session_id
    return fetch(client, replica_id, epoch, 0, max_wait_ms=FOR_EVER_MS, session_id=first.session_id, session_epoch=1)


@pytest.mark.parametrize("replica_id", [CONSUMER, FOLLOWER], ids=["consumer", "follower"])
@pytest.mark.parametrize("asks", [without_a_session, in_a_session])
async def test_who_waits_with_the_older_epoch_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: Callable[[Client, int, int], Any], replica_id: int
) -> None:
    # A Fetch that waits in the hub is answered when its lease ends, and the next one is told.
    monkeypatch.setenv(SWITCH, "off")
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t", partitions=2)
        replicas, me = one.broker.replicas, one.broker.id
        assert partition.state is not None
        shared = msgspec.structs.replace(partition.state, replicas=(me, FOLLOWER), isr=(me,), leader_epoch=1)
        for epoch in (1, 2):
            state = msgspec.structs.replace(shared, leader_epoch=epoch)
            await replicas.apply("t", {0: state, 1: state})
        answers = []

        async def ask() -> None:
            answers.append(await one.talk(lambda client: asks(client, replica_id, 2)))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                kind = "consumers" if replica_id == CONSUMER else "followers"
                await comes_true("a Fetch that waits", lambda: getattr(partition.waiting_fetches, kind))
                await replicas.apply("t", {0: msgspec.structs.replace(shared, leader_epoch=3)})
        (answer,) = answers
        rows = {row.partition: row.error_code for topic in answer.responses for row in topic.partition_responses}
        assert rows[0] == FencedLeaderEpoch.code
        assert rows.get(1, 0) == 0


async def test_who_names_no_epoch_waits_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t", partitions=2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.talk, lambda client: without_a_session(client, CONSUMER, NO_EPOCH))
            await comes_true("a Fetch that waits", lambda: partition.waiting_fetches.consumers)
            assert partition.state is not None
            epoch = partition.leader_epoch + 1
            await one.broker.replicas.apply("t", {0: msgspec.structs.replace(partition.state, leader_epoch=epoch)})
            assert partition.waiting_fetches.consumers
            partition.release_fetches()
