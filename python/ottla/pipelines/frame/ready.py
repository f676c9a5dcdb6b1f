"""Whether a pipeline has what it needs, asked before Spark starts, which takes twenty seconds."""

from pathlib import Path
from typing import Any

from ottla.client import Admin, Cluster
from ottla.config.nearest import hint
from ottla.pipelines.frame.clients import ask
from ottla.pipelines.frame.config import PipelineError, Source

TIMEOUT_MS = 5_000


def check(config: Any) -> None:
    """Checks what `config` reads: its source, and its `followers`.

    Raises:
        PipelineError: brokers do not answer, a topic, a folder or a file is not there.
    """
    source = getattr(config, "source", None)
    if isinstance(source, Source):
        _check_source(source)
    followers = getattr(config, "followers", None)
    if isinstance(followers, str) and not Path(followers).exists():
        raise PipelineError(f"followers: there is nothing at {followers}")


def _check_source(source: Source) -> None:
    if any(name.lower() in ("assign", "subscribepattern") for name in source.options):
        return
    if source.path is not None:
        folder = Path(source.path)
        if not folder.is_dir():
            raise PipelineError(f"source.path: there is no folder {source.path}")
        there = {name.rpartition("-")[0] for path in folder.glob("*-*") if (name := path.name)}
    else:
        assert source.bootstrap is not None

        async def topics(cluster: Cluster) -> set[str]:
            # A broker that is only just starting is worth a few seconds, not half a minute.
            cluster.timeout_ms = TIMEOUT_MS
            return set(await Admin(cluster).list_topics())

        there = ask(f"source.bootstrap: cannot reach {source.bootstrap}", source.bootstrap, source.options, topics)
    for topic in source.topics:
        if topic not in there:
            where = source.path if source.path is not None else source.bootstrap
            raise PipelineError(f"source.topics: there is no topic {topic!r} at {where}{hint(topic, sorted(there))}")
