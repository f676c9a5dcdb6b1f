"""Tokens of OAUTHBEARER: JSON Web Tokens (RFC 7519), signed with a key that the broker knows, or not signed at all.

`Signed` has PyJWT check signatures and claims. `Unsigned` is Kafka's validator for trying things out: everybody may
write such a token, so it is taken only where a listener's settings name it.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from jwt import PyJWK

#: Of RSA and elliptic curves. With those that share a secret, every broker could write tokens.
ALGORITHMS: Final = frozenset(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512))

#: What JSON that somebody wrote to do harm ends with: numbers that are too large, and lists in lists in lists.
_HOSTILE: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Rules:
    """The conditions that a listener has for tokens.

    keys_url: Where the keys are that sign them, a JSON Web Key Set; None: they are not signed. refresh_ms: how often
    it is read. issuer, audience: If given, who made the token, and for whom (one of several). user_claim: the claim
    that is the user's name. scopes: All of these must be in the claim `scope_claim`.
    """

    keys_url: str | None
    refresh_ms: int = 3_600_000
    issuer: str | None = None
    audience: tuple[str, ...] = ()
    skew_s: float = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()


class Token(NamedTuple):
    """A token that was accepted. ends_at_s: in seconds since 1970."""

    user: str
    ends_at_s: float


class InvalidToken(Exception):
    """A token is not accepted. The text is for the broker's log.

    status: What the client is told: `invalid_token`, or `insufficient_scope` with the scope that it lacks.
    """

    def __init__(self, reason: str, scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = "invalid_token" if scope is None else "insufficient_scope"
        self.scope = scope


class Validator(Protocol):
    def validate(self, text: str) -> Token:
        """Raises InvalidToken."""


class Known(Protocol):
    """The keys that sign tokens; `keys.Keys` are some."""

    def find(self, name: object, algorithm: object) -> PyJWK:
        """The key by which a token says that it is signed. Raises InvalidToken."""


class Signed:
    def __init__(self, rules: Rules, keys: Known) -> None:
        self._rules = rules
        self._keys = keys

    def validate(self, text: str) -> Token:
        import jwt

        rules = self._rules
        try:
            header = jwt.get_unverified_header(text)
            key = self._keys.find(header.get("kid"), header.get("alg"))
            claims = jwt.decode(
                text,
                key=key,
                algorithms=[key.algorithm_name],
                audience=rules.audience or None,
                issuer=rules.issuer,
                leeway=rules.skew_s,
                options={"require": ["exp"], "verify_aud": bool(rules.audience)},
            )
        except (jwt.PyJWTError, *_HOSTILE) as error:
            raise InvalidToken(str(error) or type(error).__name__) from None
        return _accepted(claims, rules)


class Unsigned:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def validate(self, text: str) -> Token:
        parts = text.split(".")
        if len(parts) != 3 or parts[2]:
            raise InvalidToken("no token without a signature: it is not HEADER.CLAIMS.")
        header, claims = (_object(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise InvalidToken("it names an algorithm, and tokens without a signature are expected")
        now, skew_s = time.time(), self._rules.skew_s
        ends_at_s = _number(claims, "exp")
        if ends_at_s is None:
            raise InvalidToken("it has no claim exp")
        if now - skew_s >= ends_at_s:
            raise InvalidToken("it has expired")
        issued_at_s, begins_at_s = _number(claims, "iat"), _number(claims, "nbf")
        for at_s in (issued_at_s, begins_at_s):
            if at_s is not None and at_s >= ends_at_s:
                raise InvalidToken("it expires before it begins")
        if issued_at_s is not None and issued_at_s > now + skew_s:
            raise InvalidToken("it was issued in the future")
        if None not in (issued_at_s, begins_at_s) and begins_at_s < issued_at_s:  # type: ignore[operator]
            raise InvalidToken("it begins before it was issued")
        return _accepted(claims, self._rules)


def _accepted(claims: Mapping[str, Any], rules: Rules) -> Token:
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken(f"its claim {rules.user_claim} is not the name of a user")
    found = claims.get(rules.scope_claim) or []
    # As in Kafka, a text is one scope, whatever blanks it has.
    scopes = [found.strip()] if isinstance(found, str) else found
    if missing := [scope for scope in rules.scopes if not isinstance(scopes, list) or scope not in scopes]:
        raise InvalidToken(f"it lacks the scope {' '.join(missing)}", f"[{', '.join(rules.scopes)}]")
    ends_at_s = _number(claims, "exp")
    if ends_at_s is None:
        raise InvalidToken("it has no claim exp")
    return Token(user, ends_at_s)


def _object(part: str) -> Mapping[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except _HOSTILE:
        raise InvalidToken("its parts are not JSON in base64") from None
    if not isinstance(found, dict):
        raise InvalidToken("its parts are not objects of JSON")
    return found


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InvalidToken(f"its claim {name} is no number")
    try:
        number = float(found)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidToken(f"its claim {name} is no moment")
    return number
