"""After the way in: for how long it holds, what changes of users do, and whose quotas hold."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramMechanism, UserScramCredentialDeletion

from ottla.client import BlockingConnection, ConnectionLost
from ottla.errors import SaslAuthenticationFailed
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.broker.authentication.conftest import SESSION_MS, Guarded, make_user
from tests.broker.authentication.talking import Talk, plain
from tests.metrics.scraped import is_there, scrape
from tests.peers.secured import PASSWORD, USER
from tests.support.client import Client, batch
from tests.support.waiting import eventually

pytestmark = pytest.mark.clients


def said(guarded: Guarded, text: str) -> None:
    eventually("the broker says it", lambda: text in guarded.broker.log.read_text(), facts=guarded.broker.log.read_text)


def test_a_session_ends_with_the_next_request(guarded: Guarded) -> None:
    with Talk(guarded.ports["short"]) as talk:
        talk.handshake("PLAIN")
        assert talk.authenticate(plain(USER, PASSWORD)) == (0, "", b"", SESSION_MS)
        assert talk.metadata() == "served"
        eventually("its time is over", lambda: talk.metadata() == "closed")
    said(guarded, "API key 3 after the end of the session")


def test_who_proves_it_anew_goes_on(guarded: Guarded) -> None:
    with Talk(guarded.ports["short"]) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(plain(USER, PASSWORD))
        answers = []

        def begins() -> bool:
            answers.append(talk.handshake("PLAIN"))
            return bool(answers[-1][0] == 0)

        for _ in range(3):
            # Once a second at most, also when its time is over.
            eventually("it may", begins)
            assert talk.authenticate(plain(USER, PASSWORD)) == (0, "", b"", SESSION_MS)
        assert answers[0][0] == 0
        assert (34, []) in answers


@pytest.mark.parametrize(
    ("mechanism", "token", "told"),
    [
        ("PLAIN", plain("bob", "b"), "Cannot change principals during re-authentication from User.alice: User.bob"),
        (
            "SCRAM-SHA-256",
            None,
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism "
            "'PLAIN'",
        ),
        ("PLAIN", plain(USER, "wrong"), "Authentication failed: Invalid username or password"),
    ],
)
def test_who_is_another_now_is_not_let_on(guarded: Guarded, mechanism: str, token: bytes | None, told: str) -> None:
    with Talk(guarded.ports["short"]) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(plain(USER, PASSWORD))
        answer: Any
        if token is None:
            answer = talk.scram(mechanism, USER, PASSWORD)
        else:
            talk.handshake(mechanism)
            answer = talk.authenticate(token)
        assert answer == (58, told, b"", 0)
        assert talk.end() == "closed"


def test_users_come_and_go(guarded: Guarded) -> None:
    """Who is in stays in, as with Kafka."""
    plaintext = f"127.0.0.1:{guarded.ports['plaintext']}"

    def comes_in(password: str) -> bool:
        with Talk(guarded.ports["sasl"]) as talk:
            return bool(talk.scram("SCRAM-SHA-256", "carol", password) == "served")

    assert not comes_in("first")
    make_user(plaintext, "first", "carol")
    eventually("carol is known", lambda: comes_in("first"))
    with Talk(guarded.ports["sasl"]) as talk:
        assert talk.scram("SCRAM-SHA-256", "carol", "first") == "served"
        make_user(plaintext, "second", "carol")
        eventually("carol has another password", lambda: comes_in("second"))
        assert not comes_in("first")
        both = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        admin = AdminClient({"bootstrap.servers": plaintext})
        gone = [UserScramCredentialDeletion("carol", mechanism) for mechanism in both]
        admin.alter_user_scram_credentials(gone)["carol"].result()
        eventually("carol is gone", lambda: not comes_in("second"))
        assert talk.metadata() == "served"


def test_a_users_quota(guarded: Guarded) -> None:
    """It is of the name by which the client came in, whatever it calls itself."""

    def throttled_ms(connection: BlockingConnection) -> int:
        rows = [PartitionProduceData(records=batch(b"x" * 10_000))]
        asked = ProduceRequest(acks=1, timeout_ms=1000, topics=[TopicProduceData(name="quota", partitions=rows)])
        return int(connection.call(PRODUCE, asked, 8).throttle_time_ms)

    def alter(client: Client, rate: float | None) -> None:
        operation = OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
        entry = EntryData(entity=[EntityData(entity_type="user", entity_name=USER)], ops=[operation])
        answer = client.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry]))
        assert answer.entries[0].error_code == 0

    with Client.connect("127.0.0.1", guarded.ports["plaintext"]) as admin:
        admin.create("quota")
        alter(admin, 1000.0)
        try:

            def alice() -> int:
                with guarded.connect("sasl", "PLAIN") as connection:
                    return throttled_ms(connection)

            eventually("alice is held back", lambda: alice() > 0)
            assert throttled_ms(admin) == 0
        finally:
            alter(admin, None)
        eventually("alice is not held back any more", lambda: alice() == 0)


def test_who_says_nothing_is_not_served(guarded: Guarded) -> None:
    with pytest.raises(ConnectionLost), Client.connect("127.0.0.1", guarded.ports["sasl"]) as client:
        client.call(METADATA, MetadataRequest(topics=[]), 8)
    with pytest.raises(SaslAuthenticationFailed, match="PLAIN as 'alice'"):
        guarded.connect("sasl", "PLAIN", "wrong")


@pytest.mark.skipif(not is_there, reason="prometheus_client is absent")
def test_clients_are_counted(guarded: Guarded) -> None:
    def counted() -> list[float]:
        found = scrape(guarded.ports["metrics"])
        names = (f"ottla_{what}_authentication_total" for what in ("successful", "failed"))
        return [found(name, listener="BOTH") or 0.0 for name in names]

    before = counted()
    guarded.connect("both", "PLAIN").close()
    assert not guarded.lets_in("both", "PLAIN", "wrong")
    # Not TLS, so that it does not come as far as SASL.
    with Talk(guarded.ports["both"]) as talk:
        assert talk.metadata() == "closed"
    expected = [before[0] + 1, before[1] + 2]
    eventually("they are counted", lambda: counted() == expected, facts=counted)
