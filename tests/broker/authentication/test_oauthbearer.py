"""Clients that come in with tokens: what they are told, which tokens are taken, and where the keys come from."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import confluent_kafka
import jwt
import pytest
import trio
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ottla.broker.authentication import keys, oauth_settings
from ottla.broker.authentication.exchange import Refused
from ottla.broker.authentication.keys import Keys
from ottla.broker.authentication.listeners import of_listener
from ottla.broker.authentication.oauth_settings import UNSIGNED
from ottla.broker.authentication.oauthbearer import OAuthBearer
from ottla.broker.authentication.tokens import InvalidToken, Rules, Signed, Token, Unsigned
from ottla.config import BrokerConfig, ConfigError
from tests.broker.authentication.talking import Talk
from tests.broker.authentication.use import VALUES
from tests.peers.apache import Apache, tool
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.clients

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
URL = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
SESSION_MS = 60_000
#: Kafka's broker makes a token for itself, too.
SCOPED = 'unsecuredValidatorRequiredScope="write read" unsecuredLoginStringClaim_sub="broker"'


def claims(**others: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "alice", "iat": now - 5, "exp": now + 600, "scope": ["read", "write"], **others}


def unsigned(**others: Any) -> str:
    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    given = {name: value for name, value in claims(**others).items() if value is not None}
    return f"{part({'alg': 'none'})}.{part(given)}."


def first(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()


def settings(port: int, **others: object) -> dict[str, object]:
    """Of a broker that takes tokens without a signature."""
    plain = free_port()
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{LOGIN} required {SCOPED};",
        HANDLER: UNSIGNED,
        "connections.max.reauth.ms": SESSION_MS,
        "connection.failed.authentication.delay.ms": 100,
        **others,
    }


def plaintext(given: dict[str, object]) -> int:
    """The port for brokers, and for those who wait until they are ready."""
    return int(str(given["listeners"]).split(",")[0].rpartition(":")[2])


def started(brokers: Brokers, given: dict[str, object]) -> Broker:
    return brokers(port=plaintext(given), settings=given)


# --- what a client is told ---

GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
INVALID = '{"status":"invalid_token"}'
LACKING = '{"status":"insufficient_scope", "scope":"[write, read]"}'
OTHER = (
    "Authentication failed: Client requested an authorization id (bob) that is different from the token's principal "
    "name (alice)"
)
CHOSEN = (0, ["OAUTHBEARER"])
ROWS: dict[str, tuple[Callable[[], list[bytes]], list[Any]]] = {
    "right": (lambda: [first(unsigned())], [(0, "", b"", SESSION_MS), "served"]),
    "with his name": (lambda: [first(unsigned(), "n,a=alice,")], [(0, "", b"", SESSION_MS), "served"]),
    "another's name": (lambda: [first(unsigned(), "n,a=bob,")], [(58, OTHER, b"", 0), "closed"]),
    "expired": (
        lambda: [first(unsigned(iat=1, exp=2)), b"\x01"],
        [(0, "", INVALID.encode(), 0), (58, INVALID, b"", 0), "closed"],
    ),
    "no scope": (
        lambda: [first(unsigned(scope="read write")), b"\x01"],
        [(0, "", LACKING.encode(), 0), (58, LACKING, b"", 0), "closed"],
    ),
    "tried again": (
        lambda: [first(unsigned(exp=None)), first(unsigned())],
        [(0, "", INVALID.encode(), 0), (0, "", b"", SESSION_MS), "served"],
    ),
    "no name": (
        lambda: [first(unsigned(sub=None)), b"\x01"],
        [(0, "", INVALID.encode(), 0), (58, INVALID, b"", 0), "closed"],
    ),
    "nothing": (lambda: [b""], [(58, GENERIC, b"", 0), "closed"]),
    "no error to take note of": (lambda: [b"\x01"], [(58, GENERIC, b"", 0), "closed"]),
    "no token": (lambda: [b"n,,\x01auth=Bearer \x01\x01"], [(58, GENERIC, b"", 0), "closed"]),
    "extensions": (
        lambda: [first(unsigned()).replace(b"\x01\x01", b"\x01team=a b\x01\x01")],
        [(0, "", b"", SESSION_MS), "served"],
    ),
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port = free_port()
    with Brokers(tmp_path_factory.mktemp("tokens")) as brokers:
        started(brokers, settings(port))
        yield port


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port = free_port()
    with Apache(tmp_path_factory.mktemp("tokens-kafka")) as apache:
        given = settings(port)
        apache.broker("2.7.2", zookeeper=apache.zookeeper(), port=plaintext(given), settings=given)
        yield port


@pytest.fixture(params=["ours", pytest.param("theirs", marks=[pytest.mark.java, pytest.mark.judge])])
def port(request: pytest.FixtureRequest) -> int:
    found: int = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("row", ROWS)
def test_what_a_client_is_told(port: int, row: str) -> None:
    tokens, expected = ROWS[row]
    with Talk(port) as talk:
        assert talk.handshake("OAUTHBEARER") == CHOSEN
        found: list[Any] = [talk.authenticate(token) for token in tokens()]
        found.append(talk.metadata() if expected[-1] == "served" else talk.end())
    assert found == expected


def test_another_scheme(ours: int) -> None:
    """Kafka 2.7 fails to make its message for it, and closes the connection."""
    with Talk(ours) as talk:
        talk.handshake("OAUTHBEARER")
        assert talk.authenticate(b"n,,\x01auth=Basic abc\x01\x01") == (58, GENERIC, b"", 0)


def test_a_session_ends_with_its_token(port: int) -> None:
    """Where sessions have an end at all."""
    with Talk(port) as talk:
        assert talk.handshake("OAUTHBEARER") == CHOSEN
        code, _, _, lasts_ms = talk.authenticate(first(unsigned(exp=int(time.time()) + 20)))
    assert code == 0
    assert 0 < lasts_ms <= 20_000


# --- which tokens are taken ---


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"exp": "soon"}, "its claim exp is no number"),
        ({"exp": True}, "its claim exp is no number"),
        ({"exp": float("nan")}, "its claim exp is no moment"),
        ({"exp": 2}, "it has expired"),
        # Not from now on: a run of all tests takes long.
        ({"nbf": 4e9}, "it expires before it begins"),
        ({"nbf": 1}, "it begins before it was issued"),
        ({"iat": 4e9, "exp": 5e9}, "it was issued in the future"),
        ({"sub": " "}, "its claim sub is not the name of a user"),
        ({"sub": 7}, "its claim sub is not the name of a user"),
        ({"scope": {"read": 1}}, "it lacks the scope read"),
    ],
)
def test_tokens_without_a_signature(others: dict[str, Any], reason: str) -> None:
    rules = Rules(None, skew_s=0, scopes=("read",))
    assert Unsigned(rules).validate(unsigned()).user == "alice"
    assert Unsigned(rules).validate(unsigned(scope="read")).user == "alice"
    with pytest.raises(InvalidToken, match=reason):
        Unsigned(rules).validate(unsigned(**others))


NESTED = base64.urlsafe_b64encode(b'{"alg":' + 30_000 * b"[").decode().rstrip("=")


@pytest.mark.trio
@pytest.mark.parametrize("exp", ["NaN", "Infinity", "1e999", "9" * 400, "9" * 5000, "[[]]", '"x"'])
async def test_tokens_that_are_to_do_harm(tmp_path: Path, exp: str) -> None:
    """Both kinds, the second with a signature that is right."""
    text = f'{{"sub":"alice","exp":{exp}}}'.encode()
    plain = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(text).decode().rstrip("=")
    right = jwt.PyJWS().encode(text, RSA, "RS256", headers={"kid": "rsa-1"})
    known = Signed(Rules(""), Loaded(key_set("1"), tmp_path))
    with pytest.raises(InvalidToken):
        Unsigned(Rules(None)).validate(f"{plain}.{body}.")
    with pytest.raises(InvalidToken):
        known.validate(right)
    for nested in (f"{NESTED}.{body}.", f"{plain}.{NESTED}.", f"{NESTED}.{NESTED}.{NESTED}"):
        with pytest.raises(InvalidToken):
            Unsigned(Rules(None)).validate(nested)
        with pytest.raises(InvalidToken):
            known.validate(nested)


@pytest.mark.parametrize("text", ["a", "a.b.c", "...", "e30.e30.", "W10.W10.", "\xe4.b.", unsigned() + "x"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        Unsigned(Rules(None)).validate(text)


RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def key_set(*names: str) -> dict[str, Any]:
    """The public keys: one of RSA and one of a curve under each name."""
    found = []
    for name in names:
        one = jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True)
        other = jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True)
        found += [{**one, "kid": f"rsa-{name}", "alg": "RS256"}, {**other, "kid": f"ec-{name}", "use": "sig"}]
    return {"keys": found}


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa-1", **others: Any) -> str:
    given = {name: value for name, value in claims(**others).items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={} if kid is None else {"kid": kid})


class Loaded(Keys):
    """Has its keys from the start."""

    def __init__(self, found: dict[str, Any], folder: Path) -> None:
        path = folder / "keys.json"
        path.write_text(json.dumps(found))
        super().__init__(path.as_uri(), 1000)
        self._keys = keys.read(self.url)


@pytest.mark.trio
async def test_tokens_with_a_signature(tmp_path: Path) -> None:
    rules = Rules("", issuer="https://here", audience=("kafka", "others"), skew_s=0)
    of_here: dict[str, Any] = {"iss": "https://here", "aud": "kafka"}
    secret = {"kty": "oct", "kid": "shared", "alg": "HS256", "k": base64.urlsafe_b64encode(b"s" * 32).decode()}
    found = key_set("1")
    found["keys"] += [secret, {**found["keys"][0], "kid": "for-secrets", "use": "enc"}]
    validator = Signed(rules, Loaded(found, tmp_path))
    of_here["exp"] = ends_at = claims()["exp"]
    for token in (signed(**of_here), signed(CURVE, "ES256", "ec-1", **of_here), signed(kid=None, **of_here)):
        assert validator.validate(token) == ("alice", ends_at)
    assert Signed(Rules(""), Loaded(key_set("1"), tmp_path)).validate(signed()).user == "alice"
    stranger = rsa.generate_private_key(65537, 2048)
    now = int(time.time())
    for token, reason in (
        (signed(stranger, **of_here), "Signature verification failed"),
        (signed(iss="https://there", aud="kafka"), "[Ii]ssuer"),
        (signed(iss="https://here", aud="elsewhere"), "[Aa]udience"),
        (signed(aud="kafka"), "iss"),
        (signed(**{**of_here, "exp": now - 1}), "expired"),
        (signed(**{**of_here, "exp": None}), "exp"),
        (signed(**of_here, nbf=now + 100), "not yet valid"),
        (signed(**of_here, sub=""), "its claim sub"),
        (signed(**of_here, kid="rsa-2"), "no key 'rsa-2' for 'RS256' among those of file:"),
        (signed(**of_here, kid="for-secrets"), "no key 'for-secrets'"),
        (signed(CURVE, "ES256", "rsa-1", **of_here), "no key 'rsa-1' for 'ES256'"),
        (signed(b"s" * 32, "HS256", "shared", **of_here), "no key 'shared' for 'HS256'"),
        (unsigned(**of_here), "no key None for 'none'"),
        ("nonsense", "segments"),
    ):
        with pytest.raises(InvalidToken, match=reason):
            validator.validate(token)
    two = Signed(Rules(""), Loaded(key_set("1", "2"), tmp_path))
    with pytest.raises(InvalidToken, match="no key that the token names no one of"):
        two.validate(signed(kid=None))


def test_an_error_is_told_before_the_end() -> None:
    class Never:
        def validate(self, text: str) -> Token:
            raise InvalidToken(f"not {text}")

    one = OAuthBearer(Never())
    assert one.step(first("a.b.c")) == INVALID.encode()
    with pytest.raises(Refused, match=r"not a\.b\.c") as refused:
        one.step(b"\x01")
    assert refused.value.told == INVALID
    assert one.user is None


# --- where the keys come from ---


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no set of JSON Web Keys"),
        ("[]", "no set of JSON Web Keys"),
        ('{"keys": []}', "no set of JSON Web Keys"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "no key for one of ES256"),
        ('{"keys": [{"kty": "RSA", "n": 7, "e": []}]}', "no set of JSON Web Keys"),
        ('{"keys": [{"kty": {}}]}', "no set of JSON Web Keys"),
        (60_000 * "[", "no set of JSON Web Keys"),
        ("x" * (keys.KEYS_BYTES_MAX + 1), "more than 1048576 bytes"),
    ],
)
def test_files_that_have_no_keys(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=reason):
        keys.read(path.as_uri())
    given = settings(1, **{HANDLER: "", URL: path.as_uri()})
    config = BrokerConfig({name: str(value) for name, value in given.items()})
    with pytest.raises(ConfigError, match=reason) as refused:
        of_listener(config, config.listeners[1])
    assert refused.value.name == URL


@pytest.mark.trio
async def test_keys_are_read_again_when_a_token_names_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a server, whose first answers are an error, and none of HTTP."""
    monkeypatch.setattr(keys, "APART_S", 0.01)
    answers: list[dict[str, Any] | None] = [None, {}, key_set("1"), key_set("2")]
    asked = 0

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal asked
            content = answers[min(asked, 3)]
            asked += 1
            if content == {}:
                self.wfile.write(b"* OK IMAP4rev1 ready\r\n")
                return
            self.send_response(200 if content else 503)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        found = Keys(f"http://127.0.0.1:{server.server_port}/keys", 3_600_000)
        with pytest.raises(InvalidToken, match="there are no keys yet"):
            found.find("rsa-1", "RS256")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run)
            for name in ("rsa-1", "rsa-2"):
                with trio.fail_after(PATIENCE_S):
                    while not knows(found, name):
                        await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert asked == 4


