"""`ottla produce`, read back by somebody else's client."""

import json
from pathlib import Path
from typing import Any

import pytest

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
        "(the 2 records before it were produced)\n"
    )


def test_what_cannot_be_produced(ottla: Ottla, bootstrap: str) -> None:
    at = ("-b", bootstrap)
    ottla("topic", "create", "small", "-s", "max.message.bytes=100", *at)
    assert "(MESSAGE_TOO_LARGE)" in ottla("produce", "small", *at, stdin=b"x" * 1000, code=1).err
    assert "has no partition 7" in ottla("produce", "small", "-p", "7", *at, stdin=b"x", code=1).err
    assert "(INVALID_TOPIC_EXCEPTION)" in ottla("produce", "a/b", *at, stdin=b"x", code=1).err
    assert "does not exist" in ottla("produce", "small", "/no/such/file", *at, code=2).err
    assert "cannot be empty" in ottla("produce", "small", "-k", "", *at, code=2).err
    assert "--json lines say themselves" in ottla("produce", "small", "--json", "-k", ",", *at, code=2).err
