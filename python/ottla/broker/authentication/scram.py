"""SCRAM: the client proves that it knows the password, and the broker that it knows what is stored of it (RFC 5802).

| who    | message                                             |
|--------|-----------------------------------------------------|
| client | `n,,n=USER,r=NONCE`                                 |
| broker | `r=NONCE+MORE,s=SALT,i=ITERATIONS`                  |
| client | `c=biws,r=NONCE+MORE,p=PROOF`                       |
| broker | `v=SIGNATURE`, or a refusal                         |

A user without a credential gets the same messages, with a salt that is made up (`Decoys`), and is refused where a wrong
password is: who asks does not learn which users there are. (Kafka refuses such a user at the first message.)

Kafka does not prepare names and passwords (SASLprep). The nonce and the header of the last message are compared, as
the RFC demands.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from ottla.broker.authentication.exchange import Refused
from ottla.broker.scram import Credential, Mechanism
from ottla.kafka import SCRAM_ITERATIONS_MIN

NONCE_BYTES: Final = 24
_NAME = r"(?:[^=,\x00]|=2C|=3D)+"
_REST = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[!-+\--~]+){_REST})"
)
_FINAL = re.compile(
    rf"(?P<bare>c=(?P<channel>[a-zA-Z0-9/+=]*),r=(?P<nonce>[!-+\--~]+){_REST}),p=(?P<proof>[a-zA-Z0-9/+=]+)"
)
_FAILED: Final = "Authentication failed: "


class Scram:
    """find: Returns the credential of a user; of one that has none, a decoy, which no proof fits."""

    def __init__(self, kind: Mechanism, find: Callable[[str], Credential]) -> None:
        self.user: str | None = None
        self.claimed: str | None = None
        self.ends_at_s: float | None = None
        self._kind = kind
        self._find = find
        self._first: _First | None = None

    def step(self, token: bytes) -> bytes:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise Refused("a message that is no text") from None
        if self._first is None:
            self._first = self._begin(text)
            return self._first.answer.encode()
        first, self._first = self._first, None
        return self._end(first, text).encode()

    def _begin(self, text: str) -> _First:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise Refused("the first message is not SCRAM's")
        user = self.claimed = _decoded_name(found["name"])
        if found["authzid"] is not None and _decoded_name(found["authzid"]) != user:
            told = f"{_FAILED}Client requested an authorization id that is different from username"
            raise Refused(told, told)
        credential = self._find(user)
        if credential.iterations < SCRAM_ITERATIONS_MIN:
            raise Refused(f"the credential of '{user}' has {credential.iterations} iterations, too few to be safe")
        nonce = found["nonce"] + secrets.token_urlsafe(NONCE_BYTES)
        salt = base64.b64encode(credential.salt).decode()
        return _First(
            user, credential, found["header"], found["bare"], nonce, f"r={nonce},s={salt},i={credential.iterations}"
        )

    def _end(self, first: _First, text: str) -> str:
        found = _FINAL.fullmatch(text)
        header = base64.b64encode(first.header.encode()).decode()
        # librdkafka before 2.6.1 has its own nonce before that of both, once more. Kafka 3.8.1 looks for the end, too;
        # Kafka 2.7 does not look.
        if found is None or not found["nonce"].endswith(first.nonce) or found["channel"] != header:
            raise Refused("the last message does not belong to the first")
        digest, credential = self._kind.digest, first.credential
        said = f"{first.bare},{first.answer},{found['bare']}".encode()
        signature = hmac.digest(credential.stored_key, said, digest)
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except binascii.Error:
            raise Refused("the proof is not in base64") from None
        if len(proof) != len(signature):
            raise Refused("the proof has not the length of the hash")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        stored_key = hashlib.new(digest, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise Refused(f"no such user, or wrong password of '{first.user}'")
        self.user = first.user
        return f"v={base64.b64encode(hmac.digest(credential.server_key, said, digest)).decode()}"


class _First:
    """The first two messages: header and rest of the client's, the nonce of both, and the answer."""

    __slots__ = ("answer", "bare", "credential", "header", "nonce", "user")

    def __init__(self, user: str, credential: Credential, header: str, bare: str, nonce: str, answer: str) -> None:
        self.user = user
        self.credential = credential
        self.header = header
        self.bare = bare
        self.nonce = nonce
        self.answer = answer


def _decoded_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


class Decoys:
    """Credentials of users that have none. The same user has the same salt each time, as a real one has; the secret
    that it is made from is the broker's.
    """

    def __init__(self, secret: str | None) -> None:
        """secret: A text that brokers of a cluster share, so that they make the same salts; None: a new one."""
        self._secret = secrets.token_bytes(32) if secret is None else secret.encode()

    def credential(self, kind: Mechanism, user: str, iterations: int) -> Credential:
        """A credential that nobody knows the password of."""
        made = hmac.digest(self._secret, f"decoy of {kind.setting}: {user}".encode(), "sha512")
        return Credential(
            _salt(made), secrets.token_bytes(kind.digest_bytes), secrets.token_bytes(kind.digest_bytes), iterations
        )


def _salt(made: bytes) -> bytes:
    """A salt that looks as those that Kafka's tools make: a number of 130 bits in base 36."""
    number, digits = int.from_bytes(made) % (1 << 130), ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.encode()
