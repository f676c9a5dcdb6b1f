"""Clients that come in with tokens: those that they make, those of a file, and those of an authorization server."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ottla.client import BlockingConnection, Cluster, Security, oauth
from ottla.client.admin import Admin
from ottla.client.errors import ConnectionLost
from ottla.errors import SaslAuthenticationFailed
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.apache import Apache
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.authorization_server import BASE, LOGIN, PACKAGE, SECRET, UNSIGNED, Authorization, unsigned
from tests.support.waiting import eventually

HANDLER = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
#: Kafka's broker makes a token for itself, too.
OWN = 'unsecuredLoginStringClaim_sub="broker"'
MADE = {**BASE, "sasl.jaas.config": f'{LOGIN} required unsecuredLoginStringClaim_sub="alice";'}


def of_listener(plain: int, port: int, **others: object) -> dict[str, object]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{LOGIN} required {OWN};",
        HANDLER: UNSIGNED,
        "connection.failed.authentication.delay.ms": 0,
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def started(brokers: Brokers, **others: object) -> tuple[Broker, int]:
    plain, port = free_port(), free_port()
    return brokers(port=plain, settings=of_listener(plain, port, **others)), port


@pytest.fixture
def authorization() -> Iterator[Authorization]:
    server = Authorization()
    server.thread.start()
    yield server
    server.close()


def names(port: int, settings: dict[str, str]) -> list[str | None]:
    """The topics that a client of the blocking kind sees."""
    with BlockingConnection.connect("127.0.0.1", port, security=Security.of(settings)) as connection:
        return [topic.name for topic in connection.call(METADATA, MetadataRequest(topics=None)).topics]


def create(port: int, settings: dict[str, str], topic: str) -> None:
    async def run() -> None:
        async with Cluster(f"127.0.0.1:{port}", security=Security.of(settings)) as cluster:
            await Admin(cluster).create_topic(topic, 1, 1)

    trio.run(run)


def test_tokens_that_it_makes(brokers: Brokers) -> None:
    broker, port = started(brokers)
    create(port, MADE, "orders")
    assert names(port, MADE) == ["orders"]
    extended = {**MADE, "sasl.jaas.config": MADE["sasl.jaas.config"][:-1] + ' unsecuredLoginExtension_team="a b";'}
    assert names(port, extended) == ["orders"]
    assert "Traceback" not in broker.log.read_text()


@pytest.mark.java
def test_apache_kafka(tmp_path: Path) -> None:
    plain, port = free_port(), free_port()
    with Apache(tmp_path) as apache:
        given = of_listener(plain, port)
        del given[HANDLER]
        apache.broker("2.7.2", zookeeper=apache.zookeeper(), port=plain, settings=given)
        create(port, MADE, "orders")
        assert "orders" in names(port, MADE)
        lacks = {**MADE, "sasl.jaas.config": f"{LOGIN} required unsecuredLoginStringClaim_name=x "
                 "unsecuredLoginPrincipalClaimName=name;"}  # fmt: skip
        with pytest.raises(SaslAuthenticationFailed, match=r"OAUTHBEARER as '': .*invalid_token"):
            names(port, lacks)


def test_tokens_of_a_file_are_read_for_each_login(brokers: Brokers, tmp_path: Path) -> None:
    _, port = started(brokers)
    path = tmp_path / "the token"
    settings = {**BASE, "sasl.oauthbearer.token.endpoint.url": path.as_uri()}
    with pytest.raises(SaslAuthenticationFailed, match="the token cannot be read: No such file"):
        names(port, settings)
    path.write_text(unsigned() + "\n")
    assert names(port, settings) == []
    path.write_text(unsigned(lasts_s=-600))
    with pytest.raises(SaslAuthenticationFailed, match=r"OAUTHBEARER as 'file://.*invalid_token"):
        names(port, settings)
    path.write_text("two words")
    with pytest.raises(SaslAuthenticationFailed, match="has no token"):
        names(port, settings)


def test_a_token_of_a_server_is_kept(brokers: Brokers, authorization: Authorization) -> None:
    _, port = started(brokers)
    settings = authorization.settings()
    create(port, settings, "orders")
    assert names(port, settings) == ["orders"]
    login = base64.b64encode(f"orders:{SECRET}".encode()).decode()
    asked = {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert authorization.asked == [(f"Basic {login}", asked)]


def test_a_token_whose_life_is_nearly_over_is_not_used_again(brokers: Brokers, authorization: Authorization) -> None:
    _, port = started(brokers)
    authorization.lasts_s = 0.0
    settings = authorization.settings(**{"sasl.oauthbearer.header.urlencode": "true"})
    given = [names_or_refusal(port, settings) for _ in range(2)]
    assert given == ["refused", "refused"]
    login = base64.b64encode(b"orders:it%27s+a+secret").decode()
    assert [who for who, _ in authorization.asked] == [f"Basic {login}"] * 2


def names_or_refusal(port: int, settings: dict[str, str]) -> object:
    try:
        return names(port, settings)
    except SaslAuthenticationFailed:
        return "refused"


def test_a_token_that_the_broker_refuses_is_not_used_again(brokers: Brokers, authorization: Authorization) -> None:
    _, port = started(brokers)
    wrong = json.dumps({"access_token": unsigned(sub="")}).encode()
    authorization.answers.append((200, wrong))
    settings = authorization.settings()
    with pytest.raises(SaslAuthenticationFailed, match=r"OAUTHBEARER as 'orders': .*invalid_token"):
        names(port, settings)
    assert names(port, settings) == []


def test_it_stays_in_with_new_tokens(brokers: Brokers, authorization: Authorization) -> None:
    _, port = started(brokers, connections_max_reauth_ms=60_000)
    authorization.lasts_s = 2.0
    with BlockingConnection.connect("127.0.0.1", port, security=Security.of(authorization.settings())) as connection:

        def has_renewed() -> bool:
            connection.call(METADATA, MetadataRequest(topics=[]))
            return len(authorization.asked) >= 3

        eventually("it has had three tokens", has_renewed)


@pytest.mark.parametrize(
    ("status", "said", "kind", "message"),
    [
        (401, b'{"error": "invalid_client"}', SaslAuthenticationFailed, 'answers with 401 Unauthorized: .*"invalid_cl'),
        (302, b"", SaslAuthenticationFailed, "answers with 302 Found"),
        (503, b"later", ConnectionLost, "answers with 503 Service Unavailable: later"),
        (200, b"<html>", SaslAuthenticationFailed, "the answer is no JSON object"),
        (200, b"[]", SaslAuthenticationFailed, "the answer is no JSON object"),
        (200, b"{}", SaslAuthenticationFailed, "has no token"),
        (200, b'{"access_token": "a\\nb"}', SaslAuthenticationFailed, "has no token"),
        (200, b'{"access_token": 1}', SaslAuthenticationFailed, "has no token"),
    ],
)
def test_what_an_authorization_server_may_say(
    authorization: Authorization, status: int, said: bytes, kind: type[Exception], message: str
) -> None:
    security = Security.of(authorization.settings())
    assert security is not None
    assert security.tokens is not None
    authorization.answers.append((status, said))
    with pytest.raises(kind, match=message) as failed:
        oauth.token(security.tokens, "broker:9092")
    assert str(failed.value).startswith("broker:9092: ")
    assert SECRET not in str(failed.value)
    assert SECRET not in repr(security)
    assert len(authorization.asked) == 1


def test_a_server_that_is_away_may_come_back() -> None:
    security = Security.of({**BASE, "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{free_port()}/",
                            "sasl.oauthbearer.client.credentials.client.id": "orders",
                            "sasl.oauthbearer.client.credentials.client.secret": SECRET})  # fmt: skip
    assert security is not None
    assert security.tokens is not None
    with pytest.raises(ConnectionLost, match=r"no token from http://127.0.0.1:.*Connection refused"):
        oauth.token(security.tokens, "broker:9092")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BASE, "sasl.oauthbearer.token.endpoint.url is missing, which says where tokens come from"),
        ({**MADE, "sasl.login.callback.handler.class": "a.B"}, "it names a Java class; sasl.oauthbearer.token.endpoin"),
        ({**BASE, "sasl.oauthbearer.token.endpoint.url": "ftp://h/t"}, "'ftp://h/t'; it begins with https://, http://"),
        ({**BASE, "sasl.oauthbearer.token.endpoint.url": "https:///t"}, "it begins with https://"),
        (
            {**BASE, "sasl.oauthbearer.token.endpoint.url": "https://h/t", "sasl.jaas.config": f"{LOGIN} required;"},
            "sasl.jaas.config has no clientId, nor is sasl.oauthbearer.client.credentials.client.id set",
        ),
        (
            {
                **BASE,
                "sasl.oauthbearer.token.endpoint.url": "https://h/t",
                "sasl.jaas.config": f'{LOGIN} required clientId=a clientSecret=b ssl.truststore.type="BKS";',
            },
            "sasl.jaas.config: ssl.truststore.type is 'BKS'",
        ),
        ({**MADE, "sasl.jaas.config": f"{LOGIN} required unsecuredLoginStringClaim_name=x;"}, "StringClaim_sub, which"),
        (
            {**MADE, "sasl.jaas.config": MADE["sasl.jaas.config"][:-1] + " unsecuredLoginLifetimeSeconds=x;"},
            "unsecuredLoginLifetimeSeconds is no number",
        ),
        (
            {**MADE, "sasl.jaas.config": MADE["sasl.jaas.config"][:-1] + ' unsecuredLoginExtension_auth="x";'},
            "unsecuredLoginExtension_auth is no extension",
        ),
        (
            {**MADE, "sasl.jaas.config": f"{PACKAGE.replace('oauthbearer', 'plain')}.PlainLoginModule required a=b;"},
            "has the login module .*PlainLoginModule; sasl.mechanism=OAUTHBEARER needs",
        ),
    ],
)
def test_settings_that_it_refuses(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Security.of(settings)
