"""`ottla produce`, read back by somebody else's client."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.cli._lines import LineTooLong, lines
from ottla.cli._produce import Options, Sender
from ottla.cli._records import json_parser, text_parser
from ottla.client import Cluster, Producer
from ottla.errors import KafkaError
from ottla.kafka import ACKS_ALL
from tests.peers.ottla import Brokers
from tests.peers.skips import require
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla


def consume(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The first `count` messages of a topic's partitions, in order of partition and offset, through librdkafka."""
    try:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
    except ImportError:
        require("clients", "confluent-kafka is not installed")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "-", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Any] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=PATIENCE_S)
            assert messages, f"{len(found)} of {count} messages came"
            assert not any(message.error() for message in messages)
            found += messages
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
    finally:
        consumer.close()


@pytest.mark.clients
def test_lines_of_stdin(ottla: Ottla, bootstrap: str) -> None:
    result = ottla("produce", "lines", "-b", bootstrap, stdin=b"one\ntwo\r\n\nlast without its end")
    assert (result.out, result.err) == ("", "created topic lines with 1 partition\nproduced 4 records to lines\n")
    messages = consume(bootstrap, "lines", 4)
    assert [message.value() for message in messages] == [b"one", b"two", b"", b"last without its end"]
    assert all(message.key() is None for message in messages)


@pytest.mark.clients
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_codecs(ottla: Ottla, bootstrap: str, tmp_path: Path, compression: str) -> None:
    topic = f"keys-{compression}"
    ottla("topic", "create", topic, "-p", "3", "-b", bootstrap)
    files = [tmp_path / "a", tmp_path / "b"]
    files[0].write_text("".join(f"k{number}:v{number}\n" for number in range(1000)))
    files[1].write_text("k0:NULL\n")
    options = ["-k", ":", "--null-marker", "NULL", "-H", "who=cli", "-H", "empty=", "-z", compression, "-b", bootstrap]
    assert "produced 1,001 records" in ottla("produce", topic, *map(str, files), *options).err
    messages = consume(bootstrap, topic, 1001)
    assert {message.key(): message.value() for message in messages if message.value()} == {
        b"k%d" % number: b"v%d" % number for number in range(1000)
    }
    assert [message.key() for message in messages if message.value() is None] == [b"k0"]
    assert {message.partition() for message in messages} == {0, 1, 2}
    assert all(message.headers() == [("who", b"cli"), ("empty", b"")] for message in messages)


@pytest.mark.clients
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_json_says_everything(ottla: Ottla, bootstrap: str, acks: str) -> None:
    topic = f"json-{acks}"
    ottla("topic", "create", topic, "-p", "2", "-b", bootstrap)
    line = {
        "key_base64": "AP8=",
        "value": "grüße",
        "partition": 1,
        "timestamp": 1234567890123,
        "headers": [{"name": "a"}],
    }
    ottla("produce", topic, "--json", "-a", acks, "-b", bootstrap, stdin=json.dumps(line).encode())
    (message,) = consume(bootstrap, topic, 1)
    assert (message.key(), message.value().decode(), message.partition()) == (b"\0\xff", "grüße", 1)
    assert message.timestamp()[1] == 1234567890123
    assert message.headers() == [("a", None)]