def knows(found: Keys, name: str) -> bool:
    try:
        return found.find(name, "RS256").key_id == name
    except InvalidToken:
        return False


OF_SASL = "listener SASL_PLAINTEXT://127.0.0.1:1: "


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({HANDLER: ""}, f"sasl.oauthbearer.jwks.endpoint.url is not set: .* set {HANDLER}={UNSIGNED}"),
        ({HANDLER: "my.Handler"}, "Ottla runs no Java class that decides who comes in; possible are org.apache.kafka"),
        ({HANDLER: oauth_settings.SIGNED[0]}, "sasl.oauthbearer.jwks.endpoint.url is not set"),
        ({HANDLER: "", URL: "ftp://h/keys"}, "ftp://h/keys: it begins with https://, http:// or file://"),
        ({HANDLER: "", URL: "file:///no/such/keys"}, "No such file or directory"),
        (
            {
                "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
                    f"{LOGIN} required unsecuredValidatorAllowableClockSkewMs=x;"
                )
            },
            "unsecuredValidatorAllowableClockSkewMs=x is no number",
        ),
    ],
)
def test_settings_that_cannot_be_served(given: dict[str, str], said: str) -> None:
    config = BrokerConfig({name: str(value) for name, value in settings(1, **given).items()})
    with pytest.raises(ConfigError, match=said) as refused:
        of_listener(config, config.listeners[1])
    assert str(refused.value).startswith(OF_SASL)


