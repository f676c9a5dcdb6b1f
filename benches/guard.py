"""Has anything become dearer? `python benches/guard.py [--save] [--only TEXT]`, by `make bench-guard`.

Counts instructions of the hot functions in Rust (benches/guard.rs) under callgrind, which do not depend on who else
runs on the machine; of the profile `release`, in one unit: in `quick` the same function differs by 3 % when other code
moves to another unit. A broker's requests are measured by their CPU, in thousandths of what a server needs in the same
minute that only answers the same bytes (`--only` leaves them out). Compares both with benches/guard.json; a count over
3 % higher fails, and a request over 35 % dearer: that is how far the same build's figures are apart on a machine that
others use too. The stored ones were made on such a machine with a build of the profile `quick`: on a quiet one `--only
broker --save` makes better ones. `--save` writes the file anew, after a change that is worth it.

The counts are user-space ones, of the compiler and libraries that made them: the file says which, and with others the
comparison is for orientation only.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.figures import CPU_REQUEST  # noqa: E402
from benches.suite.frames import fetch_frame, produce_frame  # noqa: E402
from benches.suite.generators import Load, build_bench, build_load  # noqa: E402
from benches.suite.runner import Run, Scenario, Size  # noqa: E402
from benches.suite.scenarios.consume import fill  # noqa: E402
from benches.suite.scenarios.limits import PRODUCE_ANSWER_BYTES, bare  # noqa: E402
from benches.suite.scenarios.small import request_figures  # noqa: E402
from benches.suite.servers import Ottla, create_topic  # noqa: E402
from ottla._core import DEBUG_BUILD  # noqa: E402
from tests.peers.ottla import Brokers  # noqa: E402

BASELINE = Path(__file__).with_suffix(".json")
WORSE = 1.03
WORSE_CPU = 1.35
CPU_ROWS = "broker: "
CALLGRIND = ("valgrind", "--tool=callgrind", "--quiet")
PAIRS = 16
SECONDS = 0.4
FETCH_BYTES = 64 << 10


def functions(binary: Path, only: str) -> dict[str, float]:
    """Instructions of each piece of work in benches/guard.rs."""
    times, *names = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for name in names:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out")
            options = ["--collect-atstart=no", "--toggle-collect=ottla_guard", f"--callgrind-out-file={out}"]
            subprocess.run([*CALLGRIND, *options, binary, name], check=True)
            found[name] = _total(out) / int(times)
    return found


def _total(path: Path) -> int:
    """The instructions in a file of callgrind's."""
    # The summary is of what was collected at the end, the totals of all.
    match = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
    assert match is not None, path.read_text()[:500]
    return int(match[1])


def requests(binary: Path, only: str) -> dict[str, float]:
    """CPU of the broker for each request, in thousandths of what a server needs that only answers the same bytes.

    The median of pairs in turns, with one request in flight: with more of them it depends on who else runs how many are
    answered in one turn of the loop, and with it what each costs.
    """
    if only and only not in CPU_ROWS:
        return {}
    if DEBUG_BUILD:
        raise click.ClickException("the native module is a debug build: make build")
    with tempfile.TemporaryDirectory() as name, Brokers(Path(name)) as brokers:
        run = Run(Ottla(), Scenario("guard", "", "", lambda run: {}), Path(name), Load(binary), Size(seconds=SECONDS))
        run.server = brokers(data=Path(name) / "data")
        fill(run, "large", 20_000_000)
        for topic in ("small", "batch"):
            create_topic(run.server, topic)
        fetched = str(fetch_frame(run.folder, "large", FETCH_BYTES))
        segment = str(next(run.server.data.glob("large-0/*.log")))
        echo = {"run": "echo", "answer_bytes": PRODUCE_ANSWER_BYTES}
        sendfile = {"run": "sendfile", "path": segment, "answer_bytes": FETCH_BYTES}
        kinds = {
            CPU_ROWS + "Produce of one 100-byte record": (str(produce_frame(run.folder, "small", 100).path), echo),
            CPU_ROWS + "Produce of 16 KiB": (str(produce_frame(run.folder, "batch", 100, 150).path), echo),
            CPU_ROWS + "Fetch of 64 KiB": (fetched, sendfile),
        }
        found = {}
        for kind, (frame, server) in kinds.items():
            ratios = []
            for _ in range(PAIRS):
                with bare(run, **server) as drive:
                    machine = request_figures(drive(frames=[frame]))[CPU_REQUEST]
                ours = request_figures(run.drive(frames=[frame]))[CPU_REQUEST]
                # So little that the system's clock has not counted it.
                ratios += [ours / machine] if machine else []
            found[kind] = 1000 * statistics.median(ratios)
        return found


def versions() -> dict[str, str]:
    """The versions of the tools and the machine on which the counts depend."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]
    return {"rustc": rustc, "python": platform.python_version(), "valgrind": _valgrind(), "machine": platform.machine()}


def _valgrind() -> str:
    return subprocess.run(["valgrind", "--version"], capture_output=True, text=True).stdout.strip()


@click.command()
@click.option("--save", is_flag=True, help="Write the counts as the new baseline.")
@click.option("--load", type=click.Path(path_type=Path, exists=True), help="A generator built before.")
@click.option("--only", default="", metavar="TEXT", help="Only work whose name has this in it (or: broker).")
def main(save: bool, load: Path | None, only: str) -> None:
    """Compares what hot functions and requests cost with the baseline."""
    if shutil.which("valgrind") is None:
        raise click.ClickException("valgrind is not here: apt-get install valgrind")
    found = {
        **functions(build_bench("guard", "release", features="guard"), only),
        **requests(load or build_load(), only),
    }
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"versions": {}, "costs": {}}
    baseline = stored["costs"]
    table = Table("work", "instructions, or thousandths", "baseline", "ratio")
    worse = []
    for name, count in found.items():
        ratio = count / baseline[name] if baseline.get(name) else None
        if ratio is not None and ratio > (WORSE_CPU if name.startswith(CPU_ROWS) else WORSE):
            worse.append(name)
        cells = (f"{baseline[name]:,.0f}", f"{ratio:.3f}") if ratio is not None else ("", "")
        table.add_row(name, f"{count:,.0f}", *cells, style="red" if name in worse else None)
    console = Console()
    console.print(table)
    if baseline and stored["versions"] != versions():
        console.print(f"the baseline is of {stored['versions']}, this is {versions()}", style="yellow", soft_wrap=True)
    if save:
        costs = {**baseline, **{name: round(count) for name, count in found.items()}}
        content = {"versions": versions(), "costs": costs}
        BASELINE.write_text(json.dumps(content, indent=1) + "\n")
    elif worse:
        raise click.ClickException(f"dearer than they may be: {', '.join(worse)}; `--save` if that is worth it")


if __name__ == "__main__":
    main()
