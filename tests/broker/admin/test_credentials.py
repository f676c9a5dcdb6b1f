"""SCRAM credentials as they are set and described (KIP-554)."""

import hashlib

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaException

from ottla.errors import (
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ottla.wire.k50_describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.peers.ottla import Broker
from tests.support.client import Client
from tests.support.waiting import PATIENCE_S


def test_confluent_sets_and_describes_credentials(shared_broker: Broker) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    kinds = confluent_kafka.admin.ScramMechanism
    info = confluent_kafka.admin.ScramCredentialInfo
    upsert, delete = (
        confluent_kafka.admin.UserScramCredentialUpsertion,
        confluent_kafka.admin.UserScramCredentialDeletion,
    )
    changes = [
        upsert("Zoë", info(kinds.SCRAM_SHA_256, 4096), b"secret", b"salt"),
        upsert("Zoë", info(kinds.SCRAM_SHA_512, 8192), b"secret", b"salt"),
        upsert("weak", info(kinds.SCRAM_SHA_256, 100), b"secret"),
    ]
    answers = admin.alter_user_scram_credentials(changes)
    answers["Zoë"].result(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        answers["weak"].result(PATIENCE_S)
    assert refused.value.args[0].code() == UnacceptableCredential.code

    described = admin.describe_user_scram_credentials().result(PATIENCE_S)
    assert [*described] == ["Zoë"]
    assert [(one.mechanism, one.iterations) for one in described["Zoë"].scram_credential_infos] == [
        (kinds.SCRAM_SHA_256, 4096),
        (kinds.SCRAM_SHA_512, 8192),
    ]
    admin.alter_user_scram_credentials([delete("Zoë", kinds.SCRAM_SHA_256)])["Zoë"].result(PATIENCE_S)
    left = admin.describe_user_scram_credentials(["Zoë", "nobody"])
    assert [one.mechanism for one in left["Zoë"].result(PATIENCE_S).scram_credential_infos] == [kinds.SCRAM_SHA_512]
    with pytest.raises(KafkaException) as refused:
        left["nobody"].result(PATIENCE_S)
    assert refused.value.args[0].code() == ResourceNotFound.code


def test_credentials_that_cannot_be(client: Client) -> None:
    def row(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        salted = hashlib.pbkdf2_hmac("sha256", b"p", b"s", 10)
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=salted
        )

    request = AlterUserScramCredentialsRequest(
        upsertions=[row(""), row("a", 3), row("b", 1, 16385), row("c"), row("c"), row("d")],
        deletions=[ScramCredentialDeletion(name="e", mechanism=1), ScramCredentialDeletion(name="d", mechanism=1)],
    )
    answer = client.call(ALTER_USER_SCRAM_CREDENTIALS, request)
    assert {result.user: result.error_code for result in answer.results} == {
        "": UnacceptableCredential.code,
        "a": UnsupportedSaslMechanism.code,
        "b": UnacceptableCredential.code,
        "c": DuplicateResource.code,
        "d": DuplicateResource.code,
        "e": ResourceNotFound.code,
    }


def test_names_that_no_path_can_have(client: Client, shared_broker: Broker) -> None:
    """The tree has no such path, so nobody has such a credential. Other users of the request get their answers."""
    names = [".", "..", "./", "../topics", "ok"]
    described = client.call(
        DESCRIBE_USER_SCRAM_CREDENTIALS,
        DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names]),
    )
    assert [(row.user, row.error_code) for row in described.results] == [
        (name, ResourceNotFound.code) for name in names
    ]
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in names]
    altered = client.call(ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest(deletions=deletions))
    assert {row.user: row.error_code for row in altered.results} == dict.fromkeys(names, ResourceNotFound.code) | {
        ".": UnacceptableCredential.code,
        "..": UnacceptableCredential.code,
    }
    assert "Traceback" not in shared_broker.output()
