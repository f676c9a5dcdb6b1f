"""What a mirror tells Prometheus of the flows that it runs, and whether they run.

An instance tells of the partitions that it copies; all instances of a flow together tell of all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from ottla.config import ConfigError, parse_address
from ottla.extras import extra
from ottla.metrics.families import COUNTER, GAUGE, OURS, Family

if TYPE_CHECKING:
    from ottla.metrics.exposition import Rows
    from ottla.mirror.daemon import Mirror

SETTING: Final = "metrics.listener"
#: Where metrics are served if the setting names no host.
LOOPBACK: Final = "127.0.0.1"


def _family(name: str, kind: str, text: str, *labels: str) -> Family:
    return Family(f"ottla_mirror_{name}", kind, ("flow", *labels), text, OURS)


RUNNING: Final = _family("running", GAUGE, "1 while the flow copies, 0 while it waits.")
LAG: Final = _family(
    "lag", GAUGE, "Offsets of a source partition that this instance has not copied yet.", "topic", "partition"
)
LATENCY: Final = _family(
    "latency_seconds", GAUGE, "Age of the newest record of the last commit, when it was committed."
)
RECORDS: Final = _family("records_total", COUNTER, "Records sent to the target.")
BYTES: Final = _family("bytes_total", COUNTER, "Bytes of record batches sent to the target, as they travel.")
ERRORS: Final = _family(
    "errors_total", COUNTER, "Times that copying began anew, or that records of the source were no longer there."
)
FAMILIES: Final = (RUNNING, LAG, LATENCY, RECORDS, BYTES, ERRORS)


class MirrorMetrics:
    """What of a mirror is watched (`ottla.metrics.http.Watched`)."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def metrics(self) -> Iterator[tuple[Family, Rows]]:
        """Every metric that there is now."""
        figures = {flow: ({"flow": flow}, each) for flow, each in self._mirror.figures.items()}
        running = self._mirror.running
        yield RUNNING, [(labels, float(flow in running)) for flow, (labels, _) in figures.items()]
        lags = [
            ({**labels, "topic": place.topic, "partition": str(place.partition)}, float(lag))
            for labels, each in figures.values()
            for place, lag in each.lags().items()
        ]
        yield LAG, lags
        known = [(labels, each.latency_s) for labels, each in figures.values()]
        yield LATENCY, [(labels, latency_s) for labels, latency_s in known if latency_s is not None]
        yield RECORDS, [(labels, float(each.records)) for labels, each in figures.values()]
        yield BYTES, [(labels, float(each.bytes)) for labels, each in figures.values()]
        yield ERRORS, [(labels, float(each.errors)) for labels, each in figures.values()]

    def not_ready(self) -> Mapping[str, str]:
        """The flows that wait, and why."""
        return self._mirror.waiting


@asynccontextmanager
async def watched(mirror: Mirror) -> AsyncIterator[None]:
    """Serves /metrics, /healthz and /readyz inside the `async with` block, if the file wants it.

    Raises ConfigError if the address is none or a package is missing, OSError if the address is not to be had.
    """
    text = mirror.config.metrics_listener
    if not text:
        yield
        return
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise ConfigError(SETTING, f"{SETTING}: {error}") from None
    try:
        with extra("metrics"):
            from ottla.metrics.http import serve
    except ModuleNotFoundError as error:
        raise ConfigError(SETTING, f"{SETTING}={text}: {error}") from error
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, MirrorMetrics(mirror), host or LOOPBACK, port)
        yield
        nursery.cancel_scope.cancel()
