"""`python -m ottla.coordination.server DIRECTORY PORT`: serves the tree in a directory until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import os
import signal
import sys

import trio

from ottla.coordination.embedded import TREE_FILE
from ottla.coordination.server.listener import HOST, Listener
from ottla.coordination.server.nodes import ServedNodes
from ottla.coordination.tree import Unavailable

logger = logging.getLogger("ottla.coordination.server")


async def run(directory: str, port: int) -> None:
    """Serves until a signal comes. Raises Unavailable, OSError."""
    path = os.path.join(directory, TREE_FILE)
    database = ServedNodes(path)
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                found = await nursery.start(Listener(database).serve, port)
                logger.warning(
                    "the coordination tree %s is at %s:%d for clients of ZooKeeper. This is for laptops and tests: one "
                    "process, nobody logs in, and everybody on this machine may change everything",
                    path,
                    HOST,
                    found,
                )
                async for _ in signals:
                    nursery.cancel_scope.cancel()
    finally:
        database.close()
    logger.info("stopped")


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if len(arguments) != 2 or not arguments[1].isdigit():
        print("usage: python -m ottla.coordination.server DIRECTORY PORT", file=sys.stderr)
        return 2
    status = 0
    try:
        trio.run(run, arguments[0], int(arguments[1]))
    except* (Unavailable, OSError) as failed:
        logger.critical("the coordination tree cannot be served: %s", _first(failed))
        status = 1
    return status


def _first(failed: BaseException) -> BaseException:
    """The first error in groups of groups."""
    return _first(failed.exceptions[0]) if isinstance(failed, BaseExceptionGroup) else failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
