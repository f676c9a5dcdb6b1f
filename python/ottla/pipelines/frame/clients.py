"""Our own client, where a pipeline asks brokers itself: with what a configuration's options say of TLS and SASL."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import trio

from ottla.client import Cluster, Security
from ottla.errors import KafkaError
from ottla.pipelines.frame.config import PipelineError

T = TypeVar("T")
PREFIX = "kafka."


def ask(doing: str, bootstrap: str, options: Mapping[str, str], work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Runs `work` with a connection to brokers. `options` are Spark's; of them, those for the client count.

    doing: e.g. "cannot create the topic 'a'", for the error.

    Raises:
        PipelineError: the options are wrong, or the brokers cannot be reached or refuse.
    """
    settings = {
        name.lower().removeprefix(PREFIX): value for name, value in options.items() if name.lower().startswith(PREFIX)
    }

    async def run() -> T:
        async with Cluster(bootstrap, client_id="ottla-pipeline", security=Security.of(settings)) as cluster:
            return await work(cluster)

    try:
        return trio.run(run)
    except* (KafkaError, OSError, ValueError) as problems:
        raise PipelineError(f"{doing}: {problems.exceptions[0]}") from None
    raise AssertionError("not reached")
