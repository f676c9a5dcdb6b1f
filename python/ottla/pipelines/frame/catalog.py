"""Which pipelines there are: each is a module (or package) of `ottla.pipelines` with `Config`, `EXAMPLE` and `run`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ottla.config.nearest import hint
from ottla.pipelines.frame.config import PipelineError
from ottla.pipelines.frame.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINES = (
    "warehouse_load",
    "audit",
    "relevance_counts",
    "newsfeed_fanout",
    "abuse_rate",
    "ops_monitoring",
    "sessionize",
    "mirror_transform",
)


class Pipeline(Protocol):
    """The interface of a pipeline's module."""

    Config: type[msgspec.Struct]
    EXAMPLE: str

    def run(self, spark: "SparkSession", config: Any, progress: Progress | None = None) -> object:
        """Runs it to its end, and returns what there is to say about it in the end."""


def find(name: str) -> Pipeline:
    """The pipeline of this name; `warehouse-load` is `warehouse_load`. Raises `PipelineError` for an unknown one."""
    known = name.replace("-", "_")
    if known not in PIPELINES:
        raise PipelineError(f"there is no pipeline {name!r}{hint(known, PIPELINES)}; there are {', '.join(PIPELINES)}")
    module: Any = import_module(f"ottla.pipelines.{known}")
    found: Pipeline = module
    return found


def purpose(name: str) -> str:
    """The first sentence of a pipeline's documentation."""
    return (find(name).__doc__ or "").partition("\n")[0]
