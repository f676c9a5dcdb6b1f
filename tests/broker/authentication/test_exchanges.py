"""The mechanisms as conversations of values."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import pytest

from ottla.broker import scram as stored
from ottla.broker.authentication import scram
from ottla.broker.authentication.exchange import Refused
from ottla.broker.authentication.plain import Plain
from ottla.broker.authentication.scram import Decoys, Scram
from ottla.broker.scram import Credential, Mechanism
from ottla.client.sasl import scram_final

KIND = Mechanism.SCRAM_SHA_256
NONCE = "rOprNGfwEbeRWgbNEkqO"
MORE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def credential(password: str, kind: Mechanism = KIND, iterations: int = 4096) -> Credential:
    salted = hashlib.pbkdf2_hmac(kind.digest, password.encode(), SALT, iterations)
    text = stored.credential(kind, SALT, salted, iterations)
    return stored.credentials_of({kind.setting: text})[kind]


def test_scram_as_the_rfc_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 7677, 3."""
    monkeypatch.setattr(scram.secrets, "token_urlsafe", lambda _: MORE)
    exchange = Scram(KIND, lambda user: {"user": credential("pencil")}[user])
    first = exchange.step(f"n,,n=user,r={NONCE}".encode())
    assert first == f"r={NONCE}{MORE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert exchange.user is None
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    last = exchange.step(f"c=biws,r={NONCE}{MORE},p={proof}".encode())
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@pytest.mark.parametrize("kind", Mechanism)
@pytest.mark.parametrize("name", ["a", "a,b=c", "½", "=2C"])
def test_names_and_headers(kind: Mechanism, name: str) -> None:
    """The client may name whom it wants to be, if that is itself."""
    written = name.replace("=", "=3D").replace(",", "=2C")
    for header in ("n,,", f"n,a={written},", "y,,"):
        exchange = Scram(kind, lambda user: {name: credential("p", kind)}[user])
        bare = f"n={written},r={NONCE},ext=1"
        answer = exchange.step(f"{header}{bare}".encode()).decode()
        assert finished(exchange, kind, "p", bare, answer, header).startswith(b"v=")
        assert exchange.user == name


def test_a_client_that_has_its_nonce_twice() -> None:
    """librdkafka before 2.6.1."""
    exchange = Scram(KIND, lambda user: {"user": credential("p")}[user])
    bare = f"n=user,r={NONCE}"
    answer = exchange.step(f"n,,{bare}".encode()).decode()
    assert finished(exchange, KIND, "p", bare, answer, before=NONCE).startswith(b"v=")
    assert exchange.user == "user"


def finished(
    exchange: Scram, kind: Mechanism, password: str, bare: str, answer: str, header: str = "n,,", before: str = ""
) -> bytes:
    channel = base64.b64encode(header.encode()).decode()
    nonce = before + answer.partition(",")[0].removeprefix("r=")
    both = f"c={channel},r={nonce}"
    salted = hashlib.pbkdf2_hmac(kind.digest, password.encode(), SALT, 4096)
    client_key = scram.hmac.digest(salted, b"Client Key", kind.digest)
    signature = scram.hmac.digest(
        hashlib.new(kind.digest, client_key).digest(), f"{bare},{answer},{both}".encode(), kind.digest
    )
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return exchange.step(f"{both},p={base64.b64encode(proof).decode()}".encode())


