"""Fetch sessions (KIP-227) on a real broker, said byte by byte."""

import threading

import pytest
from confluent_kafka import Producer

from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch, UnknownTopicOrPartition
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect
from tests.support.fetch_session import Session
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize("version", [7, 11, 12])
def test_an_answer_names_only_what_the_client_does_not_know(client: Client, version: int) -> None:
    topic = f"session-{version}"
    client.create(topic, partitions=3)
    session = Session(client, topic, version)
    assert session.ask({0: 0, 1: 0, 2: 0}) == {0: 0, 1: 0, 2: 0}
    assert session.id != 0
    assert session.ask() == {}
    size = len(batch(b"a"))
    client.produce(topic, batch(b"a"), partition=1)
    assert session.ask() == {1: size}
    assert session.ask() == {1: size}, "the client did not say that it has it"
    assert session.ask({1: 1}) == {}
    client.produce(topic, batch(b"b"), partition=0)
    client.produce(topic, batch(b"b"), partition=2)
    assert session.ask(forget=(2,)) == {0: size}
    assert session.ask({0: 1, 2: 0}) == {2: size}
    assert session.ask({2: 1}) == {}


def test_a_high_watermark_alone_is_told_once(client: Client) -> None:
    client.create("watermark")
    client.produce("watermark", batch(b"a"))
    session = Session(client, "watermark")
    assert session.ask({0: 1}) == {0: 0}
    assert session.ask() == {}
    with connect_again(client) as other:
        other.produce("watermark", batch(b"b"))
    assert session.ask({0: 2}) == {0: 0}
    assert session.ask() == {}


def connect_again(client: Client) -> Client:
    host, port = client._socket.getpeername()
    return Client.connect(host, port, "other")


def test_a_session_waits_and_is_woken_by_any_of_its_partitions(client: Client, shared_broker: Broker) -> None:
    client.create("wake", partitions=20)
    session = Session(client, "wake")
    session.ask(dict.fromkeys(range(20), 0))
    answers: list[dict[int, int]] = []
    waiting = threading.Thread(target=lambda: answers.append(session.ask(max_wait_ms=300_000, min_bytes=1)))
    waiting.start()
    with connect(shared_broker) as other:
        other.produce("wake", batch(b"x"), partition=17)
    waiting.join(PATIENCE_S)
    assert answers == [{17: len(batch(b"x"))}]


def test_who_had_records_comes_last_in_the_next_answer(client: Client) -> None:
    client.create("fair", partitions=3)
    for index in range(3):
        client.produce("fair", batch(b"x" * 1000), partition=index)
    session = Session(client, "fair")
    small = {"max_bytes": 100}  # one batch fills an answer
    size = len(batch(b"x" * 1000))
    assert session.ask({0: 0, 1: 0, 2: 0}, **small) == {0: size, 1: 0, 2: 0}
    assert [session.ask(**small) for _ in range(4)] == [{0: size}, {1: size}, {2: size}, {0: size}]


def test_a_request_for_another_epoch_or_of_no_session_is_refused(client: Client) -> None:
    client.create("epochs")
    session = Session(client, "epochs")
    session.ask({0: 0})
    right = session.epoch
    for wrong in (right + 1, right + 7, -5):
        session.epoch = wrong
        answer = session.fetch({})
        assert (answer.error_code, answer.session_id, answer.responses) == (InvalidFetchSessionEpoch.code, 0, [])
    session.epoch = right
    assert session.ask() == {}
    known = session.id
    session.id = known ^ 1
    assert session.fetch({}).error_code == FetchSessionIdNotFound.code
    session.id = 0
    assert session.fetch({}).error_code == FetchSessionIdNotFound.code


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(client: Client, epoch: int) -> None:
    topic = f"full{epoch}"
    client.create(topic)
    session = Session(client, topic)
    session.ask({0: 0})
    old = session.id
    session.epoch = epoch
    answer = session.fetch({0: 0})
    assert (answer.session_id != 0) == (epoch == 0)
    session.id, session.epoch = old, 1
    assert session.fetch({}).error_code == FetchSessionIdNotFound.code


def test_a_session_without_partitions_ends(client: Client) -> None:
    client.create("empty")
    session = Session(client, "empty")
    session.ask({0: 0})
    answer = session.fetch({}, forget=(0,))
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert session.fetch({}).error_code == FetchSessionIdNotFound.code


def test_a_deleted_topic_is_an_error_until_it_is_there_again(client: Client) -> None:
    client.create("again")
    client.produce("again", batch(b"old"))
    session = Session(client, "again")
    session.ask({0: 0})
    session.ask({0: 1})
    client.call(DELETE_TOPICS, DeleteTopicsRequest(topic_names=["again"], timeout_ms=60_000))
    for _ in range(2):
        answer = session.fetch({})
        session.epoch += 1
        ((row,),) = [topic.partition_responses for topic in answer.responses]
        assert row.error_code == UnknownTopicOrPartition.code
    client.create("again")
    assert session.ask({0: 0}) == {0: 0}
    assert session.ask() == {}
    client.produce("again", batch(b"newer"))
    assert session.ask() == {0: len(batch(b"newer"))}


def test_sessions_are_bounded(brokers: Brokers) -> None:
    broker = brokers(settings={"max.incremental.fetch.session.cache.slots": 2})
    with connect(broker) as client:
        client.create("slots")
        ids = []
        for _ in range(3):
            session = Session(client, "slots")
            session.ask({0: 0})
            ids.append(session.id)
        assert ids[0] != 0
        assert ids[1] != 0
        assert ids[2] == 0


def test_who_says_the_epoch_of_its_last_record_is_told_where_its_log_parts(client: Client) -> None:
    client.create("diverging")
    client.produce("diverging", batch(b"a"))

    def ask(offset: int, epoch: int) -> tuple[int, int, int, int]:
        row = FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=1000,
            current_leader_epoch=-1,
            last_fetched_epoch=epoch,
        )
        topics = [FetchTopic(topic="diverging", partitions=[row])]
        answer = client.call(FETCH, FetchRequest(replica_id=-1, max_wait_ms=0, session_epoch=-1, topics=topics), 12)
        ((got,),) = [topic.partition_responses for topic in answer.responses]
        where = got.diverging_epoch
        return got.error_code, len(got.record_set or b""), where.epoch, where.end_offset

    assert ask(1, 0) == (0, 0, -1, -1)
    assert ask(0, 0) == (0, len(batch(b"a")), -1, -1)
    assert ask(5, 0) == (0, 0, 0, 1), "its log is longer than this one's"
    assert ask(1, 3)[0] == 1, "an epoch from the future: nothing can be said"


@pytest.mark.parametrize("has_session", [True, False])
def test_an_open_transaction_wakes_no_reader_of_committed_records(
    client: Client, shared_broker: Broker, has_session: bool
) -> None:
    topic = f"open-{has_session}"
    client.create(topic)
    session = Session(client, topic)
    if has_session:
        session.ask({0: 0})
    else:
        session.epoch = -1
    answers: list[FetchResponse] = []
    options = {"max_wait_ms": 300_000, "min_bytes": 1, "isolation_level": 1}
    waiting = threading.Thread(target=lambda: answers.append(session.fetch({0: 0}, **options)))
    waiting.start()
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    producer.commit_transaction(PATIENCE_S)
    waiting.join(PATIENCE_S)
    ((row,),) = [each.partition_responses for each in answers[0].responses]
    assert row.record_set, "it was woken before there was anything for it"