def test_a_bad_line_is_named(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("1,a\n2,b\n3\n4,d\n")
    ottla("topic", "create", "bad", "-b", bootstrap)
    error = ottla("produce", "bad", str(file), "-k", ",", "-b", bootstrap, code=1).err
    assert error == (
        f"Error: {file}, line 3: there is no ',' between a key and a value; write it, or leave --key-separator out "
        f"(2 records before it were produced; `tail -n +3 {file}` begins with it)\n"
    )


def test_what_cannot_be_produced(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    ottla("topic", "create", "small", "-s", "max.message.bytes=100", *at)
    assert "max.message.bytes is 100" in ottla("produce", "small", *at, stdin=b"x" * 1000, code=1).err
    assert "has no partition 7" in ottla("produce", "small", "-p", "7", *at, stdin=b"x", code=1).err
    assert "(INVALID_TOPIC_EXCEPTION)" in ottla("produce", "a/b", *at, stdin=b"x", code=1).err
    assert "does not exist" in ottla("produce", "small", "/no/such/file", *at, code=2).err
    assert "cannot be empty" in ottla("produce", "small", "-k", "", *at, code=2).err
    assert "--json lines say themselves" in ottla("produce", "small", "--json", "-k", ",", *at, code=2).err


def test_a_record_that_is_too_large_is_named_by_its_line_before_it_is_sent(
    ottla: Ottla, bootstrap: str, tmp_path: Path
) -> None:
    at = ("-b", bootstrap)
    ottla("topic", "create", "thousand", "-s", "max.message.bytes=1000", *at)
    file = tmp_path / "lines"
    file.write_text("one\n" + "x" * 2000 + "\nthree\n")
    error = ottla("produce", "thousand", str(file), *at, code=1).err
    assert error == (
        f"Error: {file}, line 2: the record takes 2,070 bytes, and max.message.bytes is 1,000: `ottla topic alter "
        f"thousand --set max.message.bytes=N` admits larger ones (1 record before it was produced; `tail -n +2 {file}` "
        "begins with it)\n"
    )
    assert ottla("consume", "thousand", "--from-beginning", "-e", *at).out == "one\n"
    # Brokers look at what is compressed.
    assert "produced 3 records" in ottla("produce", "thousand", str(file), "-z", "gzip", *at).err


def test_headers_alone_may_be_too_large(ottla: Ottla, bootstrap: str) -> None:
    """Those of -H are not in the line; the record is named by its line all the same, and nothing is sent."""
    at = ("-b", bootstrap)
    ottla("topic", "create", "headers", "-s", "max.message.bytes=1000", *at)
    options = ("-H", "a=" + "x" * 600, "-H", "b=" + "x" * 600)
    error = ottla("produce", "headers", *options, *at, stdin=b"one\ntwo\n", code=1).err
    assert re.match(r"Error: stdin, line 1: the record takes 1,2\d\d bytes, and max\.message\.bytes is 1,000: ", error)
    assert "(0 records before it were produced)" in error
    assert ottla("consume", "headers", "--from-beginning", "-e", *at).out == ""


def test_lines_have_a_length(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    at = ("-b", bootstrap)
    error = ottla("produce", "length", "--max-line", "3", *at, stdin=b"one\ntwo\r\nfour\nsix\n", code=1).err
    assert error.endswith(
        "Error: stdin, line 3: it has more than 3 bytes; --max-line admits longer ones (2 records before it were "
        "produced)\n"
    )
    file = tmp_path / "lines"
    file.write_text('{"value": "x"}\n{"value": "yyyyy"}\n')
    error = ottla("produce", "length", "--json", "--max-line", "15", str(file), *at, code=1).err
    assert "line 2: it has more than 15 bytes" in error
    assert "(nothing was produced)" in error
    assert ottla("consume", "length", "--from-beginning", "-e", *at).out == "one\ntwo\n"


def test_of_a_line_without_end_no_more_is_read_than_it_may_have() -> None:
    class Endless:
        reads = 0

        def read(self, size: int) -> bytes:
            self.reads += 1
            return b"a\nb" if self.reads == 1 else b"x" * 10

    source, found = Endless(), list[bytes]()

    async def read() -> None:
        async for part in lines(source, lambda size: None, 100):
            found.extend(part)

    with pytest.raises(LineTooLong):
        trio.run(read)
    assert (found, source.reads) == ([b"a"], 12)


@pytest.mark.parametrize(
    ("line", "goes_on"),
    [
        ("{number}", "no line of {folder}/b is: `ottla produce half {folder}/b` goes on with it"),
        (
            '{{"topic": "a b", "partition": 0, "offset": 1{number}, "value": "v"}}',
            "the copy goes on with `ottla consume 'a b' --json -p 0 -o 14`",
        ),
    ],
    ids=["text", "json"],
)
def test_what_was_half_produced_says_how_far_it_came(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, goes_on: str
) -> None:
    broker = brokers()
    for name, numbers in (("a", (1, 2, 3)), ("b", (4,))):
        (tmp_path / name).write_text("".join(line.format(number=number) + "\n" for number in numbers))
    parse = json_parser(()) if line.startswith("{{") else text_parser(None, None, ())
    options = Options(0, False, False, "none", ACKS_ALL, 1000)

    async def run() -> None:
        async with Cluster(broker.bootstrap, timeout_ms=1000) as cluster:
            await cluster.topic("half", create=True)
            async with Producer(cluster, delivery_timeout_ms=1000) as producer:
                sender = Sender(producer, "half", parse, options)
                await sender.open()
                await sender.send_all(str(tmp_path / "a"), lambda size, count: None)
                await sender.flush()
                broker.kill()
                await sender.send_all(str(tmp_path / "b"), lambda size, count: None)
                with pytest.raises(KafkaError):
                    await sender.flush()
                sender.say_how_far()

    trio.run(run)
    said = capsys.readouterr().err
    expected = goes_on.replace("{folder}", str(tmp_path))
    assert said.startswith(f"3 of the 4 records that were read are known to be in half; {expected}")