BEGUN = f"n,,n=user,r={NONCE}"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (["p=tls-unique,,n=user,r=x"], "the first message is not SCRAM's"),
        (["n,,n=user"], "the first message is not SCRAM's"),
        (["n,,n=,r=x"], "the first message is not SCRAM's"),
        (["n,,n=us=er,r=x"], "the first message is not SCRAM's"),
        (["n,,m=x,n=user,r=x"], "the first message is not SCRAM's"),
        (["n,,n=user,r=x\0y"], "the first message is not SCRAM's"),
        (["n,,n=user,r=ü"], "the first message is not SCRAM's"),
        (["n,a=other,n=user,r=x"], "Authentication failed: Client requested an authorization id"),
        (["n,,n=weak,r=x"], "the credential of 'weak' has 100 iterations"),
        ([BEGUN, "c=biws,r=other,p=QUFBQQ=="], "the last message does not belong to the first"),
        ([BEGUN, f"c=biws,r={MORE},p=QUFBQQ=="], "the last message does not belong to the first"),
        ([BEGUN, f"c=biws,r={NONCE}{MORE}x,p=QUFBQQ=="], "the last message does not belong to the first"),
        ([BEGUN, f"c=eSws,r={NONCE}{MORE},p=QUFBQQ=="], "the last message does not belong to the first"),
        ([BEGUN, f"c=biws,r={NONCE}{MORE},p=QUFBQQ="], "the proof is not in base64"),
        ([BEGUN, f"c=biws,r={NONCE}{MORE},p=QUFBQQ=="], "the proof has not the length of the hash"),
        ([BEGUN, f"c=biws,r={NONCE}{MORE},p={'A' * 43}="], "no such user, or wrong password of 'user'"),
        ([BEGUN, ""], "the last message does not belong to the first"),
    ],
)
def test_messages_of_scram_that_are_wrong(monkeypatch: pytest.MonkeyPatch, messages: list[str], reason: str) -> None:
    monkeypatch.setattr(scram.secrets, "token_urlsafe", lambda _: MORE)
    known = {"user": credential("pencil"), "weak": credential("pencil", iterations=100)}
    exchange = Scram(KIND, lambda user: known[user])
    for message in messages[:-1]:
        exchange.step(message.encode())
    with pytest.raises(Refused, match=reason):
        exchange.step(messages[-1].encode())
    assert exchange.user is None


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(Refused, match="no text"):
        Scram(KIND, lambda user: credential("pencil")).step(b"\xff")


def test_a_decoy_looks_as_a_credential_and_lets_nobody_in() -> None:
    decoys = Decoys(None)
    salts = {user: decoys.credential(KIND, user, 4096).salt for user in ("a", "b")}
    assert salts["a"] != salts["b"]
    assert decoys.credential(KIND, "a", 4096).salt == salts["a"], "a user's salt is always the same"
    assert decoys.credential(Mechanism.SCRAM_SHA_512, "a", 4096).salt != salts["a"]
    assert Decoys("shared").credential(KIND, "a", 1).salt == Decoys("shared").credential(KIND, "a", 2).salt
    assert Decoys(None).credential(KIND, "a", 1).salt != salts["a"], "and nobody else can make it"
    one = decoys.credential(KIND, "a", 4096)
    assert (len(one.stored_key), len(one.server_key)) == (32, 32)
    assert 20 <= len(one.salt) <= 26
    final, _ = scram_final("sha256", b"", "n", "n=a,r=n", f"r=nm,s={base64.b64encode(one.salt).decode()},i=4096", "")
    exchange = Scram(KIND, lambda user: one)
    exchange.step(b"n,,n=a,r=n")
    with pytest.raises(Refused):
        exchange.step(final.encode())


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("\0alice\0secret\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("\0\0secret", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (
            "bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_tokens_of_plain_that_are_wrong(token: str, told: str) -> None:
    exchange = Plain({"alice": "secret", "bob": "other"})
    with pytest.raises(Refused) as refused:
        exchange.step(token.encode())
    assert refused.value.told == told
    assert exchange.user is None


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain(token: bytes) -> None:
    exchange = Plain({"alice": "secret"})
    assert (exchange.step(token), exchange.user) == (b"", "alice")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("salt=", "sold="),
        lambda text: text.replace("iterations=4096", "iterations=many"),
        lambda text: text.replace("stored_key=", "stored_key=A"),
        lambda text: text.replace("stored_key=", "stored_key=AAAA"),
        lambda text: "",
    ],
)
def test_what_is_no_credential(change: Callable[[str], str]) -> None:
    salted = hashlib.pbkdf2_hmac(KIND.digest, b"p", SALT, 4096)
    text = stored.credential(KIND, SALT, salted, 4096)
    with pytest.raises(ValueError, match="no credential: SCRAM-SHA-256"):
        stored.credentials_of({KIND.setting: change(text)})
