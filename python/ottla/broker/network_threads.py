"""How many threads serve connections (`num.network.threads`).

One is the loop's thread, which serves alone. Several are threads of Rust beside the loop, which then serves what they
hand on (`docs/internals/network.md`). No more run than there are processors for this process.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from ottla._core import processors
from ottla.errors import InvalidConfig

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.net import Server

SETTING: Final = "num.network.threads"
#: Has so many threads serve beside the loop, whatever the setting and the processors are, for tests.
VARIABLE: Final = "OTTLA_NETWORK_THREADS"
#: Where the setting is not set, as long as one processor is left to the loop.
BY_DEFAULT: Final = 3

log = logging.getLogger(__name__)


def chosen() -> int | None:
    """The number of threads beside the loop that the environment variable says. Raises InvalidConfig."""
    if (text := os.environ.get(VARIABLE)) is None:
        return None
    if not text.isdecimal():
        raise InvalidConfig(f"the environment variable {VARIABLE} is {text!r}: it may be a number, 0 or more")
    return int(text)


def most() -> int:
    """How many threads can be asked for beside the loop. Raises InvalidConfig."""
    return max(processors(), chosen() or 0)


def wanted(config: BrokerConfig, processors: int) -> int:
    """How many threads are to serve beside the loop on so many processors; 0: the loop serves."""
    if (threads := chosen()) is not None:
        return threads
    count = config.get_int(SETTING) if config.is_set(SETTING) else min(BY_DEFAULT, processors - 1)
    count = max(1, min(count, processors))
    return 0 if count == 1 else count


def serve(server: Server, config: BrokerConfig) -> None:
    """Has the threads serve that are set, now if the server runs, else when it begins."""
    count = processors()
    if chosen() is None and config.is_set(SETTING) and (asked := config.get_int(SETTING)) > count:
        log.info("%s is %d, and %d processors may be used: as many threads serve", SETTING, asked, count)
    server.serve_by(wanted(config, count))
