"""Checks that a pipeline has all it needs, before Spark starts, which takes twenty seconds."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ottla.client import Admin, Cluster
from ottla.config.nearest import hint
from ottla.pipelines.frame.between import Target
from ottla.pipelines.frame.clients import ask
from ottla.pipelines.frame.config import PipelineError, Source
from ottla.pipelines.frame.topic import Topic
from ottla.spark import options as of_source
from ottla.spark.limits import Use
from ottla.spark.sink import options as of_sink

TIMEOUT_MS = 5_000


def check(config: Any) -> None:
    """Checks what `config` reads and writes: its sources with their topics, the brokers of its targets, the options of
    both for Spark, its `followers` and its `warehouse`.

    Raises:
        PipelineError: brokers do not answer, a topic, a folder or a file is not there, or an option is wrong.
    """
    for field in msgspec.structs.fields(config):
        key, value = field.encode_name, getattr(config, field.name)
        if isinstance(value, Source):
            _check_options(key, partial(of_source.parse, value.reading(), Use.EITHER))
            _check_source(key, value)
        elif isinstance(value, Target | Topic):
            writing = {"kafka.bootstrap.servers": value.bootstrap, **value.options}
            _check_options(key, partial(of_sink.parse, writing))
            _topics(key, value.bootstrap, value.options)
    followers = getattr(config, "followers", None)
    if isinstance(followers, str) and not Path(followers).exists():
        raise PipelineError(f"followers: there is nothing at {followers}")
    warehouse = getattr(config, "warehouse", None)
    if warehouse is not None and not Path(warehouse.location).is_dir():
        raise PipelineError(f"warehouse.location: there is no table {warehouse.location}; warehouse_load makes it")


def _check_options(key: str, parse: Callable[[], object]) -> None:
    try:
        parse()
    except ValueError as problem:
        raise PipelineError(f"{key}.options: {problem}") from None


def _check_source(key: str, source: Source) -> None:
    if source.path is not None:
        folder = Path(source.path)
        if not folder.is_dir():
            raise PipelineError(f"{key}.path: there is no folder {source.path}")
        there = {name.rpartition("-")[0] for path in folder.glob("*-*") if (name := path.name)}
    else:
        assert source.bootstrap is not None
        there = _topics(key, source.bootstrap, source.options)
    for topic in source.topics:
        if topic not in there:
            where = source.path if source.path is not None else source.bootstrap
            raise PipelineError(f"{key}.topics: there is no topic {topic!r} at {where}{hint(topic, sorted(there))}")


def _topics(key: str, bootstrap: str, options: Mapping[str, str]) -> set[str]:
    """The topics of the brokers that the table `key` names. Raises PipelineError if they do not answer."""

    async def topics(cluster: Cluster) -> set[str]:
        # A broker that is only just starting is worth a few seconds, not half a minute.
        cluster.timeout_ms = TIMEOUT_MS
        return set(await Admin(cluster).list_topics())

    return ask(f"{key}.bootstrap: cannot reach {bootstrap}", bootstrap, options, topics)
