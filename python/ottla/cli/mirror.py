"""`ottla mirror FILE`: topics of one cluster in another, as MirrorMaker 2 does it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ottla.mirror.config import MirrorConfig
    from ottla.mirror.status import Status


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[status] FILE")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="With status: one JSON object for each flow, one a line.")
@click.option(
    "--timeout-ms",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="With status: how long a cluster may take to answer.",
)
def command(words: tuple[str, ...], log_level: str, log_format: str, as_json: bool, timeout_ms: int) -> None:
    """Mirror topics between clusters until SIGTERM or SIGINT, or with status: show how far that is.

    FILE has MirrorMaker 2's properties, or TOML with the same keys (a name that ends with .toml):

    \b
    clusters = A, B
    A.bootstrap.servers = a1:9092
    B.bootstrap.servers = b1:9092
    A->B.enabled = true
    A->B.topics = orders.*

    Several instances with the same file share the work. docs/mirror.md has the settings. The status of a flow is what
    its clusters know: how many instances copy, and how many offsets of each partition they have not copied yet.
    """
    from ottla.cli._errors import explained

    *action, file = words
    if action not in ([], ["status"]):
        raise click.UsageError(f"Got unexpected extra argument ({file})")
    with explained("cannot mirror"):
        from ottla.mirror.config import load

        config = load(file)
    if action:
        _show_status(config, timeout_ms, as_json=as_json)
        return

    import trio

    from ottla import logging_setup
    from ottla.mirror.daemon import Mirror
    from ottla.mirror.metrics import watched

    logging_setup.to_stderr(log_level.upper(), log_format, config.secrets)
    mirror = Mirror(config)

    async def stop_at_a_signal(*, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                await mirror.stop()
                return

    async def tell() -> None:
        told: tuple[str, ...] = ()
        while True:
            changed, running = mirror.changed, mirror.running
            # Flows that end are said in the log.
            if not set(running) <= set(told):
                click.echo(f"ottla mirror ready: {', '.join(running)}")
            told = running
            await changed.wait()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(stop_at_a_signal)
            async with watched(mirror):
                await nursery.start(mirror.run)
                nursery.start_soon(tell)
                await mirror.ended()
            nursery.cancel_scope.cancel()

    with explained("cannot mirror"):
        trio.run(run)


def _show_status(config: MirrorConfig, timeout_ms: int, *, as_json: bool) -> None:
    """Prints a part for each flow. One whose clusters do not answer is an error, after the others."""
    import trio

    from ottla.cli._errors import each_of
    from ottla.cli._output import print_json
    from ottla.mirror.status import status_of

    flows = {str(flow): flow for flow in config.flows}

    async def show(name: str) -> None:
        status = await status_of(flows[name], timeout_ms=timeout_ms)
        if as_json:
            print_json(_as_json(status))
        else:
            click.echo(_as_text(status))

    trio.run(each_of, flows, "cannot show", show)


def _rows(status: Status) -> list[dict[str, object]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "copied": progress.copied,
            "end": progress.end,
            "lag": progress.lag,
        }
        for partition, progress in status.partitions.items()
    ]


def _as_json(status: Status) -> dict[str, object]:
    return {
        "flow": status.flow,
        "instances": status.instances,
        "state": status.state,
        "lag": status.lag,
        "partitions": _rows(status),
    }


def _as_text(status: Status) -> str:
    from ottla.cli._output import columns, counted

    running = counted(status.instances, "instance") if status.instances else "no instance runs"
    head = f"{status.flow}: {running}, lag {status.lag:,}"
    rows = [["-" if value is None else value for value in row.values()] for row in _rows(status)]
    if not rows:
        return f"{head}, no topic"
    table = columns(rows, ("topic", "partition", "copied", "end", "lag"))
    return f"{head}\n" + "\n".join(f"  {line}" for line in table.splitlines())
