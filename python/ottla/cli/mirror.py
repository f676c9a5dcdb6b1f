"""`ottla mirror FILE`: topics of one cluster in another, as MirrorMaker 2 does it."""

from __future__ import annotations

import signal

import click


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(file: str, log_level: str, log_format: str) -> None:
    """Mirror topics between clusters until SIGTERM or SIGINT.

    FILE has MirrorMaker 2's properties, or TOML with the same keys (a name that ends with .toml):

    \b
    clusters = A, B
    A.bootstrap.servers = a1:9092
    B.bootstrap.servers = b1:9092
    A->B.enabled = true
    A->B.topics = orders.*

    Several instances with the same file share the work. docs/mirror.md has the settings.
    """
    from ottla.cli._errors import explained

    with explained("cannot mirror"):
        from ottla.mirror.config import load

        config = load(file)

    import trio

    from ottla import logging_setup
    from ottla.mirror.daemon import Mirror

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
            await nursery.start(mirror.run)
            nursery.start_soon(tell)
            await mirror.ended()
            nursery.cancel_scope.cancel()

    trio.run(run)
