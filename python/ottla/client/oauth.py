"""Getting the tokens with which a client comes in by OAUTHBEARER.

One of an authorization server is kept for four fifths of its life, for all connections of the process, and then another
one is taken. A file is read for each login.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from ottla.client.errors import ConnectionLost
from ottla.client.security import Security
from ottla.client.tokens import URL, TokenSource
from ottla.errors import SaslAuthenticationFailed

TOKEN_BYTES_MAX: Final = 64 << 10
TIMEOUT_S: Final = 10.0
#: After which part of its life a token is not used for another login, as Java's client does.
USED: Final = 0.8
_TOKEN: Final = re.compile(r"[-_.~+/a-zA-Z0-9]+=*", re.ASCII)
_lock: Final = threading.Lock()
#: Each token, and until when it is used, by `time.monotonic`.
_kept: Final[dict[TokenSource, tuple[str, float]]] = {}


def token(source: TokenSource, place: str) -> str:
    """A token for a login at `place`. It may take seconds, which are spent waiting.

    Raises:
        SaslAuthenticationFailed: there is none, and trying again does not help. ConnectionLost: it may.
    """
    if source.claims:
        return _made(source)
    if source.url.startswith("file:"):
        return _checked(_of_file(source.url, place), source, place)
    with _lock:
        text, until = _kept.get(source, ("", 0.0))
        if time.monotonic() < until:
            return text
    # Outside of the lock: an authorization server that is slow holds up nobody who asks another one.
    answer = _asked(source, place)
    text = _checked(answer.get("access_token"), source, place)
    with _lock:
        _kept[source] = text, time.monotonic() + USED * _life_s(text, answer)
    return text


def forget(source: TokenSource, text: str) -> None:
    """A broker does not accept this token: it is not used again."""
    with _lock:
        if _kept.get(source, ("", 0.0))[0] == text:
            del _kept[source]


def _made(source: TokenSource) -> str:
    now = time.time()
    claims = {**json.loads(source.claims), "iat": now, "exp": now + source.lifetime_s}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def _of_file(url: str, place: str) -> str:
    path = unquote(urlsplit(url).path)
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        raise SaslAuthenticationFailed(f"{place}: {URL}: {path} cannot be read: {error.strerror}") from None


def _checked(text: object, source: TokenSource, place: str) -> str:
    if isinstance(text, str) and len(text) <= TOKEN_BYTES_MAX and _TOKEN.fullmatch(text):
        return text
    raise SaslAuthenticationFailed(f"{place}: {source.url} has no token (RFC 6750) of {TOKEN_BYTES_MAX} bytes at most")


def _asked(source: TokenSource, place: str) -> dict[str, Any]:
    """The answer of the authorization server."""
    import http.client
    import urllib.error
    import urllib.request

    asked = {"grant_type": "client_credentials"} | ({"scope": source.scope} if source.scope else {})
    request = urllib.request.Request(
        source.url,
        urlencode(asked).encode(),
        {
            "Accept": "application/json",
            "Authorization": f"Basic {_basic(source)}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    where = f"{place}: no token from {source.url}"
    try:
        with _opener(source).open(request, timeout=TIMEOUT_S) as answer:
            content = answer.read(2 * TOKEN_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(300).decode(errors="replace")
        # Busy servers come back; who is not let in, or asks for something that is not there, is not helped by waiting.
        kind = ConnectionLost if error.code >= 500 or error.code in (408, 429) else SaslAuthenticationFailed
        raise kind(f"{where}: the server answers with {error.code} {error.reason}: {said}") from None
    except urllib.error.URLError as error:
        raise ConnectionLost(f"{where}: {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionLost(f"{where}: {error or type(error).__name__}") from None
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SaslAuthenticationFailed(f"{where}: the answer is no JSON object")
    return found


def _basic(source: TokenSource) -> str:
    both = (source.client_id, source.client_secret)
    return base64.b64encode(":".join(map(quote_plus, both) if source.encodes else both).encode()).decode()


def _opener(source: TokenSource) -> Any:
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """The secret goes to nobody else."""

        def redirect_request(self, *_: Any) -> None:
            return None

    handlers: list[Any] = [NoRedirect()]
    if source.tls:
        from ottla.client.tls import context

        security = Security.of({"security.protocol": "SSL", **dict(source.tls)})
        assert security is not None
        handlers.append(urllib.request.HTTPSHandler(context=context(security)))
    return urllib.request.build_opener(*handlers)


def _life_s(text: str, answer: Mapping[str, Any]) -> float:
    """How long a token is good for: by its own claims, or by what came with it; 0 if neither says so."""
    part = text.split(".")[1] if text.count(".") == 2 else ""
    try:
        ends_at_s = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["exp"]
        return max(0.0, float(ends_at_s) - time.time())
    except (ValueError, KeyError, TypeError, binascii.Error):
        pass
    lasts_s = answer.get("expires_in")
    return float(lasts_s) if isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool) else 0.0
