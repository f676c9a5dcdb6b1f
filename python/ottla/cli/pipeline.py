"""`ottla pipeline`: the pipelines of `ottla.pipelines`, from configuration files."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli._errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.pipelines.frame.catalog import Pipeline


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
        raise click.ClickException(f"this needs {missing.name}: pip install 'ottla[pipelines]'") from None


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
    from ottla.pipelines.frame.config import load
    from ottla.pipelines.frame.progress import Progress
    from ottla.pipelines.frame.ready import check

    pipeline = _find(name)
    with _needs():
        config = load(file, pipeline.Config)
        check(config)
        from ottla.spark import session

        progress = Progress(name)
        try:
            try:
                spark = session(f"ottla {name}", cores=cores, memory=memory)
            except RuntimeError as no_java:
                raise click.ClickException(str(no_java)) from None
            spark.sparkContext.setLogLevel("ERROR")
            try:
                with explained(f"pipeline {name} failed"):
                    result = pipeline.run(spark, config, progress)
            finally:
                spark.stop()
        finally:
            progress.close()
    click.echo(f"{name}: {result}")
