"""Apache Kafka 2.7.2 and we answer alike: `conversations` are held with both, side by side."""

from collections.abc import Callable, Iterator

import pytest

from tests.compat.conversations import CONVERSATIONS
from tests.compat.talk import Talk
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 3,
    "group.min.session.timeout.ms": 100,
    "log.retention.ms": -1,  # conversations write records of 1970, and a slow one would see them deleted
    "num.partitions": 2,
    "offset.metadata.max.bytes": 100,
    "offsets.topic.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "transaction.state.log.num.partitions": 1,
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Where Kafka listens, and where we do."""
    folder = tmp_path_factory.mktemp("both")
    with Apache(folder) as apache, Brokers(folder) as brokers:
        kafka = apache.broker("2.7.2", zookeeper=apache.zookeeper(), settings=SETTINGS, broker_id=1)
        yield kafka.port, brokers(settings=SETTINGS, broker_id=1).port


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation.__name__)
def test_alike(ports: tuple[int, int], conversation: Callable[[Talk], None]) -> None:
    theirs, ours = (hold(conversation, port) for port in ports)
    assert len(theirs) > 5
    rows = zip(theirs, ours, strict=False)
    different = [f"{said[0]}\n  Kafka: {said[1]}\n  we:    {we[1]}" for said, we in rows if said != we]
    assert not different, "\n".join(different)
    assert len(theirs) == len(ours)


def hold(conversation: Callable[[Talk], None], port: int) -> list[tuple[str, object]]:
    with Talk(port).open() as talk:
        conversation(talk)
        return talk.answers
