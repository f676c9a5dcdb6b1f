"""What `ottla serve` logs: in JSON, without secrets, and without saying the same thing at every request."""

import json
import socket

from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.peers.ottla import Brokers
from tests.support.client import connect

SECRET = 'p4ss"word of the \\ keystore'
#: What a client derives from a password: whoever has it can guess passwords.
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
    with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as stranger:
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


def test_what_every_request_meets_is_said_once(brokers: Brokers) -> None:
    broker = brokers(settings={"offsets.topic.replication.factor": 3})
    with connect(broker) as client:
        for _ in range(20):
            answer = client.call(FIND_COORDINATOR, FindCoordinatorRequest(key="g"), 1)
            assert answer.error_code == 15
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert stranger.recv(100) == b""
    assert broker.stop() == 0
    assert broker.log.read_text().count("closed the connection of") == 1
    said = [line for line in broker.log.read_text().splitlines() if "offsets.topic.replication.factor" in line]
    assert len(said) == 1, said
