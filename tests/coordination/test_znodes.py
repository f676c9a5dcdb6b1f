"""The JSON of every node: as Kafka 2.7 writes it, and nothing lost of what others wrote."""

from __future__ import annotations

import json

import pytest

from ottla.coordination import znodes
from ottla.coordination.znodes import (
    BrokerRegistration,
    Endpoint,
    MalformedNode,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)


def test_paths() -> None:
    assert znodes.broker_path(3) == "/brokers/ids/3"
    assert znodes.state_path("t", 7) == "/brokers/topics/t/partitions/7/state"
    assert znodes.config_path("topics", "t") == "/config/topics/t"
    assert znodes.delete_topic_path("t") == "/admin/delete_topics/t"


def test_registration_as_2_7_writes_it() -> None:
    endpoints = (
        Endpoint("INSIDE", "10.0.0.1", 9091, "SSL"),
        Endpoint("OUTSIDE", "example.org", 9092, "PLAINTEXT"),
        Endpoint("SIX", "::1", 9093, "SASL_SSL"),
    )
    registration = BrokerRegistration(endpoints, rack="r", jmx_port=9999, timestamp_ms=1606000000000)
    assert json.loads(registration.encode()) == {
        "version": 5,
        "host": "example.org",
        "port": 9092,
        "endpoints": ["INSIDE://10.0.0.1:9091", "OUTSIDE://example.org:9092", "SIX://[::1]:9093"],
        "jmx_port": 9999,
        "timestamp": "1606000000000",
        "listener_security_protocol_map": {"INSIDE": "SSL", "OUTSIDE": "PLAINTEXT", "SIX": "SASL_SSL"},
        "features": {},
        "rack": "r",
    }
    assert BrokerRegistration.decode("/p", registration.encode()) == registration


def test_registration_without_plain_text_names_no_host_for_old_clients() -> None:
    fields = json.loads(BrokerRegistration((Endpoint("SSL", "h", 1, "SSL"),)).encode())
    assert (fields["host"], fields["port"]) == (None, -1)
    assert "rack" not in fields


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        (
            '{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"22"}',
            (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),),
        ),
        (
            '{"version":2,"host":"h","port":1,"jmx_port":-1,"timestamp":"2","endpoints":["PLAINTEXT://a:1","SSL://b:2"]}',
            (Endpoint("PLAINTEXT", "a", 1, "PLAINTEXT"), Endpoint("SSL", "b", 2, "SSL")),
        ),
        (
            '{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:19093"],'
            '"jmx_port":-1,"features":{},"host":"127.0.0.1","timestamp":"1","port":19093,"version":5,"unknown":[1]}',
            (Endpoint("PLAINTEXT", "127.0.0.1", 19093, "PLAINTEXT"),),
        ),
    ],
)
def test_registrations_of_any_version_are_read(text: str, endpoints: tuple[Endpoint, ...]) -> None:
    assert BrokerRegistration.decode("/p", text.encode()).endpoints == endpoints


def test_assignment_as_2_7_writes_it() -> None:
    assignment = TopicAssignment({1: (2, 3), 0: (1, 2)}, adding={0: (2,)})
    assert json.loads(assignment.encode()) == {
        "version": 2,
        "partitions": {"0": [1, 2], "1": [2, 3]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {},
    }


def test_a_topic_id_is_kept() -> None:
    """Kafka 2.8 and later: losing it beside a kept partition.metadata stops the broker."""
    text = (
        b'{"removing_replicas":{},"partitions":{"0":[1]},"topic_id":"NTW0sfQWSnqIRxqzhBStPg",'
        b'"adding_replicas":{},"version":3}'
    )
    again = json.loads(TopicAssignment.decode("/p", text).encode())
    assert again == json.loads(text)


def test_an_assignment_of_version_1_is_written_as_version_2() -> None:
    again = json.loads(TopicAssignment.decode("/p", b'{"version":1,"partitions":{"0":[1]}}').encode())
    assert again == {"version": 2, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}


def test_state_as_2_7_writes_it_and_unknown_fields_kept() -> None:
    state = PartitionState(1, 5, (1, 2), 3)
    fields = {"controller_epoch": 3, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1, 2]}
    assert json.loads(state.encode()) == fields
    with_more = fields | {"leader_recovery_state": 0}
    decoded = PartitionState.decode("/p", json.dumps(with_more).encode())
    assert decoded.extra == {"leader_recovery_state": 0}
    assert json.loads(decoded.encode()) == with_more


def test_what_kafka_writes_as_strings() -> None:
    assert json.loads(znodes.encode_controller(1, 1606000000000)) == {
        "version": 1,
        "brokerid": 1,
        "timestamp": "1606000000000",
    }
    assert json.loads(znodes.encode_cluster_id("abc")) == {"version": "1", "id": "abc"}
    assert json.loads(ProducerIdBlock(1, 1000, 1999).encode()) == {
        "version": 1,
        "broker": 1,
        "block_start": "1000",
        "block_end": "1999",
    }
    assert json.loads(znodes.encode_config({"retention.ms": "1"})) == {"version": 1, "config": {"retention.ms": "1"}}
    assert znodes.encode_epoch(12) == b"12"


def test_what_is_written_is_read() -> None:
    assert znodes.decode_controller(znodes.encode_controller(7, 0)) == 7
    # Kafka 3.4 and later write version 2, with the epoch of a KRaft controller.
    assert znodes.decode_controller(b'{"version":2,"brokerid":7,"timestamp":"1","kraftControllerEpoch":-1}') == 7
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("abc")) == "abc"
    assert znodes.decode_epoch(b"12") == 12
    assert ProducerIdBlock.decode(ProducerIdBlock(1, 0, 999).encode()) == ProducerIdBlock(1, 0, 999)
    assert znodes.decode_config("/p", znodes.encode_config({"a": "b"})) == {"a": "b"}
    assert znodes.decode_config("/p", b"") == {}
    assert znodes.decode_partitions("/p", znodes.encode_isr_change([("t", 1), ("a", 0)])) == [("a", 0), ("t", 1)]
    assert znodes.decode_log_dir_event("/p", znodes.encode_log_dir_event(4)) == 4
    assert znodes.decode_config_change("/p", znodes.encode_config_change("topics/t")) == "topics/t"
    assert znodes.decode_config_change("/p", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b"{}", b'{"version":1}', b"\xff", b'{"partitions":7}'])
def test_what_cannot_be_understood_names_the_node(data: bytes) -> None:
    readers = [
        lambda: BrokerRegistration.decode("/the/node", data),
        lambda: TopicAssignment.decode("/the/node", data),
        lambda: PartitionState.decode("/the/node", data),
        lambda: znodes.decode_partitions("/the/node", data),
    ]
    for read in readers:
        with pytest.raises(MalformedNode, match="/the/node"):
            read()
    with pytest.raises(MalformedNode):
        ProducerIdBlock.decode(data)
    with pytest.raises(MalformedNode):
        znodes.decode_epoch(data)
