"""The lives of sessions: begun, resumed by another connection, and over when nothing was heard for their timeout.

Takes times, in seconds of any clock, and returns values; no clock, no I/O.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla.coordination.server.frames import PASSWORD_BYTES

TIMEOUT_MS_MIN: Final = 4_000
TIMEOUT_MS_MAX: Final = 40_000
"""Both as of a ZooKeeper with its usual `tickTime` of 2 s: two ticks, and twenty."""
SESSIONS_MAX: Final = 10_000
"""Some 300 bytes each, also for those whose clients are gone, until their timeouts."""

C = TypeVar("C")


@dataclass(slots=True, eq=False)
class Session(Generic[C]):
    """One session. `client` is the connection that has it now; None while it has none."""

    id: int
    password: bytes
    timeout_ms: int
    ends_at: float
    client: C | None

    def heard(self, now: float) -> None:
        """Its client has spoken: the timeout begins anew."""
        self.ends_at = now + self.timeout_ms / 1000


class Sessions(Generic[C]):
    """All that live."""

    def __init__(self) -> None:
        self._by_id: dict[int, Session[C]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def is_full(self) -> bool:
        return len(self._by_id) >= SESSIONS_MAX

    def begin(self, session_id: int, timeout_ms: int, client: C, now: float) -> Session[C]:
        """A new session with an id that was never given before. Its timeout is brought between the bounds."""
        session = Session(session_id, secrets.token_bytes(PASSWORD_BYTES), _bounded(timeout_ms), now, client)
        session.heard(now)
        self._by_id[session_id] = session
        return session

    def resume(
        self, session_id: int, password: bytes, timeout_ms: int, client: C, now: float
    ) -> tuple[Session[C], C | None] | None:
        """Gives a session to this client. Returns it, and the client that had it; None if there is no such session, or
        another password belongs to it.
        """
        session = self._by_id.get(session_id)
        if session is None or not hmac.compare_digest(session.password, password):
            return None
        former, session.client = session.client, client
        session.timeout_ms = _bounded(timeout_ms)
        session.heard(now)
        return session, former

    def end(self, session: Session[C]) -> None:
        self._by_id.pop(session.id, None)

    def over(self, now: float) -> list[Session[C]]:
        """The sessions whose timeouts have passed. They are not ended by this."""
        return [session for session in self._by_id.values() if session.ends_at <= now]

    def stood_still(self, seconds: float) -> None:
        """Nobody could be heard for so long: no session is over because of that."""
        for session in self._by_id.values():
            session.ends_at += seconds


def _bounded(timeout_ms: int) -> int:
    return min(max(timeout_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
