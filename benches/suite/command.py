"""The command `benches/compare.py`."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benches.suite import plots, report
from benches.suite.figures import Result
from benches.suite.generators import COMMANDS, ROOT, Load
from benches.suite.lives import Lives
from benches.suite.machine import facts
from benches.suite.plan import Part, is_measured, plan, rounds_that_fit, stored
from benches.suite.runner import Scenario, Size, run_scenario
from benches.suite.scenarios import SCENARIOS
from benches.suite.servers import contestants
from ottla._core import DEBUG_BUILD

PAGE = ROOT / "docs" / "benchmarks"
ORDER = [scenario.name for scenario in SCENARIOS]


@click.command()
@click.option("--against", default="3.9.2,4.3.1", show_default=True, help="Releases of Apache Kafka, or none.")
@click.option("--only", multiple=True, metavar="NAME", help="Scenarios; may be repeated, or separated by commas.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.1), help="Of each case; default 1.5, in full runs 5.")
@click.option("--full", is_flag=True, help="Whole sweeps, all contestants everywhere, scenarios that take long.")
@click.option("--quick", is_flag=True, help="Tiny sizes and one round, to see that it works; no figures.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Default: docs/benchmarks.")
@click.option("--load", "binary", type=click.Path(path_type=Path, exists=True), help="A generator built before.")
@click.option("--minutes", type=click.FloatRange(1), help="At most: fewer rounds of what is left, if it must be.")
@click.option("--continue", "goes_on", is_flag=True, help="Leave out what this commit has measured in as many rounds.")
@click.option("--list", "only_list", is_flag=True, help="Show the scenarios.")
@click.option("--plan", "only_plan", is_flag=True, help="Show who is measured in which, and the seconds it takes.")
def main(
    against: str,
    only: tuple[str, ...],
    rounds: int,
    seconds: float | None,
    full: bool,
    quick: bool,
    out: Path | None,
    binary: Path | None,
    minutes: float | None,
    goes_on: bool,
    only_list: bool,
    only_plan: bool,
) -> None:
    """Measures this broker beside Apache Kafka in the same run, on this machine."""
    console = Console()
    if only_list:
        for scenario in SCENARIOS:
            console.print(f"{scenario.name:24}{scenario.title}{' (--full)' if scenario.is_long else ''}", markup=False)
        return
    size = Size(seconds or (5.0 if full else 1.5), 60.0 if full else 25.0, 1.0, full)
    if quick:
        size, rounds = Size(seconds or 0.3, 0.5, 0.005, full), 1
        out = out or Path(tempfile.mkdtemp(prefix="ottla-quick-"))
    out = out or PAGE
    parts = plan(_chosen(only, full), SCENARIOS, contestants(against), every=full or bool(only))
    if goes_on:
        parts = [part for part in parts if not is_measured(part, rounds, out, facts()["commit"])]
    if only_plan:
        _show_plan(parts, rounds, out, console)
        return
    if DEBUG_BUILD and not quick:
        raise click.ClickException("the native module is a debug build: make build")
    # Brokers of scenarios end as they do after an interruption from the keyboard.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.perf_counter()
    lives = Lives(Load(binary), 0.1 if quick else 2.0, size.warm_up_s)
    results: list[Result] = []
    try:
        with console.status("") as status:
            for number, part in enumerate(parts, 1):
                fitting = rounds
                if minutes:
                    done = [(before, result.seconds) for before, result in zip(parts, results, strict=False)]
                    left_s = 60 * minutes - (time.perf_counter() - begin)
                    fitting = rounds_that_fit(done, parts[number - 1 :], rounds, left_s)
                of_part = size.hurried(fitting, rounds)
                results.append(_measure(part, fitting, lives, of_part, out, status.update))
                report.show(results[-1], console)
                console.print(f"{number} of {len(parts)}, {time.perf_counter() - begin:.0f} s", style="dim")
    except KeyboardInterrupt:
        console.print(f"interrupted after {len(results)} of {len(parts)}; --continue measures the others", style="red")
    finally:
        lives.end()
        _write(out)
    report.show_targets([report.load(path)[0] for path in _files(out)], console)
    console.print(f"{time.perf_counter() - begin:.0f} s; written to {out}", soft_wrap=True)
    if len(results) < len(parts):
        raise click.Abort
    if bad := sum(len(result.problems) for result in results):
        raise click.ClickException(f"{bad} runs have no figure")


def _measure(part: Part, rounds: int, lives: Lives, size: Size, out: Path, say: Callable[[str], None]) -> Result:
    """One scenario, measured and kept; one that has no figure at all leaves what was measured before as it is."""
    COMMANDS.clear()
    machine = facts()
    result = run_scenario(part.scenario, part.contestants, rounds, lives, size, say)
    if result.rows or not (out / f"{result.name}.json").exists():
        report.save(result, machine, list(COMMANDS), out)
        plots.draw(result, out)
    report.write_page(out, ORDER)
    return result


def _write(out: Path) -> None:
    """The page and the picture of the targets, from all results that are there."""
    out.mkdir(parents=True, exist_ok=True)
    for path in _files(out):
        if not path.with_suffix(".png").exists():
            plots.draw(report.load(path)[0], out)
    plots.draw_goals([report.load(path)[0] for path in _files(out)], out)
    report.write_page(out, ORDER)


def _files(out: Path) -> list[Path]:
    return [path for path in sorted(out.glob("*.json")) if path.stem in ORDER]


def _show_plan(parts: list[Part], rounds: int, out: Path, console: Console) -> None:
    table = Table("scenario", "contestants", "expected, s")
    total = 0.0
    for part in parts:
        found = stored(out, part.scenario.name)
        seconds = part.seconds(rounds, found[0] if found else None)
        total += seconds
        names = ", ".join(contestant.name for contestant in part.contestants)
        table.add_row(part.scenario.name, f"{names}{' in turns' * part.scenario.takes_turns}", f"{seconds:.0f}")
    table.add_row("all", f"{rounds} rounds", f"{total:.0f} ({total / 60:.0f} minutes)")
    console.print(table)


def _chosen(only: tuple[str, ...], full: bool) -> list[Scenario]:
    names = [name for part in only for name in part.split(",") if name]
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"there is no scenario {', '.join(unknown)}; --list shows them", param_hint="--only")
    return [known[name] for name in names] or [one for one in SCENARIOS if full or not one.is_long]
