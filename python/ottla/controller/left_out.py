"""Nodes of the tree that nobody understands: one of them must not keep all others from being served."""

from __future__ import annotations

import logging

from ottla.coordination.znodes import MalformedNode
from ottla.errors import InvalidTopic
from ottla.logging_setup import Repeated

logger = logging.getLogger("ottla.controller.controller")


class LeftOut:
    """Says of each such node once that it is left out, though it is read again whenever its neighbours change."""

    def __init__(self) -> None:
        self._troubles = Repeated(logger)

    def say(self, what: str, error: MalformedNode | InvalidTopic) -> None:
        self._troubles.log(logging.ERROR, (what, str(error)), "%s is left out: %s", what, error)
