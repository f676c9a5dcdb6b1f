"""Fetches that wait in Python, and sessions that rest there, while rules change.

Those that the hub serves are in `tests/broker/leases/test_leased_rights.py`.
"""

from __future__ import annotations

import pytest

from ottla.client import BlockingConnection
from ottla.errors import TopicAuthorizationFailed
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import Ruled, rule, settings
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.support.client import batch
from tests.support.waiting import PATIENCE_S

DENIED = TopicAuthorizationFailed.code
READ = rule("alice", Operation.READ, Resource.TOPIC, "t")
#: Longer than any test waits: nobody is answered because the time is over.
LONG_MS = int(PATIENCE_S * 2000)


@pytest.fixture
def own(brokers: Brokers) -> Ruled:
    ports = free_port(), free_port()
    environment = {"OTTLA_LEASES": "off"}
    brokers(port=ports[0], settings=settings(*ports, users=("alice",)), environment=environment)
    found = Ruled(*ports)
    found.ask(None, CREATE_TOPICS, CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1), CreatableTopic("u", 1, 1)]))
    found.create(READ)
    return found


def fetch(wait_ms: int, offset: int = 0, session: tuple[int, int] = (0, -1), *, names: bool = True) -> FetchRequest:
    rows = [FetchTopic("t", [FetchPartition(0, -1, offset, partition_max_bytes=1000)])] if names else []
    return FetchRequest(
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, session_id=session[0], session_epoch=session[1], topics=rows
    )


def codes(answer: FetchResponse) -> list[int]:
    return [row.error_code for topic in answer.responses for row in topic.partition_responses]


def write(ruled: Ruled) -> None:
    row = TopicProduceData("t", [PartitionProduceData(0, batch(b"v"))])
    asked = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topics=[row])
    (answered,) = ruled.ask(None, PRODUCE, asked).responses
    assert answered.partitions[0].error_code == 0


@pytest.mark.parametrize("session", [(0, -1), (0, 0)])
def test_a_fetch_that_waits_hears_that_it_may_not_read(own: Ruled, session: tuple[int, int]) -> None:
    with own.enter("alice") as reader:
        reader.send(FETCH, fetch(LONG_MS, session=session), 11)
        # The broker answers in order: it has the Fetch when it has the deletion, or finds it without the right.
        assert own.delete(READ) == [(0, [0])]
        assert codes(reader.receive(timeout_ms=PATIENCE_S * 1000)) == [DENIED]


def test_a_session_whose_partition_rests(own: Ruled) -> None:
    """The client knows all of it, and is told nothing more: neither records, nor that there are some."""
    with own.enter("alice") as reader:
        session_id = _resting(reader)
        own.delete(READ)
        write(own)
        answer = reader.call(FETCH, fetch(0, session=(session_id, 2), names=False), 11)
        assert codes(answer) == [DENIED]
        ((row,),) = [topic.partition_responses for topic in answer.responses]
        assert (row.record_set, row.high_watermark) == (b"", -1)
        own.create(READ)
        answer = reader.call(FETCH, fetch(LONG_MS, session=(session_id, 3), names=False), 11)
        assert codes(answer) == [0]


def test_a_session_hears_without_news_of_the_partition(own: Ruled) -> None:
    with own.enter("alice") as reader:
        session_id = _resting(reader)
        reader.send(FETCH, fetch(LONG_MS, session=(session_id, 2), names=False), 11)
        own.delete(READ)
        assert codes(reader.receive(timeout_ms=PATIENCE_S * 1000)) == [DENIED]


def _resting(reader: BlockingConnection) -> int:
    """Returns the id of a session that knows all of the partition."""
    first: FetchResponse = reader.call(FETCH, fetch(0, session=(0, 0)), 11)
    assert codes(first) == [0]
    again: FetchResponse = reader.call(FETCH, fetch(0, session=(first.session_id, 1), names=False), 11)
    assert (again.error_code, codes(again)) == (0, [])
    return first.session_id
