"""Every request from clients without rights, and from clients with one right each: answered as Apache Kafka 2.7.2 does.

The answers of Kafka are recorded in `recorded.json`. The judge asks Kafka again; with OTTLA_RECORD=1 it writes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.authorization import conversations
from tests.broker.authorization.conversations import RECORDED, REQUESTS, begin, converse
from tests.broker.authorization.ruled import PLAIN, Ruled, settings
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port

Answers = dict[str, dict[str, list[str]]]


def given(plaintext: int, sasl: int) -> dict[str, object]:
    """Brokers talk to each other where the clients come in, so that these may say what brokers say."""
    found = settings(plaintext, sasl, ("root", *conversations.rights()))
    known = found["listener.name.sasl.plain.sasl.jaas.config"]
    return {
        **found,
        "listener.name.sasl.plain.sasl.jaas.config": str(known).replace(
            f"{PLAIN} required", f'{PLAIN} required username="root" password="p"'
        ),
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }


def written(answers: Answers) -> str:
    """JSON with a line for each answer, behind the users that get it."""
    rows = []
    for name, found in answers.items():
        lines = ",\n".join(f"  {json.dumps(text)}: {json.dumps(users)}" for text, users in found.items())
        rows.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    ports = free_port(), free_port()
    with Brokers(tmp_path_factory.mktemp("ottla")) as brokers:
        brokers(broker_id=1, port=ports[0], settings=given(*ports))
        ruled = Ruled(*ports)
        begin(ruled)
        yield converse(ruled)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_as_kafka_answers(ours: Answers, request_name: str) -> None:
    recorded: Answers = json.loads(RECORDED.read_text())
    assert ours[request_name] == recorded[request_name]


@pytest.mark.java
@pytest.mark.judge
def test_kafka_answers_as_it_did(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    with Apache(tmp_path) as apache:
        apache.broker("2.7.2", zookeeper=apache.zookeeper("2.7.2"), port=ports[0], settings=given(*ports))
        ruled = Ruled(*ports)
        ruled.settle()
        begin(ruled)
        found = converse(ruled)
    if os.environ.get("OTTLA_RECORD") == "1":
        RECORDED.write_text(written(found))
    assert found == json.loads(RECORDED.read_text())
