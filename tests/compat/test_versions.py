"""Every version of every API that a broker advertises is answered, in the form of that version.

Clients use one or two versions of an API each; a field that some other version lacks, or a branch that only an old one
takes, is found here. Requests are random in what they say but well-formed, mostly about a topic that exists.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from drive_confluent import Confluent
from worker import Record

from ottla.wire import api
from ottla.wire.headers import parse_response_header, request_frame
from ottla.wire.k18_api_versions import API_VERSIONS
from ottla.wire.schema import Message, StructSpec, describe
from tests.compat.raw import Connection, connection
from tests.peers.ottla import Broker, Brokers
from tests.wire.instances import within

TOPIC = "versions"
PRODUCE = 0

# What fields are about, by name; all others are random.
STEERED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("name", "topic", "resource_name"), (TOPIC, TOPIC, TOPIC, "unknown")),
    **dict.fromkeys(("partition", "partition_index"), (0, 1, 2, 3)),
    **dict.fromkeys(("timeout_ms", "transaction_timeout_ms"), (1000,)),
    **dict.fromkeys(("current_leader_epoch", "leader_epoch", "last_fetched_epoch"), (-1, -1, 0)),
    **dict.fromkeys(("max_wait_ms", "min_bytes"), (0,)),
    **dict.fromkeys(("max_bytes", "partition_max_bytes"), (0, 100, 1 << 20)),
    **dict.fromkeys(("replica_id",), (-1,)),
    **dict.fromkeys(("num_partitions", "count"), (-1, 0, 1, 3, 4)),
    **dict.fromkeys(("replication_factor",), (-1, 1, 2)),
    **dict.fromkeys(("validate_only",), (True, True, False)),
    "assignments": ([],),
    "resource_type": (2, 2, 4, 8, 0),
    "config_operation": (0, 1, 2, 3, 9),
    "configs": ([],),
    "timestamp": (-1, -2, 0, 1 << 40),
    "fetch_offset": (0, 0, 5, -1),
    "session_id": (0, 7),
    "session_epoch": (-1, 0, 3),
    "isolation_level": (0, 1),
    "topic_names": (["to-delete"], ["to-delete", "to-delete"], []),
    "transactional_id": (None,),
    "client_software_name": ("versions",),
    "client_software_version": ("1.0",),
}


def plausible(cls: type[Message], version: int, chance: random.Random) -> Message:
    """A message of that version that could be meant."""
    return _struct(describe(cls), version, chance)


def _struct(spec: StructSpec, version: int, chance: random.Random) -> Message:
    values: dict[str, object] = {}
    for field in spec.fields:
        if not within(version, field.versions):
            continue
        choices = STEERED.get(field.name)
        if choices is not None and isinstance(field.type, tuple) != isinstance(choices[0], list):
            choices = None  # one of that name elsewhere
        if choices is not None and not (choices == (None,) and not within(version, field.nullable)):
            values[field.name] = chance.choice(choices)
        else:
            values[field.name] = _value(field.type, version, chance)
    return spec.cls(**values)


def _value(kind: Any, version: int, chance: random.Random) -> object:
    if isinstance(kind, StructSpec):
        return _struct(kind, version, chance)
    if isinstance(kind, tuple):
        return [_value(kind[1], version, chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "string":
        return chance.choice(("", "x", "retention.ms", TOPIC))
    if kind == "float64":
        return chance.choice((-1.0, 0.5, 100.0))
    if str(kind).startswith("int"):
        return chance.choice((-1, 0, 1, 100))
    return chance.randbytes(chance.choice((0, 30)))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("versions")) as brokers:
        broker = brokers(settings={"num.partitions": 3})
        records = [Record(i % 3, i // 3, 1_900_000_000_000 + i, b"key", b"value") for i in range(300)]
        Confluent().produce(broker.bootstrap, TOPIC, records, "gzip", "all", True)  # creates the topic
        yield broker


def ask(client: Connection, key: int, version: int, body: bytes) -> Any:
    client.send(request_frame(key, version, 42, "versions", body))
    answer = client.answer()
    correlation, start = parse_response_header(key, version, answer)
    assert correlation == 42
    return api(key).decode_response(version, answer[start:])


def advertised(broker: Broker) -> dict[int, range]:
    with connection(broker.port) as client:
        answer = ask(client, API_VERSIONS.key, 0, API_VERSIONS.encode_request(0, API_VERSIONS.request()))
    assert answer.error_code == 0
    assert len(answer.api_keys) >= 14
    return {entry.api_key: range(entry.min_version, entry.max_version + 1) for entry in answer.api_keys}


def test_every_advertised_version_is_answered_in_its_form(broker: Broker) -> None:
    asked = 0
    for key, versions in sorted(advertised(broker).items()):
        if api(key).is_between_brokers:
            continue  # a random one is an order to the broker
        for version in versions:
            for seed in range(12):
                chance = random.Random(f"{key} {version} {seed}")
                message = plausible(api(key).request, version, chance)
                if key == PRODUCE:
                    message.acks = chance.choice((1, -1))  # an acks of 0 has no answer
                with connection(broker.port) as client:
                    try:
                        ask(client, key, version, api(key).encode_request(version, message))
                    except (EOFError, ConnectionError) as error:
                        pytest.fail(
                            f"key {key} version {version} seed {seed}: {error}\n{message}\n{broker.output_tail(3)}"
                        )
                asked += 1
    assert asked > 500
    assert "Traceback" not in broker.output()


def test_what_is_advertised_is_what_kafka_2_7_advertises(broker: Broker) -> None:
    """The versions of 2.7, and no higher minimum: clients never check it (see RANGES in test_tools). Besides, a few
    later ones from which no client infers a release (KIP-664 and the form of WriteTxnMarkers that its tools speak,
    KIP-700).
    """
    kafka_2_7 = {0: 8, 1: 12, 2: 5, 3: 9, 4: 4, 5: 3, 6: 6, 7: 3, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 15: 5}
    kafka_2_7 |= {16: 4, 17: 1, 18: 3, 19: 6, 20: 5, 21: 2, 22: 4, 23: 3, 24: 2, 25: 2, 26: 2, 27: 0, 28: 3, 29: 2}
    kafka_2_7 |= {30: 2, 31: 2, 32: 3, 33: 1, 34: 1, 35: 2, 36: 2, 37: 3, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2}
    kafka_2_7 |= {44: 1} | dict.fromkeys(range(45, 58), 0)
    kafka_2_7 |= {27: 1, 60: 1, 61: 0, 65: 0, 66: 1}
    seen = advertised(broker)
    # 52 to 55 are of KRaft's first drafts: 2.7 has them, and does not tell.
    assert seen.keys() == {*range(52), 56, 57, 60, 61, 65, 66}
    assert {key: (0, kafka_2_7[key]) for key in seen} == {key: (span[0], span[-1]) for key, span in seen.items()}