def test_the_settings_of_one_listener(tmp_path: Path) -> None:
    url = Loaded(key_set("1"), tmp_path).url
    own = "listener.name.sasl_plaintext."
    given = {
        HANDLER: oauth_settings.SIGNED[1],
        URL: url,
        f"{own}sasl.oauthbearer.expected.audience": "a,b",
        "sasl.oauthbearer.expected.issuer": "https://here",
        f"{own}oauthbearer.sasl.oauthbearer.sub.claim.name": "email",
    }
    config = BrokerConfig({name: str(value) for name, value in settings(1, **given).items()})
    found = of_listener(config, config.listeners[1])
    assert found is not None
    assert found.tokens == Rules(url, issuer="https://here", audience=("a", "b"), user_claim="email")


# --- clients ---


@pytest.fixture
def checked(brokers: Brokers, tmp_path: Path) -> tuple[Broker, int]:
    """A broker that looks at signatures, and its port."""
    port = free_port()
    url = Loaded(key_set("1"), tmp_path).url
    broker = started(brokers, settings(port, **{HANDLER: "", URL: url, "connections.max.reauth.ms": 2000}))
    eventually("it has the keys", lambda: "tokens may be signed by 2 keys" in broker.log.read_text())
    return broker, port


def rdkafka(port: int, token: Callable[[], str]) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token(), time.time() + 600),
    }


