"""The log of `ottla serve`: in JSON, without secrets, and without saying the same thing at every request."""

import json
import re
import socket
import struct

import ottla
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.peers.ottla import Brokers
from tests.support.client import batch, connect
from tests.support.settings import BROKER_LOGGER, alter
from tests.support.waiting import PATIENCE_S, eventually

SECRET = 'p4ss"word of the \\ keystore'
#: The key that a client derives from a password: whoever has it can guess passwords.
SALTED = b"salted-password-bytes"


def test_lines_are_json_with_fields_and_without_secrets(brokers: Brokers) -> None:
    broker = brokers(
        settings={"ssl.keystore.password": SECRET, "ssl.key.password": "second" + SECRET},
        arguments=("--log-format", "json", "--log-level", "debug"),
    )
    with connect(broker) as client:
        upsertion = ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"salt-of-alice", salted_password=SALTED
        )
        client.call(
            ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        )
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b""
    assert broker.stop() == 0

    text = broker.log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert all(line["time"].endswith("Z") for line in lines)
    (closed,) = [line for line in lines if line["message"].startswith("closed the connection")]
    assert (closed["level"], closed["logger"], closed["listener"]) == ("WARNING", "ottla.net.server", "PLAINTEXT")
    assert closed["peer"].startswith("127.0.0.1:")
    assert isinstance(closed["connection"], int)
    for hidden in ("p4ss", "salted-password-bytes", "salt-of-alice"):
        assert hidden not in text


def test_one_client_cannot_fill_the_disk_or_forge_lines(brokers: Brokers) -> None:
    """Each connection has another long client id, with the end of a line in it, and sends a key that does not exist."""
    broker = brokers()
    for number in range(400):
        client_id = f"{number}\n2026-01-01T00:00:00.000Z CRITICAL ottla: forged\x1b[2J".encode() + b"x" * 30_000
        with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) as stranger:
            header = struct.pack(">hhih", 999, 0, 1, len(client_id)) + client_id
            stranger.sendall(struct.pack(">i", len(header)) + header)
            assert stranger.recv(100) == b""
    assert broker.stop() == 0
    lines = broker.log.read_text().splitlines()
    closed = [line for line in lines if "closed the connection of client" in line]
    assert 90 < len(closed) < 200
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ ottla", line) for line in lines)
    assert not any("CRITICAL ottla: forged" in line[:60] for line in lines)
    assert sum(map(len, closed)) < 200 * 700


def test_who_changes_the_log_level_is_logged_whatever_the_levels_are(brokers: Brokers) -> None:
    broker = brokers(arguments=("--log-level", "error"))
    with connect(broker) as client:
        for level in ("FATAL", "INFO"):
            assert alter(client, "root", level, broker=str(broker.id), kind=BROKER_LOGGER) == (0, None)
    assert broker.stop() == 0
    said = [line for line in broker.log.read_text().splitlines() if "the log level of" in line]
    assert [line.split("the log level of ")[1].partition(",")[0] for line in said] == [
        "root is FATAL from now on",
        "root is INFO from now on",
    ]
    assert all(" WARNING ottla.broker.loggers: " in line and "the client at 127.0.0.1:" in line for line in said)


def test_what_every_request_meets_is_said_once(brokers: Brokers) -> None:
    broker = brokers(settings={"offsets.topic.replication.factor": 3})
    with connect(broker) as client:
        for _ in range(20):
            answer = client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="g"), 1)
            assert answer.error_code == 15
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert stranger.recv(100) == b""
    assert broker.stop() == 0
    assert broker.log.read_text().count("closed the connection of") == 1
    said = [line for line in broker.log.read_text().splitlines() if "offsets.topic.replication.factor" in line]
    # At the start, and when the first request met it.
    assert len(said) == 2, said


def test_the_log_tells_the_life_of_a_broker(brokers: Brokers) -> None:
    settings = {"log.retention.check.interval.ms": 50, "log.segment.delete.delay.ms": 0}
    broker = brokers(settings=settings)
    with connect(broker) as client:
        client.create("kept")
        client.create("t", 2, segment_bytes="200")
        for _ in range(4):
            # From long ago.
            client.produce("t", batch(b"x" * 90))
        eventually("retention", lambda: "of topic t, in 1 partition\n" in broker.log.read_text())
        client.delete_topic("t")
    broker.kill()
    again = brokers.restart(broker, settings=settings)
    assert again.stop() == 0

    text = broker.log.read_text()
    where = f"log directories {broker.data}, and a tree of its own"
    for words in (
        rf"INFO ottla: Ottla {ottla.__version__} starts as process {broker.process.pid}, on Python 3",
        rf"INFO ottla.log_manager: {broker.data}: 0 logs opened in \d+ ms",
        rf"INFO ottla.broker: broker {broker.id} of cluster \S{{22}}, with {where}",
        rf"INFO ottla.broker: listening on PLAINTEXT://{broker.bootstrap}\n",
        r"INFO ottla: serving, \d+ ms after the start",
        r"INFO ottla.controller.controller: topic t is new, with 2 partitions",
        r"INFO ottla.log_manager: retention deletes \d segments? of topic t, in 1 partition\n",
        r"INFO ottla.controller.controller: topic t is deleted",
    ):
        assert re.search(words, text), words
    text = again.log.read_text()
    assert re.search(r": 1 log recovered after a stop that was not clean in \d+ ms", text)
    assert text.rstrip().endswith("INFO ottla: stopped")


def test_debug_tells_requests(brokers: Brokers) -> None:
    broker = brokers(arguments=("--log-level", "debug"))
    with connect(broker) as client:
        client.create("t")
        assert alter(client, "ottla.requests", "INFO", broker=str(broker.id), kind=BROKER_LOGGER) == (0, None)
        client.delete_topic("t")
    assert broker.stop() == 0
    said = [line for line in broker.log.read_text().splitlines() if " DEBUG ottla.requests: " in line]
    assert any(re.search(r"CreateTopics \d of client .* at 127\.0\.0\.1:\d+, \d+ bytes$", line) for line in said)
    assert not any("DeleteTopics" in line for line in said)
