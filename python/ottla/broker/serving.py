"""The parts that all calls of one broker share: the hub that answers them, the memory that they take, the quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from ottla.broker.request_memory import RequestMemory

if TYPE_CHECKING:
    from ottla.broker.audit.audit import Audit
    from ottla.broker.authorization.authorizer import Authorizer
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.config import BrokerConfig
    from ottla.net import Server

#: Answers whose rows are made at a time.
LARGE_ANSWERS_AT_ONCE: Final = 4


class Serving:
    """nursery: Where the tasks of calls run.

    users: The names of the clients that said who they are, by connection.

    is_measured: True if the errors of answers are counted, for the metrics.
    """

    __slots__ = (
        "_config",
        "audit",
        "authorizer",
        "is_measured",
        "large_answers",
        "nursery",
        "quotas",
        "request_memory",
        "server",
        "users",
    )

    def __init__(
        self, server: Server, nursery: trio.Nursery, config: Callable[[], BrokerConfig], *, is_measured: bool = False
    ) -> None:
        self.server: Final = server
        self.users: Final[dict[int, str]] = {}
        self.nursery: Final = nursery
        self.is_measured: Final = is_measured
        self.request_memory: Final = RequestMemory(config().queued_bytes_max)
        #: Large answers are made a few at a time.
        self.large_answers: Final = trio.CapacityLimiter(LARGE_ANSWERS_AT_ONCE)
        #: The quotas of clients while there is any, else None: then nothing is measured.
        self.quotas: ClientQuotas | None = None
        #: Takes down who was let in and who was not; None if nobody wants to know.
        self.audit: Audit | None = None
        #: Says who may do what; None if everybody may do everything.
        self.authorizer: Authorizer | None = None
        self._config = config

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        return self._config()

    def note_errors(self, key: int, codes: list[int]) -> None:
        """Counts the error codes of an answer, for the metrics of this broker."""
        if codes and self.is_measured:
            self.server.hub.note_errors(key, codes)
