"""One conversation in which a client proves who it is."""

from __future__ import annotations

from typing import Protocol


class Exchange(Protocol):
    """A mechanism's side of the broker, for one client.

    user: Who the client is, once `step` has accepted the last token; None before. ends_at_s: until when it is, in
    seconds since 1970; None: that has no end. claimed: Who the client says that it is, without a proof; None before it
    has said so.
    """

    user: str | None
    claimed: str | None
    ends_at_s: float | None

    def step(self, token: bytes) -> bytes:
        """Takes the client's next token, and returns the answer to it. Raises Refused: the conversation is over."""


class Refused(Exception):
    """A client is not who it claims to be, or does not speak the mechanism. The text is for the broker's log.

    told: The text that the client gets; None: the one that says nothing but that it failed.
    """

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told
