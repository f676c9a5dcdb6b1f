"""The keys that sign tokens: a JSON Web Key Set (RFC 7517) in a file or at a URL, read again and again.

It is read when a listener opens, then every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names a key
that is not there: authorization servers change their keys. What cannot be read is one line in the log, and the keys of
before go on. A token that comes before the first keys are there is refused; its client tries again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from ottla.broker.authentication.tokens import ALGORITHMS, InvalidToken

if TYPE_CHECKING:
    from jwt import PyJWK

logger = logging.getLogger("ottla.broker")

SCHEMES: Final = ("file", "https", "http")
KEYS_BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 100
TIMEOUT_S: Final = 10.0
#: The time between two reads at least, whatever tokens name.
APART_S: Final = 10.0


class Keys:
    """Those of one address."""

    def __init__(self, url: str, refresh_ms: int) -> None:
        self.url = url
        self._refresh_s = refresh_ms / 1000
        self._keys: list[PyJWK] = []
        self._wanted = trio.Event()

    def find(self, name: object, algorithm: object) -> PyJWK:
        """The key by which a token says that it is signed. Raises InvalidToken, and has the keys read again soon."""
        of_algorithm = [key for key in self._keys if key.algorithm_name == algorithm]
        found = of_algorithm if name is None else [key for key in of_algorithm if key.key_id == name]
        if len(found) == 1:
            return found[0]
        self._wanted.set()
        if not self._keys:
            raise InvalidToken(f"there are no keys yet from {self.url}")
        which = "that the token names no one of" if found else f"{_shown(name)} for {_shown(algorithm)} among those"
        raise InvalidToken(f"no key {which} of {self.url}")

    async def run(self) -> None:
        """Reads the keys until cancelled."""
        told = ""
        while True:
            self._wanted = trio.Event()
            try:
                keys = await trio.to_thread.run_sync(read, self.url, abandon_on_cancel=True)
            except (OSError, ValueError) as error:
                if told != str(error):
                    told = str(error)
                    logger.error("the keys that sign tokens cannot be read from %s: %s", self.url, error)
                self._wanted.set()
            else:
                if told or {key.key_id for key in keys} != {key.key_id for key in self._keys}:
                    logger.info("tokens may be signed by %d keys of %s", len(keys), self.url)
                told, self._keys = "", keys
            await trio.sleep(min(APART_S, self._refresh_s))
            with trio.move_on_after(max(0.0, self._refresh_s - APART_S)):
                await self._wanted.wait()


def read(url: str) -> list[PyJWK]:
    """The keys there that may sign tokens. Raises OSError, ValueError."""
    import http.client
    import urllib.error
    import urllib.request

    try:
        # The scheme was looked at where the setting was.
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            content = answer.read(KEYS_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"the server answers with {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from None
    except http.client.HTTPException as error:
        raise OSError(f"the server does not speak HTTP ({type(error).__name__})") from None
    if len(content) > KEYS_BYTES_MAX:
        raise ValueError(f"more than {KEYS_BYTES_MAX} bytes")
    return _keys(content)


def _keys(content: bytes) -> list[PyJWK]:
    """The keys of a set that may sign tokens. Raises ValueError."""
    import jwt

    try:
        found = jwt.PyJWKSet.from_json(content.decode())
    except Exception as error:  # the libraries below have no common one, and a server may send anything
        raise ValueError(f"no set of JSON Web Keys ({error})") from None
    keys = [key for key in found.keys if key.algorithm_name in ALGORITHMS and key.public_key_use in (None, "sig")]
    if not keys:
        raise ValueError(f"no key for one of {', '.join(sorted(ALGORITHMS))}")
    return keys[:KEYS_MAX]


def _shown(name: object) -> str:
    return repr(name)[:100]
