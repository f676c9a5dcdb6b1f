"""Runs every judge, the slow ones too, one part after the other: what the gate (`make test`) leaves out is run here.

    make judges                       all parts, from the beginning
    make judges ARGS=--continue       the parts that are not green yet since the last beginning
    make judges ONLY="compat cluster" these
    python -m tests.judges --soak tests/cluster/test_chaos.py --seeds 1 2 3
                                      a soak form with these seeds, one run after the other

A part is a folder of `tests`, `files` for what lies beside them, or a variant. `leases-off` is what leases serve, once
more without them (the rest of the tests meets the same code only where leases hand requests on). `threads` is whatever
speaks to brokers, once more with two threads beside the loop. `judged.json` says which parts are
green since the last beginning, and at which commit all of them were green the last time; CI prints that (`--last`), and
no test depends on it. It also says which soak forms ran to their end: when, at which commit and with which seed. Both
are noted only if everything is committed.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("judged.json")
LANE = "not soak"
LEASES_OFF, THREADS = "leases-off", "threads"
#: The variables of a part's brokers.
VARIABLES = {LEASES_OFF: {"OTTLA_LEASES": "off"}, THREADS: {"OTTLA_NETWORK_THREADS": "2"}}
THREADED = [f"tests/{room}" for room in ("broker", "client", "cluster", "compat", "embedded", "faults")]
LEASED = [
    *(
        f"tests/broker/{folder}/test_{name}.py"
        for folder, names in {
            "admin": ("delete_records",),
            "connections": ("guard", "two_brokers"),
            "disks": ("full_disk",),
            "fetch": ("cold_fetches", "fetch_sessions", "old_formats", "waiting_fetches"),
            "leases": ("panics",),
            "produce": ("acks_all", "produce_fetch", "turns"),
            "quotas": ("quotas_of_plain_requests",),
        }.items()
        for name in names
    ),
    "tests/compat/test_same_answers.py",
    *(f"tests/faults/broker/test_{name}.py" for name in ("delays", "leases", "producers")),
]


def parts() -> dict[str, list[str]]:
    """The arguments of pytest for each part."""
    tests = ROOT / "tests"
    folders = sorted(path.name for path in tests.iterdir() if any(path.rglob("test_*.py")))
    beside = sorted(str(path.relative_to(ROOT)) for path in tests.glob("test_*.py"))
    rooms = {name: [f"tests/{name}"] for name in folders if (tests / name).is_dir()}
    return {**rooms, "files": beside, LEASES_OFF: LEASED, THREADS: THREADED}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def is_changed() -> bool:
    """True if something else than the notes is not committed."""
    return bool(git("status", "--porcelain", "--", ".", f":!{FILE.relative_to(ROOT)}"))


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def is_green(name: str, paths: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-m", LANE, "-n", "2", *paths]
    # Brokers start as users' do, which takes longer than the copies that the gate has (`tests.peers.forks`).
    variables = {"OTTLA_TEST_STARTS": "own", **VARIABLES.get(name, {})}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}).returncode == 0


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def last(state: dict[str, Any]) -> str:
    whole = state["whole"]
    if whole is None:
        return "the judges have not been green as a whole yet"
    return f"the judges were green as a whole at {whole['commit']} ({whole['date']})"


def note(state: dict[str, Any], name: str) -> None:
    """A part is green. When all are, the whole is, as of the commit at which the first of them was run."""
    if is_changed():
        print(f"{name} is green, and not noted: something is not committed")
        return
    green = state["green"]
    green[name] = git("rev-parse", "--short", "HEAD")
    if green.keys() >= parts().keys():
        state.update(whole={"commit": state["begun"], "date": today()}, begun=None, green={})
    FILE.write_text(json.dumps(state, indent=1) + "\n")


def soak(path: str, seed: int) -> bool:
    """Runs the soak forms in a file or of one test. Returns whether they ran to their end."""
    command = [sys.executable, "-m", "pytest", "-s", "-m", "soak", path]
    variables = {"OTTLA_TEST_STARTS": "own", "OTTLA_FAULT_SEED": str(seed)}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}).returncode == 0


def note_soak(state: dict[str, Any], path: str, seed: int, seconds: float) -> None:
    """A soak form ran to its end."""
    if is_changed():
        print(f"{path} ran to its end with seed {seed}, and is not noted: something is not committed")
        return
    run = {"seed": seed, "commit": git("rev-parse", "--short", "HEAD"), "date": today(), "seconds": round(seconds)}
    state.setdefault("soaks", {}).setdefault(path, []).append(run)
    FILE.write_text(json.dumps(state, indent=1) + "\n")


def soaks(path: str, seeds: list[int]) -> int:
    red = []
    for seed in seeds:
        print(f"--- {path}, seed {seed}", flush=True)
        begun = time.monotonic()
        if soak(path, seed):
            note_soak(read(), path, seed, time.monotonic() - begun)
        else:
            red.append(seed)
    print(f"red: {', '.join(map(str, red))}" if red else "green")
    return 1 if red else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs every judge, part by part.")
    parser.add_argument("only", nargs="*", metavar="part", help=f"these parts: {', '.join(parts())}")
    parser.add_argument("--continue", dest="goes_on", action="store_true", help="the parts that are not green yet")
    parser.add_argument("--last", action="store_true", help="say when all of them were green, and run nothing")
    parser.add_argument("--soak", metavar="path", help="run the soak forms of this file instead")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="what decides about their faults")
    arguments = parser.parse_args()
    if arguments.soak:
        return soaks(arguments.soak, arguments.seeds)
    if unknown := set(arguments.only) - parts().keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    state = read()
    if arguments.last:
        print(last(state))
        return 0
    if state["begun"] is None or not (arguments.goes_on or arguments.only):
        state.update(begun=git("rev-parse", "--short", "HEAD"), green={})
    red = []
    for name, paths in parts().items():
        if (arguments.only and name not in arguments.only) or (arguments.goes_on and name in state["green"]):
            continue
        print(f"--- {name}", flush=True)
        if is_green(name, paths):
            note(state, name)
        else:
            red.append(name)
    print(f"red: {', '.join(red)}" if red else "green")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
