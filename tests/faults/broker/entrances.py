"""Bytes that strangers send to come in, and those that say who may do what: valid ones for each, and its errors."""

import base64
import json
from collections.abc import Iterator
from functools import partial

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ottla.broker import principals, scram
from ottla.broker.authentication.exchange import Refused
from ottla.broker.authentication.keys import _keys
from ottla.broker.authentication.oauthbearer import OAuthBearer
from ottla.broker.authentication.plain import Plain
from ottla.broker.authentication.scram import Scram
from ottla.broker.authentication.tokens import InvalidToken, Rules, Signed, Unsigned
from ottla.broker.authorization.nodes import decode_change, decode_entries, encode_change, encode_entries
from ottla.client import jaas
from ottla.coordination.tree import TreeError
from ottla.errors import ProtocolError
from ottla.wire.acls import Entry, Pattern, PatternType, Permission
from ottla.wire.needs import Operation, Resource
from tests.faults.broker.decoders import Decoder

#: Of no token that these tests see the end.
NEVER_S = 4_000_000_000
CLAIMS = {"sub": "alice", "exp": NEVER_S, "iat": 1, "scope": ["a", "b"]}


def entrances() -> Iterator[Decoder]:
    yield from _mechanisms()
    yield from _tokens()
    yield from _rules()
    text = 'org.apache.kafka.Module required username="a\\"b" user_a=c;'
    yield Decoder("a JAAS line", lambda data: jaas.parse(_text(data), ""), [text.encode()], (ValueError,))
    file = f"KafkaServer {{ {text} }};\nsasl.KafkaServer {{ {text} }};"
    yield Decoder("a JAAS file", lambda data: jaas.parse_file(_text(data)), [file.encode()], (ValueError,))
    attributes = [
        x509.NameAttribute(NameOID.COMMON_NAME, 'a, "b"\\'),
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
    ]
    subject = x509.Name(attributes).public_bytes()
    yield Decoder("a certificate's name", principals.written, [subject], (ProtocolError, ValueError))
    mapping = b"RULE:^CN=(.*?), OU=(.*)$/$1@$2/L,RULE:^.*$/x/U,DEFAULT"
    yield Decoder("rules for names", lambda data: principals.rules(_text(data)), [mapping], (ValueError,))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _mechanisms() -> Iterator[Decoder]:
    kind = scram.Mechanism(1)
    stored = scram.credential(kind, b"salt", b"s" * 32, 4096)
    (credential,) = scram.credentials_of({kind.setting: stored}).values()
    passwords = {"alice": "p"}
    yield Decoder("PLAIN", lambda data: Plain(passwords).step(data), [b"\0alice\0p", b"alice\0alice\0p"], (Refused,))
    first = b"n,a=alice,n=alice,r=nonce,tokenauth=true"

    def last(data: bytes) -> None:
        exchange = Scram(kind, lambda user: credential)
        nonce = exchange.step(first).partition(b",")[0].removeprefix(b"r=")
        try:
            exchange.step(data.replace(b"NONCE", nonce))
        except Refused as refused:
            if "wrong password" not in str(refused):
                raise

    proof = base64.b64encode(bytes(32))
    channel = base64.b64encode(b"n,a=alice,")
    yield Decoder("SCRAM, first", lambda data: Scram(kind, lambda user: credential).step(data), [first], (Refused,))
    yield Decoder("SCRAM, last", last, [b"c=%s,r=NONCE,p=%s" % (channel, proof)], (Refused,))
    yield Decoder(
        "a credential",
        lambda data: scram.credentials_of({kind.setting: _text(data)}),
        [stored.encode()],
        (ValueError,),
    )


class _Known:
    """One key, whatever a token calls it."""

    def __init__(self, key: jwt.PyJWK) -> None:
        self._key = key

    def find(self, name: object, algorithm: object) -> jwt.PyJWK:
        return self._key


def _tokens() -> Iterator[Decoder]:
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    signed = jwt.encode(CLAIMS, key, "ES256", headers={"kid": "one"})
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, CLAIMS))
    unsigned = b".".join((*parts, b"")).decode()
    rules = Rules(None)
    validators = {"signed": (Signed(rules, _Known(jwt.PyJWK(public))), signed), "unsigned": (Unsigned(rules), unsigned)}
    for name, (validator, token) in validators.items():
        validate = validator.validate
        yield Decoder(f"a {name} token", lambda data, of=validate: of(_text(data)), [token.encode()], (InvalidToken,))
        message = b"n,a=alice,\1auth=Bearer %s\1more=x\1\1" % token.encode()
        step = lambda data, of=validator: OAuthBearer(of).step(data)  # noqa: E731
        yield Decoder(f"OAUTHBEARER, {name}", step, [message], (Refused,))
    keys = json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}, {"kty": "oct", "k": "YQ"}]})
    yield Decoder("a set of keys", _keys, [keys.encode()], (ValueError,))


def _rules() -> Iterator[Decoder]:
    entries = [
        Entry("User:alice", "*", Operation.READ, Permission.ALLOW),
        Entry("User:*", "10.0.0.1", Operation.ALL, Permission.DENY),
    ]
    errors = (TreeError, ProtocolError)
    yield Decoder("access rules in the tree", partial(decode_entries, "/p"), [encode_entries(entries)], errors)
    for kind in (PatternType.LITERAL, PatternType.PREFIXED):
        sample = encode_change(Pattern(Resource.TOPIC, "a:b", kind))
        yield Decoder(f"a change of {kind.name} rules", partial(decode_change, "/p", kind=kind), [sample], errors)
