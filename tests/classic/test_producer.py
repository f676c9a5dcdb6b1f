"""`Producer`, synchronous and asynchronous, beside Java's of 0.8.2 and 0.10.2."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.classic import (
    CallbackHandler,
    DefaultPartitioner,
    Encoder,
    EventHandler,
    FailedToSendMessage,
    FetchRequest,
    InvalidConfig,
    KeyedMessage,
    Message,
    Partitioner,
    Produced,
    Producer,
    ProducerConfig,
    ProducerData,
    ProducerRequest,
    QueueFull,
    SimpleConsumer,
    StringEncoder,
    SyncProducer,
)
from ottla.errors import NotLeaderOrFollower
from tests.classic.conftest import Place
from tests.peers.old_clients import VERSIONS, run
from tests.peers.ottla import Brokers
from tests.support.waiting import PATIENCE_S, eventually

HOST = "127.0.0.1"

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


def producer(place: Place, **settings: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    if "zk.connect" not in named:
        named["metadata.broker.list"] = place.bootstrap
    return Producer({"request.required.acks": 1, **named})


def stored(place: Place, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values."""
    found: list[tuple[bytes | None, bytes | None]] = []
    with SimpleConsumer(HOST, place.port) as reader:
        while messages := list(reader.fetch_doubling(FetchRequest(topic, partition, len(found), 1 << 20))):
            found += [(each.message.key, each.message.value) for each in messages]
    return found


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_was_sent_is_stored_in_order(place: Place, kind: str) -> None:
    topic = place.topic()
    with producer(place, producer_type=kind) as sender:
        sender.send(KeyedMessage(topic, b"a"))
        sender.send([KeyedMessage(topic, b"b", b"k"), ProducerData(topic, b"k", [b"c", b"d"])])
        sender.send(ProducerData(topic, None, b"e"))
    assert stored(place, topic) == [(None, b"a"), (b"k", b"b"), (None, b"c"), (None, b"d"), (None, b"e")]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(ours: Place, acks: int) -> None:
    topic = ours.topic()
    with producer(ours, request_required_acks=acks) as sender:
        sender.send(KeyedMessage(topic, b"a"))
        eventually("it is stored", lambda: stored(ours, topic) == [(None, b"a")])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_key_has_one_partition_in_java_and_here(ours: Place, version: str) -> None:
    theirs, mine = ours.topic(7), ours.topic(7)
    keys = [f"key-{number} ä".replace(" ", "_") for number in range(50)]
    run(version, "produce", ours.bootstrap, theirs, stdin="".join(f"{key} v\n" for key in keys))
    with producer(
        ours, serializer_class=StringEncoder, key_serializer_class="kafka.serializer.StringEncoder"
    ) as sender:
        sender.send([KeyedMessage(mine, "v", key) for key in keys])
    for partition in range(7):
        assert stored(ours, theirs, partition) == stored(ours, mine, partition)


def test_without_a_key_one_partition_is_kept_for_the_interval(ours: Place) -> None:
    topic = ours.topic(8)
    with producer(ours) as sender:
        for _ in range(20):
            sender.send(KeyedMessage(topic, b"v"))
    counts = [len(stored(ours, topic, partition)) for partition in range(8)]
    assert sorted(counts) == [0] * 7 + [20]
    with producer(ours, topic_metadata_refresh_interval_ms=-1) as sender:
        for _ in range(60):
            sender.send(KeyedMessage(topic, b"v"))
    assert sum(len(stored(ours, topic, partition)) > 0 for partition in range(8)) > 2


def test_only_the_named_topics_are_compressed(ours: Place) -> None:
    config = ProducerConfig.of({"broker.list": "a:1", "compression.codec": 2, "compressed.topics": "a, b"})
    assert [config.codec(topic) for topic in "abc"] == ["snappy", "snappy", "none"]
    config = ProducerConfig.of({"broker.list": "a:1", "compression.codec": "gzip"})
    assert config.codec("c") == "gzip"
    topic = ours.topic()
    with producer(ours, compression_codec="lz4") as sender:
        sender.send([KeyedMessage(topic, b"x" * 1000)] * 10)
    assert len(stored(ours, topic)) == 10


class Length(Partitioner[bytes]):
    def partition(self, key: bytes, num_partitions: int) -> int:
        return len(key)


class Upper(Encoder[str]):
    def to_message(self, data: str) -> Message:
        return Message(data.upper().encode(), timestamp_ms=77)


