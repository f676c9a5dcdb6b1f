"""`ottla pipeline`: the pipelines of `ottla.pipelines`, from configuration files."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from ottla.cli._errors import explained, without
from ottla.cli._interrupts import INTERRUPTED
from ottla.cli._output import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from ottla.pipelines.frame.catalog import Pipeline
    from ottla.pipelines.frame.progress import Progress


@click.group()
def command() -> None:
    """Run the pipelines that activity streams are for, on Spark: loading a warehouse and others.

    \b
    ottla pipeline list
    ottla pipeline example warehouse_load > load.toml
    ottla pipeline run warehouse_load --config load.toml
    """


@contextmanager
def _needs() -> Iterator[None]:
    """What is not installed is said with the command that installs it; what is wrong with a pipeline, in one line."""
    from ottla.pipelines.frame.config import PipelineError

    try:
        yield
    except PipelineError as problem:
        raise click.ClickException(str(problem)) from None
    except ModuleNotFoundError as missing:
        if (missing.name or "ottla").startswith("ottla"):
            raise
        raise click.ClickException(without(missing)) from None


def _find(name: str) -> Pipeline:
    from ottla.pipelines.frame.catalog import find

    with _needs():
        return find(name)


@command.command("list")
def list_pipelines() -> None:
    """Say which pipelines there are, and what for."""
    from ottla.cli._output import columns
    from ottla.pipelines.frame.catalog import PIPELINES, purpose

    with _needs():
        click.echo(columns([(name, purpose(name)) for name in PIPELINES], ("PIPELINE", "WHAT FOR")))


@command.command("example")
@click.argument("name")
def example(name: str) -> None:
    """Print a configuration of the pipeline NAME, with each key explained."""
    click.echo(_find(name).EXAMPLE, nl=False)


@command.command("run")
@click.argument("name")
@click.option(
    "-c",
    "--config",
    "file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A TOML file; `ottla pipeline example NAME` prints one.",
)
@click.option("--cores", type=click.IntRange(1), help="Cores for Spark; all unless given.")
@click.option("--memory", default="1g", show_default=True, help="Heap of Spark's driver.")
def run(name: str, file: Path, cores: int | None, memory: str) -> None:
    """Run the pipeline NAME until it has done what there is to do, or as its configuration says."""
    pipeline = _find(name)
    with _needs():
        from ottla.pipelines.frame.config import load
        from ottla.pipelines.frame.progress import Progress
        from ottla.pipelines.frame.ready import check

        config = load(file, pipeline.Config)
        check(config)
        from ottla.spark import session

        progress = Progress(name)
        try:
            try:
                with _explained_by_spark("cannot start Spark"):
                    spark = session(f"ottla {name}", cores=cores, memory=memory)
            except RuntimeError as no_java:
                raise click.ClickException(str(no_java)) from None
            spark.sparkContext.setLogLevel("ERROR")
            try:
                with _ended_by_ctrl_c(name, progress, spark), _explained_by_spark(f"pipeline {name} failed"):
                    result = pipeline.run(spark, config, progress)
            finally:
                spark.stop()
        finally:
            progress.close()
    click.echo(f"{name}: {result}")


@contextmanager
def _explained_by_spark(doing: str) -> Iterator[None]:
    """What Spark refuses in the block, such as an expression of the configuration, is one line, too."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]
    from pyspark.errors import PySparkException

    try:
        with explained(doing):
            yield
    except (PySparkException, Py4JError) as problem:
        lines = [line for line in str(problem).splitlines() if line.strip()]
        raise click.ClickException(f"{doing}: {lines[0] if lines else type(problem).__name__}") from None


@contextmanager
def _ended_by_ctrl_c(name: str, progress: Progress, spark: SparkSession) -> Iterator[None]:
    """Ctrl-C in the block ends the process at once, with what was done.

    A KeyboardInterrupt in the middle of a call of the JVM leaves that connection out of step, and py4j and Spark write
    tracebacks about it. Pipelines bear a kill at any time, so Spark's processes are killed: a JVM that ends by itself
    while a stream runs writes pages of exceptions to the terminal.
    """
    gateway = spark.sparkContext._gateway  # type: ignore[attr-defined, unused-ignore]
    java = getattr(gateway, "proc", None)

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        progress.close()
        done = f"{progress.records:,} {progress.unit} in {counted(progress.batches, 'batch', 'batches')}"
        click.echo(f"{name}: interrupted after {done}; the same command goes on from there", err=True)
        sys.stdout.flush()
        if java is not None:
            _kill(java.pid)
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _kill(pid: int) -> None:
    """Kills a process and its descendants, which stand still meanwhile so that none says a word about the others."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                _kill(int(child))
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