def test_librdkafka(checked: tuple[Broker, int]) -> None:
    """It shows its token again before its session ends."""
    broker, port = checked
    producer = confluent_kafka.Producer(rdkafka(port, signed))
    failed: list[object] = []
    began = time.monotonic()
    while time.monotonic() - began < 5:
        for value in VALUES:
            producer.produce("of-tokens", value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(PATIENCE_S) == 0
    assert failed == []
    assert "after the end of the session" not in broker.log.read_text()
    errors: list[confluent_kafka.KafkaError] = []
    wrong = AdminClient({**rdkafka(port, unsigned), "error_cb": errors.append})
    eventually("it is refused", lambda: (wrong.poll(0.1), errors)[1] != [], facts=broker.log.read_text)
    assert "authentication by OAUTHBEARER failed: no key None for 'none' among those of file:" in broker.log.read_text()


@pytest.mark.java
@pytest.mark.judge
def test_java(checked: tuple[Broker, int], tmp_path: Path) -> None:
    _, port = checked
    token = tmp_path / "token"
    token.write_text(signed())
    file = tmp_path / "client.properties"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={LOGIN} required clientId=a clientSecret=b;\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\nsasl.login.callback.handler.class={handler}\n"
    )
    server = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(file))
    tool("3.9.2", "topics", *server, "--create", "--topic", "java")
    listed = tool("3.9.2", "topics", *server, "--list")
    assert "java" in listed.split()


@pytest.mark.java
@pytest.mark.judge
def test_java_2_7_without_a_signature(ours: int, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    options = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope=",read,write"'
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={LOGIN} required {options};\n"
    )
    listed = tool("2.7.2", "topics", "--bootstrap-server", f"127.0.0.1:{ours}", "--command-config", str(file), "--list")
    assert "Exception" not in listed
