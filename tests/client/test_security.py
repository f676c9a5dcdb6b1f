"""Settings of the Java client for TLS and SASL: what they mean, what is refused, and that nothing prints a password."""

import base64
import pickle
from dataclasses import replace

import pytest

from ottla.client import Security
from ottla.client.jaas import credentials
from ottla.client.sasl import authentication, renewal_s, scram_final
from ottla.errors import SaslAuthenticationFailed
from ottla.wire.k17_sasl_handshake import SaslHandshakeResponse
from ottla.wire.k36_sasl_authenticate import SaslAuthenticateResponse

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="alice" password="secret";',
}
TLS = {"security.protocol": "SSL"}


def test_plain_text_needs_nothing() -> None:
    assert Security.of({}) is None
    assert Security.of({"security.protocol": " plaintext ", "ssl.engine.factory.class": "com.example.Factory"}) is None


def test_what_java_alone_has_is_accepted_without_effect() -> None:
    tuned = {
        "ssl.provider": "SunJSSE",
        "ssl.keymanager.algorithm": "SunX509",
        "ssl.secure.random.implementation": "SHA1PRNG",
        "sasl.kerberos.service.name": "kafka",
        "sasl.login.refresh.window.factor": "0.8",
        "ssl.engine.factory.class": "",
        "ssl.client.auth": "required",
        "acks": "all",
    }
    assert Security.of({**SASL, **tuned}) == Security.of(SASL)


