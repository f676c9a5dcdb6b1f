"""Metrics as Prometheus reads them, in pieces: a scrape of ten thousand partitions has a hundred thousand lines, and
between two pieces of it requests are answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from ottla.metrics.families import Family

__all__ = ["CONTENT_TYPE", "Labels", "Rows", "labelled", "pieces", "process"]

#: Samples of a piece: a millisecond of work.
PIECE: Final = 250


class Labels(str):
    """Labels as they stand in a line, `{a="b"}`. Writing them is most of the work of a line, and all that is told of
    one partition has the same.
    """

    __slots__ = ()


Rows: TypeAlias = "Iterable[tuple[Mapping[str, str] | Labels, float]]"
"""Labels and value of each sample."""


class _One:
    """A registry with one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def labelled(labels: Mapping[str, str]) -> Labels:
    """Labels as the library writes them, for a tenth of the time: it is asked for lines, which are whole metrics."""
    return Labels("{" + ",".join([f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)]) + "}")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def pieces(family: Family, rows: Rows) -> Iterator[bytes]:
    """A metric's lines; none if there is no sample."""
    head = True
    remaining = iter(rows)
    while piece := list(islice(remaining, PIECE)):
        # A counter's name is the library's business: it puts the end back.
        metric = Metric(family.name.removesuffix("_total"), family.help, family.type)
        written: list[str] = []
        for labels, value in piece:
            if isinstance(labels, Labels):
                written.append(f"{family.name}{labels} {float(value)}\n")
            else:
                metric.add_sample(family.name, labels, value)
        lines: bytes = generate_latest(_One(metric))
        if not head:
            # HELP and TYPE were said.
            lines = lines.split(b"\n", 2)[2]
        head = False
        yield lines + "".join(written).encode()


def process() -> bytes:
    """Memory, processor time and descriptors of this process, its garbage collections, and which Python it is."""
    return b"".join(generate_latest(collector) for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR))
