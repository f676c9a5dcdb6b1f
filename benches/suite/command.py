"""The command `benches/compare.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from rich.console import Console

from benches.suite import plots, report
from benches.suite.generators import COMMANDS, ROOT, Load
from benches.suite.machine import facts
from benches.suite.runner import Scenario, Size, run_scenario
from benches.suite.scenarios import SCENARIOS
from benches.suite.servers import contestants
from ottla._core import DEBUG_BUILD

PAGE = ROOT / "docs" / "benchmarks"


@click.command()
@click.option("--against", default="3.9.2,4.3.1", show_default=True, help="Releases of Apache Kafka, or none.")
@click.option("--only", multiple=True, metavar="NAME", help="Scenarios; may be repeated, or separated by commas.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.1), help="Of each case; default 1.5, in full runs 5.")
@click.option("--full", is_flag=True, help="Whole sweeps, and scenarios that take long.")
@click.option("--quick", is_flag=True, help="Tiny sizes and one round, to see that it works; no figures.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Default: docs/benchmarks.")
@click.option("--load", "binary", type=click.Path(path_type=Path, exists=True), help="A generator built before.")
@click.option("--list", "only_list", is_flag=True, help="Show the scenarios.")
def main(
    against: str,
    only: tuple[str, ...],
    rounds: int,
    seconds: float | None,
    full: bool,
    quick: bool,
    out: Path | None,
    binary: Path | None,
    only_list: bool,
) -> None:
    """Measures this broker beside Apache Kafka in the same run, on this machine."""
    console = Console()
    if only_list:
        for scenario in SCENARIOS:
            console.print(f"{scenario.name:24}{scenario.title}{' (--full)' if scenario.is_long else ''}", markup=False)
        return
    if DEBUG_BUILD and not quick:
        raise click.ClickException("the native module is a debug build: make build")
    chosen = _chosen(only, full)
    size = Size(seconds or (5.0 if full else 1.5), 8.0 if full else 4.0, 1.0, full)
    if quick:
        size, rounds = Size(seconds or 0.3, 0.3, 0.005, full), 1
        out = out or Path(tempfile.mkdtemp(prefix="ottla-quick-"))
    out = out or PAGE
    load = Load(binary)
    results = []
    bad = 0
    for scenario in chosen:
        COMMANDS.clear()
        machine = facts()
        with console.status(scenario.name) as status:
            result = run_scenario(scenario, contestants(against), rounds, load, size, status.update)
        report.show(result, console)
        report.save(result, machine, list(COMMANDS), out)
        plots.draw(result, out)
        results.append(result)
        bad += len(result.problems)
    order = [scenario.name for scenario in SCENARIOS]
    plots.draw_goals([report.load(path)[0] for path in sorted(out.glob("*.json")) if path.stem in order], out)
    report.write_page(out, order)
    console.print(f"{sum(result.seconds for result in results):.0f} s; written to {out}", soft_wrap=True)
    if bad:
        raise click.ClickException(f"{bad} runs have no figure")


def _chosen(only: tuple[str, ...], full: bool) -> list[Scenario]:
    names = [name for part in only for name in part.split(",") if name]
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"there is no scenario {', '.join(unknown)}; --list shows them", param_hint="--only")
    return [known[name] for name in names] or [one for one in SCENARIOS if full or not one.is_long]