def test_passwords_travel_but_are_not_printed() -> None:
    secrets = {
        "ssl.truststore.location": "/t",
        "ssl.truststore.password": "secret 1",
        "ssl.keystore.location": "/k",
        "ssl.keystore.password": "secret 2",
        "ssl.key.password": "secret 3",
    }
    security = Security.of({**SASL, **secrets})
    assert security is not None
    assert pickle.loads(pickle.dumps(security)) == security
    assert security.key_password == "secret 3"
    assert "secret" not in repr(security)
    assert "secret" not in repr(replace(security, keystore_location=None, keystore_key="secret"))


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.protocol": "TLS", "ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3", "TLSv1.3")),
        ({"ssl.enabled.protocols": " TLSv1.2 , TLSv1.1,TLSv1"}, ("TLSv1", "TLSv1.2")),
    ],
)
def test_versions(settings: dict[str, str], versions: tuple[str, str]) -> None:
    security = Security.of({**TLS, **settings})
    assert security is not None
    assert security.tls_versions == versions


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "SASL"}, "security.protocol is 'SASL'; it is one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({**TLS, "ssl.trustore.location": "/t"}, "unknown setting 'ssl.trustore.location'; did you mean 'ssl.trusts"),
        ({**SASL, "sasl.mechanisms": "PLAIN"}, "unknown setting 'sasl.mechanisms'; did you mean 'sasl.mechanism'"),
        ({**TLS, "ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class is not supported: it names a Java cl"),
        ({**SASL, "sasl.login.class": "a.B"}, "sasl.login.class is not supported: .* sasl.jaas.config"),
        ({**SASL, "sasl.client.callback.handler.class": "a.B"}, "sasl.client.callback.handler.class is not supported"),
        ({**TLS, "ssl.truststore.type": "BKS"}, "ssl.truststore.type is 'BKS'; here it is one of JKS, PKCS12, PEM"),
        ({**TLS, "ssl.truststore.password": "p"}, "ssl.truststore.password needs ssl.truststore.location"),
        ({**TLS, "ssl.keystore.key": "p"}, "ssl.keystore.key needs ssl.keystore.certificate.chain"),
        (
            {**TLS, "ssl.truststore.location": "/t", "ssl.truststore.certificates": "c"},
            "ssl.truststore.location and ssl.truststore.certificates are two answers",
        ),
        (
            {**TLS, "ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm is 'ldaps'; it is https, or empty",
        ),
        ({**TLS, "ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols has 'SSLv3'"),
        ({**TLS, "ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}, "leaves out a version in between"),
        ({**TLS, "ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "is lower than all of"),
        ({"security.protocol": "SASL_PLAINTEXT"}, r"sasl.mechanism is missing, which means GSSAPI \(Kerberos\); here"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is 'GSSAPI'; here it is one of PLAIN, SCRAM"),
        ({**SASL, "sasl.jaas.config": ""}, "sasl.jaas.config is missing"),
        ({**SASL, "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config has the login module .*PlainLoginModule; "),
    ],
)
def test_refusals(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Security.of(settings)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "user", "password"),
    [
        ('username="alice" password="se cret";', "alice", "se cret"),
        ("username=alice\n  password=se-cret_1.$x ;", "alice", "se-cret_1.$x"),
        ("password = 'it is \"quoted\"' username = alice; ", "alice", 'it is "quoted"'),
        (r'username="a\\b" password="\"\'\t\101\7\q";', "a\\b", "\"'\tA\aq"),
        ('username="a;b" /* password="no" */ password="a=b" // the end\n;', "a;b", "a=b"),
        ('serviceName="kafka" username="ü" password="½";', "ü", "½"),
    ],
)
def test_login(options: str, user: str, password: str) -> None:
    assert credentials(f"{PLAIN} required {options}", "PLAIN") == (user, password)
    assert credentials(f"{SCRAM} Optional {options}", "SCRAM-SHA-512") == (user, password)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{PLAIN} required username="a" password="b"', "does not end with a semicolon"),
        (f'{PLAIN} required username="a" password="b', "password"),
        (
            f"{PLAIN} required username=a password=1secret;",
            "the value of 'password' must be a word, or stand in quotes",
        ),
        (f'{PLAIN} required username="a";', "has no password"),
        (f'{PLAIN} required username="" password="secret";', "has no username"),
        (f'{PLAIN} username="a" password="secret";', "does not begin with a login module and 'required'"),
        (f"{PLAIN} required username password;", "an option must be a word"),
        (f'{PLAIN} required username="a" password="b"; {PLAIN} required;', "more than one login module"),
        (f'{PLAIN} required tokenauth="true" username="a" password="b";', r"delegation tokens \(tokenauth\)"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "has the login module com.sun.security"),
        (";", "does not begin with"),
    ],
)
def test_login_that_is_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        credentials(text, "PLAIN")
    assert "secret" not in str(caught.value)


def test_sessions_are_renewed_before_they_end() -> None:
    assert renewal_s(0) is None
    times = [renewal_s(100_000) for _ in range(100)]
    assert all(each is not None and 85 <= each <= 95 for each in times)
    assert len(set(times)) > 1


def test_scram_by_its_rfc() -> None:
    """The example of RFC 7677."""
    nonce = "rOprNGfwEbeRWgbNEkqO"
    answer = f"r={nonce}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final, signature = scram_final("sha256", b"pencil", nonce, f"n=user,r={nonce}", answer, "here")
    assert final.endswith(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "answer",
    [
        "e=other-error",
        "r=other,s=AAAA,i=4096",
        "r=nonce,s=AAAA,i=4096",
        "r=nonce1,s=AAAA,i=4095",
        "r=nonce1,s=AAAA,i=10000001",
        "r=nonce1,s=AAAA,i=" + 10_000 * "1",
        "r=nonce1,s=?,i=4096",
        "m=x,r=nonce1,s=AAAA,i=4096",
        "",
    ],
)
def test_scram_with_a_broker_that_does_not_keep_to_it(answer: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match="here: ") as caught:
        scram_final("sha256", b"pencil", "nonce", "n=user,r=nonce", answer, "here")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_broker_that_does_not_know_the_password(mechanism: str) -> None:
    """It may let everybody in; it cannot sign."""
    config = f'{SCRAM} required username="a,b=c" password="secret";'
    security = Security.of({"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": config})
    assert security is not None
    conversation = authentication(security, "host:9092")
    assert next(conversation)[1].mechanism == mechanism
    first = conversation.send(SaslHandshakeResponse())[1].auth_bytes.decode()
    assert first.startswith("n,,n=a=2Cb=3Dc,r=")
    answer = f"r={first.partition(',r=')[2]}x,s=AAAA,i=4096".encode()
    conversation.send(SaslAuthenticateResponse(auth_bytes=answer))
    with pytest.raises(SaslAuthenticationFailed, match="the broker does not know the password"):
        conversation.send(SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(bytes(32))))


@pytest.mark.parametrize(
    "name", ["securty.protocol", "security.protocl", "ssl.trustore.location", "security.protokoll"]
)
@pytest.mark.parametrize("protocol", [{}, {"security.protocol": "PLAINTEXT"}])
def test_misspelled_names_are_refused_without_a_protocol_too(name: str, protocol: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"unknown setting '{name}'"):
        Security.of({name: "SSL", **protocol})


def test_names_of_brokers_and_of_other_clients_pass() -> None:
    others = ("zookeeper.ssl.endpoint.identification.algorithm", "ssl.provider", "sasl.login.class", "client.id")
    assert Security.of(dict.fromkeys(others, "x")) is None