def test_encoders_and_partitioners_of_the_program(ours: Place) -> None:
    topic = ours.topic(3)
    with producer(
        ours,
        serializer_class=f"{__name__}:Upper" if __name__ in sys.modules else Upper,
        key_serializer_class="ottla.classic:DefaultEncoder",
        partitioner_class=Length(),
    ) as sender:
        sender.send([KeyedMessage(topic, "two", b"kk"), KeyedMessage(topic, "none", part_key=b"")])
        with pytest.raises(FailedToSendMessage, match="ValueError: the partitioner chose 3 of 3 partitions"):
            sender.send(KeyedMessage(topic, "three", b"kkk"))
        with pytest.raises(FailedToSendMessage, match="1 message not delivered: AttributeError"):
            sender.send([KeyedMessage(topic, 5), KeyedMessage(topic, "five", b"k")])
        assert sender.dropped == 2
    assert stored(ours, topic, 0) == [(None, b"NONE")]
    assert stored(ours, topic, 1) == [(b"k", b"FIVE")]
    assert stored(ours, topic, 2) == [(b"kk", b"TWO")]


class Seen(CallbackHandler):
    def __init__(self) -> None:
        self.calls: list[object] = []

    def init(self, props: Any) -> None:
        self.calls.append(("init", props))

    def before_enqueue(self, data: KeyedMessage) -> KeyedMessage:
        return data._replace(value=data.value + b"1")

    def after_enqueue(self, data: KeyedMessage, added: bool) -> None:
        self.calls.append(("after_enqueue", data.value, added))

    def after_dequeuing_existing_data(self, data: KeyedMessage | None) -> Sequence[KeyedMessage]:
        return [] if data is None else [data._replace(value=data.value + b"2")]

    def before_sending_data(self, data: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        return [each._replace(value=each.value + b"3") for each in data]

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        assert isinstance(self.calls[0], tuple)
        return [KeyedMessage(self.calls[0][1], b"last")]

    def close(self) -> None:
        self.calls.append("close")


def test_all_seven_callbacks(ours: Place) -> None:
    topic, seen = ours.topic(), Seen()
    with producer(ours, producer_type="async", callback_handler=seen, callback_handler_props=topic) as sender:
        sender.send(KeyedMessage(topic, b"a"))
    assert [value for _, value in stored(ours, topic)] == [b"a123", b"last3"]
    assert seen.calls == [("init", topic), ("after_enqueue", b"a1", True), "close"]


class Raises(CallbackHandler):
    def before_sending_data(self, data: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        raise RuntimeError("no")


def test_a_callback_that_raises_drops_what_it_was_given(ours: Place) -> None:
    topic = ours.topic()
    sender = producer(ours, producer_type="async", callback_handler=Raises())
    sender.send(KeyedMessage(topic, b"a"))
    with pytest.raises(FailedToSendMessage, match="1 message not delivered: RuntimeError: no"):
        sender.close()
    assert sender.dropped == 1


class Gate(EventHandler):
    """Keeps the first batch until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.batches: list[list[Any]] = []
        self.closed = False

    def handle(self, events: Sequence[KeyedMessage], producer: SyncProducer, encoder: Encoder[Any]) -> None:
        self.batches.append([each.value for each in events])
        self.entered.set()
        assert self.opened.wait(PATIENCE_S)
        producer.send(events[0].topic, [encoder.to_message(each.value) for each in events])

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("timeout_ms", [0, 20])
def test_a_full_queue_refuses(ours: Place, timeout_ms: int) -> None:
    topic, gate = ours.topic(), Gate()
    sender = producer(
        ours,
        producer_type="async",
        event_handler=gate,
        queue_buffering_max_messages=2,
        batch_num_messages=1,
        queue_enqueue_timeout_ms=timeout_ms,
    )
    sender.send(KeyedMessage(topic, b"0"))
    assert gate.entered.wait(PATIENCE_S)
    sender.send([KeyedMessage(topic, b"1"), KeyedMessage(topic, b"2")])
    with pytest.raises(QueueFull, match="queue of 2 messages had no room"):
        sender.send(KeyedMessage(topic, b"3"))
    gate.opened.set()
    sender.close()
    assert gate.batches == [[b"0"], [b"1"], [b"2"]]
    assert gate.closed
    assert [value for _, value in stored(ours, topic)] == [b"0", b"1", b"2"]


def test_a_full_queue_blocks_by_default(ours: Place) -> None:
    topic, gate = ours.topic(), Gate()
    sender = producer(
        ours, producer_type="async", event_handler=gate, queue_buffering_max_messages=1, batch_num_messages=1
    )
    messages = [KeyedMessage(topic, b"%d" % number) for number in range(10)]
    thread = threading.Thread(target=sender.send, args=(messages,), daemon=True)
    thread.start()
    assert gate.entered.wait(PATIENCE_S)
    gate.opened.set()
    thread.join(PATIENCE_S)
    sender.close()
    assert [value for _, value in stored(ours, topic)] == [b"%d" % n for n in range(10)]


def test_batches_are_of_messages_and_of_time(ours: Place) -> None:
    topic, gate = ours.topic(), Gate()
    gate.opened.set()
    settings = {"queue.time": 50, "batch.size": 4, "broker.list": f"1:{ours.bootstrap}"}
    with Producer({**settings, "producer.type": "async", "event.handler": gate}) as sender:
        sender.send([KeyedMessage(topic, b"%d" % number) for number in range(9)])
        eventually("the rest is sent when its time has come", lambda: len(gate.batches) == 3)
    assert [len(batch) for batch in gate.batches] == [4, 4, 1]


def test_drops_are_counted_and_raised(ours: Place) -> None:
    topic = ours.topic()
    sender = producer(ours, producer_type="async", queue_buffering_max_ms=1, max_message_size=10)
    sender.send([KeyedMessage(topic, b"x" * 11), KeyedMessage(topic, b"fine")])
    eventually("the drop is counted", lambda: sender.dropped == 1)
    with pytest.raises(FailedToSendMessage, match=r"1 message not delivered: MessageSizeTooLarge.*11 bytes"):
        sender.send(KeyedMessage(topic, b"not taken"))
    sender.close()
    assert [value for _, value in stored(ours, topic)] == [b"fine"]


def test_retries_are_counted(free_port: int) -> None:
    config = {"metadata.broker.list": f"{HOST}:{free_port}", "message.send.max.retries": 2, "retry.backoff.ms": 1}
    with Producer(config) as sender, pytest.raises(FailedToSendMessage, match=r"after 3 attempts.*refused"):
        sender.send([KeyedMessage("t", b"a"), KeyedMessage("t", b"b")])
    assert sender.dropped == 2


def test_a_broker_that_comes_back_gets_what_was_kept(brokers: Brokers) -> None:
    broker = brokers()
    config = {
        "metadata.broker.list": broker.bootstrap,
        "producer.type": "async",
        "queue.buffering.max.ms": 1,
        "request.required.acks": -1,
        "message.send.max.retries": 300,
    }
    with Producer(config) as sender:
        sender.send(KeyedMessage("t", b"before"))
        with SimpleConsumer(HOST, broker.port) as reader:
            eventually("it is there", lambda: _has(reader, 1))
        broker.stop()
        sender.send(KeyedMessage("t", b"meanwhile"))
        broker = brokers.restart(broker)
    with SimpleConsumer(HOST, broker.port) as reader:
        values = [each.message.value for each in reader.fetch(FetchRequest("t", 0, 0, 1 << 20))]
    assert values[0] == b"before"
    assert values[-1] == b"meanwhile"


def _has(reader: SimpleConsumer, count: int) -> bool:
    from ottla.errors import KafkaError

    try:
        return len(list(reader.fetch(FetchRequest("t", 0, 0, 1 << 20)))) == count
    except KafkaError:
        return False


def test_brokers_and_partitions_are_found_in_zookeeper(place: Place) -> None:
    topic = place.topic()
    with producer(place, zk_connect=place.zookeeper, partitioner_class=Length()) as sender:
        sender.send(KeyedMessage(topic, b"0", b""))
        with pytest.raises(FailedToSendMessage, match="chose 1 of 1"):
            sender.send(KeyedMessage(topic, b"1", b"k"))
        place.grow(topic, 2)

        def sends() -> bool:
            try:
                sender.send(KeyedMessage(topic, b"1", b"k"))
            except FailedToSendMessage:
                return False
            return True

        eventually("the new partition is noticed", sends)
    assert stored(place, topic, 1) == [(b"k", b"1")]


PROGRAM = """
import sys
from ottla.classic import KeyedMessage, Producer
producer = Producer({"metadata.broker.list": sys.argv[1], "producer.type": "async", "request.required.acks": 1,
    "queue.buffering.max.messages": 100_000})
for number in range(20_000):
    producer.send(KeyedMessage(sys.argv[2], b"%d" % number))
"""


def test_the_end_of_the_interpreter_loses_nothing(ours: Place) -> None:
    topic = ours.topic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ours.bootstrap, topic], capture_output=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [value for _, value in stored(ours, topic)] == [b"%d" % number for number in range(20_000)]


#: A process of its own: a child that is forked by the tests' would wait for ever for threads of other clients.
FORKING = """
import os, sys
from ottla.classic import KeyedMessage, Producer, ProducerClosed

sender = Producer({"metadata.broker.list": sys.argv[1], "request.required.acks": 1, "producer.type": "async"})
child = os.fork()
if not child:
    try:
        sender.send(KeyedMessage(sys.argv[2], b"child"))
    except ProducerClosed as problem:
        assert "before a fork" in str(problem), problem
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
sender.send(KeyedMessage(sys.argv[2], b"parent"))
sender.close()
try:
    sender.send(KeyedMessage(sys.argv[2], b"late"))
except ProducerClosed as problem:
    assert "was closed" in str(problem), problem
else:
    sys.exit("sent after close")
"""


def test_a_producer_does_not_cross_a_fork(ours: Place) -> None:
    topic = ours.topic()
    done = subprocess.run(
        [sys.executable, "-c", FORKING, ours.bootstrap, topic], capture_output=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [value for _, value in stored(ours, topic)] == [b"parent"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "one of 'metadata.broker.list' and 'zookeeper.connect'"),
        ({"broker.list": "a:1", "zk.connect": "b"}, "one of"),
        ({"broker.list": "a:x"}, "'a:x' is not HOST:PORT"),
        ({"broker.list": "a:1", "producer.typ": "sync"}, "unknown setting 'producer.typ'; did you mean producer.type?"),
        ({"broker.list": "a:1", "metadata.broker.list": "a:1"}, "are one setting"),
        ({"broker.list": "a:1", "producer.type": "both"}, "'producer.type' is sync or async, not 'both'"),
        ({"broker.list": "a:1", "batch.size": "many"}, "'batch.size' is a whole number, not 'many'"),
        ({"broker.list": "a:1", "batch.size": 0}, "'batch.size' is from 1 to 2147483647, not 0"),
        ({"broker.list": "a:1", "request.required.acks": 2}, "0, 1 or -1, not 2"),
        ({"broker.list": "a:1", "serializer.class": "org.example.Encoder"}, "object or module:Class"),
        ({"broker.list": "a:1", "serializer.class": "no.such:Encoder"}, "there is no no.such:Encoder"),
        ({"broker.list": "a:1", "partitioner.class": StringEncoder}, "StringEncoder has no method partition"),
        ({"broker.list": "a:1", "callback.handler": CallbackHandler}, "is for 'producer.type=async'"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        Producer(settings)
    assert text in str(raised.value)


def test_only_messages_are_sent(ours: Place) -> None:
    with producer(ours) as sender, pytest.raises(TypeError, match="KeyedMessage or ProducerData, not bytes"):
        sender.send([b"value"])  # type: ignore[list-item]


def test_the_partitioner_is_javas() -> None:
    assert DefaultPartitioner().partition("abc", 7) == 6


def test_a_batch_is_cut_to_what_brokers_take(ours: Place) -> None:
    topic = ours.topic()
    values = [b"%06d" % number + b"x" * 99_994 for number in range(30)]
    with producer(ours, producer_type="async", batch_num_messages=100) as sender:
        sender.send(ProducerData(topic, None, values))
    assert [value for _, value in stored(ours, topic)] == values


def test_a_broker_that_moves_is_found_in_zookeeper(brokers: Brokers, zookeeper: str) -> None:
    first = brokers(broker_id=1, zookeeper=zookeeper)
    settings = {"zookeeper.connect": zookeeper, "request.required.acks": 1, "message.send.max.retries": 100}
    with Producer(settings) as sender:
        sender.send(KeyedMessage("t", b"before"))
        first.stop()
        second = brokers(broker_id=1, zookeeper=zookeeper, data=first.data)
        assert second.port != first.port
        sender.send(KeyedMessage("t", b"after"))
    with SimpleConsumer(HOST, second.port) as reader:
        found = list(reader.fetch(FetchRequest("t", 0, 0, 1 << 20)))
    assert [each.message.value for each in found] == [b"before", b"after"]


def test_a_server_that_is_none(zookeeper_server: str) -> None:
    settings = {"broker.list": zookeeper_server, "message.send.max.retries": 0, "request.timeout.ms": 2000}
    with Producer(settings) as sender, pytest.raises(FailedToSendMessage, match="no broker answers"):
        sender.send(KeyedMessage("t", b"v"))


class FirstFails(SyncProducer):
    """A broker that refuses the first request."""

    def __init__(self) -> None:
        super().__init__(HOST, 1)
        self.sent: list[bytes | None] = []

    def _send_once(self, requests: Sequence[ProducerRequest]) -> list[Produced]:
        self.sent += [each.messages[0][0] for each in requests]
        problem = NotLeaderOrFollower("moved") if len(self.sent) == 1 else None
        return [Produced(each.place, -1 if problem else 7, problem) for each in requests]


def test_nothing_is_sent_before_what_has_to_be_sent_again() -> None:
    sender = FirstFails()
    results = sender.multi_send([ProducerRequest("t", 0, [Message(b"a")]), ProducerRequest("t", 0, [Message(b"b")])])
    assert sender.sent == [b"a"]
    assert [type(each.error) for each in results] == [NotLeaderOrFollower, NotLeaderOrFollower]
