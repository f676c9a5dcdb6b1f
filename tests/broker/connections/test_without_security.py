"""The answers of a broker without authentication, access rules and features to those who ask for them."""

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ottla.errors import IllegalSaslState, InvalidRequest, SecurityDisabled
from ottla.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from ottla.wire.k29_describe_acls import DESCRIBE_ACLS, DescribeAclsRequest
from ottla.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from ottla.wire.k57_update_features import UPDATE_FEATURES, FeatureUpdateKey, UpdateFeaturesRequest
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client
from tests.support.settings import alter
from tests.support.waiting import PATIENCE_S


def test_confluent_learns_that_there_is_no_authorizer(shared_broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    what = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*")
    how = (AclOperation.READ, AclPermissionType.ALLOW)
    rule, filter = AclBinding(*what, *how), AclBindingFilter(*what, *how)
    for answer in (admin.create_acls([rule])[rule], admin.delete_acls([filter])[filter]):
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            answer.result(PATIENCE_S)
        assert refused.value.args[0].code() == SecurityDisabled.code


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.plaintext.principal.builder.class", "org.example.Builder"),
        ("delegation.token.master.key", "hunter2"),
        ("create.topic.policy.class.name", "org.example.Policy"),
    ],
)
def test_a_broker_that_cannot_protect_does_not_start(brokers: Brokers, name: str, value: str) -> None:
    broker = brokers(settings={name: value}, wait=False)
    assert broker.process.wait(PATIENCE_S) == 1
    said = broker.log.read_text()
    assert f"cannot start the broker: {name}" in said
    assert "security.settings.ignored=" in said
    assert "hunter2" not in said
    assert "Traceback" not in said
    assert not broker.data.exists()


def test_a_broker_starts_without_the_protection_if_it_is_told_to(brokers: Brokers) -> None:
    name = "principal.builder.class"
    broker = brokers(settings={name: "org.example.Builder", "security.settings.ignored": name})
    assert broker.stop() == 0
    assert f"WARNING ottla.config: {name} is ignored" in broker.log.read_text()


def test_a_running_broker_is_not_asked_for_protection(client: Client, shared_broker: Broker) -> None:
    name = "listener.name.plaintext.principal.builder.class"
    code, message = alter(client, name, "org.example.Builder", broker=str(shared_broker.id))
    assert code == InvalidRequest.code
    assert "no Java principal builder" in (message or "")


@pytest.mark.parametrize("version", range(3))
def test_access_rules_are_not_described(client: Client, version: int) -> None:
    answer = client.call(DESCRIBE_ACLS, DescribeAclsRequest(), version)
    assert (answer.error_code, answer.resources) == (SecurityDisabled.code, [])


def test_authentication_comes_at_the_wrong_time(client: Client) -> None:
    assert client.call(SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN")).error_code == IllegalSaslState.code
    assert client.call(SASL_AUTHENTICATE, SaslAuthenticateRequest()).error_code == IllegalSaslState.code


def test_there_are_no_features(client: Client) -> None:
    updates = [
        FeatureUpdateKey(feature="", max_version_level=1),
        FeatureUpdateKey(feature="a", max_version_level=1),
        FeatureUpdateKey(feature="b", max_version_level=0),
        FeatureUpdateKey(feature="c", max_version_level=0, allow_downgrade=True),
    ]
    answer = client.call(UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=updates))
    assert answer.error_code == 0
    assert [(row.feature, row.error_code) for row in answer.results] == [
        (name, InvalidRequest.code) for name in ("", "a", "b", "c")
    ]
