"""Tells whether traffic should be sent to a broker (/readyz), from its start to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.hosts import host_of
from ottla.coordination.tree import SessionState

if TYPE_CHECKING:
    from ottla.broker.watching.rooms import WatchedRooms


#: Of the metrics listener, as settings and the audit log have it.
NAME: Final = "METRICS"


class Readiness:
    """Follows one broker. `stage` says what a broker that does not serve yet is at; None for one that serves."""

    def __init__(self) -> None:
        self.stage: str | None = "starting"
        self.broker: WatchedRooms | None = None
        self.is_stopping = False

    def at(self, stage: str) -> None:
        """The start has come so far."""
        self.stage = stage

    def serves(self, broker: WatchedRooms) -> None:
        self.broker = broker
        self.stage = None

    def refused(self, address: str, user: str | None) -> None:
        """A client of the metrics listener has not said who it is, or was not believed."""
        if self.broker is not None and self.broker.audit is not None:
            reason = "no name and password" if user is None else f"wrong name or password of {user!r}"
            self.broker.audit.authentication(
                host_of(address), NAME, "", mechanism="BASIC", user=user, reason=f"basic authentication: {reason}"
            )

    def stopping(self) -> None:
        """No more clients should come: those that are here are still answered."""
        self.is_stopping = True

    def reasons(self) -> dict[str, str]:
        """Why no traffic should come, by what is missing; empty if it may."""
        if self.is_stopping:
            return {"broker": "shutting down"}
        if self.broker is None or self.stage is not None:
            return {"broker": self.stage or "starting"}
        return _missing(self.broker)


def _missing(broker: WatchedRooms) -> dict[str, str]:
    reasons: dict[str, str] = {}
    state = broker.tree.state
    if state is not SessionState.CONNECTED:
        reasons["coordination"] = f"the session of the coordination tree is {state.value}"
    elif not broker.registration.is_current:
        reasons["coordination"] = "the broker is not registered in the coordination tree"
    if not broker.logs.directories.online:
        reasons["log directories"] = "all are out of use"
    if loading := broker.groups.loading:
        reasons["groups"] = f"{loading} partitions of __consumer_offsets are being read"
    if loading := sum(shard.loading for shard in broker.transactions.coordinator.shards.values()):
        reasons["transactions"] = f"{loading} partitions of __transaction_state are being read"
    return reasons
