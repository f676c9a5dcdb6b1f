"""Everybody's clients come in by each mechanism, and nobody with a wrong password does."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from tests.broker.authentication.conftest import PROTOCOLS, Guarded
from tests.peers.apache import tool
from tests.peers.secured import MECHANISMS, PASSWORD, USER
from tests.peers.skips import require
from tests.support.waiting import PATIENCE_S, eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = pytest.mark.clients

WAYS = [(listener, mechanism) for listener in ("sasl", "both") for mechanism in MECHANISMS]
VALUES = [str(number).encode() for number in range(500)]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_librdkafka(guarded: Guarded, listener: str, mechanism: str) -> None:
    topic = f"rdkafka-{listener}-{mechanism}"
    settings = guarded.rdkafka(listener, mechanism)
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer({"group.id": topic, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(len(VALUES), 0.2)]
    consumer.close()
    assert found == VALUES


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_a_wrong_password(guarded: Guarded, mechanism: str) -> None:
    problems: list[Any] = []
    client = confluent_kafka.Producer({**guarded.rdkafka("sasl", mechanism, "wrong"), "error_cb": problems.append})
    eventually("it hears why", lambda: client.poll(0.1) or problems)
    assert problems[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_kafka_python(guarded: Guarded, listener: str, mechanism: str) -> None:
    topic = f"kafka-python-{listener}-{mechanism}"
    settings: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{guarded.ports[listener]}",
        "security_protocol": PROTOCOLS[listener],
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        **({"ssl_cafile": str(guarded.trusted)} if listener == "both" else {}),
    }
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_aiokafka(guarded: Guarded, listener: str, mechanism: str) -> None:
    topic = f"aiokafka-{listener}-{mechanism}"
    settings: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{guarded.ports[listener]}",
        "security_protocol": PROTOCOLS[listener],
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        **({"ssl_context": ssl.create_default_context(cafile=guarded.trusted)} if listener == "both" else {}),
    }

    async def run() -> list[bytes | None]:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send(topic, value)
        async with aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in VALUES]

    assert asyncio.run(run()) == VALUES


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_kcat(guarded: Guarded, listener: str, mechanism: str) -> None:
    if shutil.which("kcat") is None:
        require("clients", "kcat is not installed (Debian: apt-get install kcat)")
    topic = f"kcat-{listener}-{mechanism}"
    settings = guarded.rdkafka(listener, mechanism)
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]

    def run(*arguments: str, given: bytes | None = None) -> bytes:
        command = ["kcat", *options, "-t", topic, "-p", "0", *arguments]
        return subprocess.run(command, input=given, capture_output=True, check=True, timeout=PATIENCE_S).stdout

    run("-P", given=b"\n".join(VALUES) + b"\n")
    assert run("-C", "-e", "-q").splitlines() == VALUES


@pytest.mark.java
@pytest.mark.judge
@pytest.mark.parametrize("version", ["2.7.2", "3.9.2", "4.3.1"])
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_java(guarded: Guarded, tmp_path: Path, version: str, listener: str, mechanism: str) -> None:
    file, topic = client_file(guarded, tmp_path, listener, mechanism), f"java-{version}-{listener}-{mechanism}"
    server = ("--bootstrap-server", f"localhost:{guarded.ports[listener]}", "--topic", topic)
    producers, consumers = ("--producer.config", "--consumer.config")
    if version == "4.3.1":
        producers = consumers = "--command-config"
    values = [f"{number} {'x' * 500}" for number in range(2000)]
    tool(version, "console-producer", *server, producers, file, stdin="\n".join(values) + "\n")
    read = ("--from-beginning", "--max-messages", "2000", consumers, file)
    assert tool(version, "console-consumer", *server, *read).splitlines() == values


def client_file(guarded: Guarded, folder: Path, listener: str, mechanism: str) -> str:
    """A Java client's file of settings."""
    file = folder / "client.properties"
    text = "".join(f"{name}={value}\n" for name, value in guarded.java(listener, mechanism).items())
    file.write_text(text.replace("\\", "\\\\").replace("½", "\\u00bd"))
    return str(file)


@pytest.mark.java
@pytest.mark.judge
@pytest.mark.parametrize("version", ["2.7.2", "3.9.2"])
def test_java_proves_anew_who_it_is(guarded: Guarded, tmp_path: Path, version: str) -> None:
    """The session of its connection ends many times while it writes."""
    file, topic, count = client_file(guarded, tmp_path, "short", "SCRAM-SHA-256"), f"anew-{version}", 4000
    before = guarded.broker.log.read_text().count("after the end of the session")
    said = tool(
        version,
        "producer-perf-test",
        *("--topic", topic, "--num-records", str(count), "--record-size", "100", "--throughput", "500"),
        *("--producer-props", f"bootstrap.servers=localhost:{guarded.ports['short']}", "--producer.config", file),
    )
    assert f"{count} records sent" in said
    assert guarded.broker.log.read_text().count("after the end of the session") == before
