"""Mutants: the project with one promise broken, which the tests must notice.

    make mutants                                  all of them
    make mutants MUTANTS="log.ack-before-write broker."    these, or those whose names begin so
    .venv/bin/python -m tests.faults.mutants --list
    .venv/bin/python -m tests.faults.mutants --changed-since 'HEAD~10' --minutes 3

A mutant is one place in the source and what stands there instead. The runner keeps a copy of the tree in
`target/mutants`, checks that the tests named by the mutants pass there, then puts each mutant in, runs its tests and
wants one to fail. A mutant that does not compile is an error, not a catch. `test_mutants.py` keeps the places true in
every run of the tests.

Add a mutant when you fix a fault that no test would have noticed: `mutants_log.py` (Rust tests), `mutants_broker.py`
(pytest), and whatever else is called `mutants_*.py` here with a tuple `MUTANTS`.
"""

import argparse
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
SCRATCH = ROOT / "target" / "mutants"
TREE = SCRATCH / "tree"
BUILD = SCRATCH / "build"
MODULE = Path("python/ottla/_core.abi3.so")
#: A mutant may make a test hang, which is a way of noticing it.
TIMEOUT_S = 600
#: From nothing on a busy machine; a build that does not end notices nothing.
BUILD_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Mutant:
    """`text`, which occurs once in `file`, becomes `replacement`; then a test must fail."""

    name: str
    file: str
    text: str
    replacement: str
    #: Filters for `cargo test` of the core without Python.
    cargo: tuple[str, ...] = ()
    #: Arguments for pytest. The native module is built anew if `file` is Rust.
    pytest: tuple[str, ...] = ()
    #: For the tests, as "NAME=VALUE": a number of seeds that finds it surely.
    env: tuple[str, ...] = ()


def mutants() -> list[Mutant]:
    """All tables, in the order of their files."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("mutants_*.py"))
    return [mutant for name in names for mutant in importlib.import_module(f"tests.faults.{name}").MUTANTS]


def copy_tree() -> None:
    """Brings the copy up to date; what did not change keeps its time, so that cargo builds little."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    for name in names:
        source, target = ROOT / name, TREE / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        shutil.copymode(source, target)  # tests run scripts
    for path in [path for path in TREE.rglob("*") if path.is_file() or path.is_symlink()]:
        name = path.relative_to(TREE)
        if str(name) not in names and "__pycache__" not in name.parts and name != MODULE:
            path.unlink()
    if (ROOT / MODULE).exists():
        shutil.copyfile(ROOT / MODULE, TREE / MODULE)
    # Other people's clients, and Kafka, for tests that use them.
    for folder in (".venvs",):
        if (ROOT / folder).exists() and not (TREE / folder).exists():
            (TREE / folder).symlink_to((ROOT / folder).resolve())


def run(command: list[str], env: dict[str, str], timeout_s: float = TIMEOUT_S) -> tuple[int | None, str]:
    """The exit code (None: it did not end) and what was printed."""
    process = subprocess.Popen(
        command, cwd=TREE, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output


def environment(extra: tuple[str, ...] = ()) -> dict[str, str]:
    paths = {"CARGO_TARGET_DIR": str(BUILD), "PYTHONPATH": str(TREE / "python"), "PYO3_PYTHON": sys.executable}
    # Nobody debugs it: that builds in two thirds of the time.
    return dict(os.environ, CARGO_PROFILE_DEV_DEBUG="0", **paths) | dict(pair.split("=", 1) for pair in extra)


def cargo(arguments: list[str]) -> list[str]:
    return ["cargo", *arguments[:1], "--quiet", "--locked", "--no-default-features", "--lib", *arguments[1:]]


def build_module() -> tuple[int | None, str]:
    """The native module of the tree, where Python finds it."""
    result = run(
        ["cargo", "build", "--quiet", "--locked", "--profile", "quick", "--lib"], environment(), BUILD_TIMEOUT_S
    )
    if result[0] == 0:
        shutil.copyfile(BUILD / "quick" / "libottla_core.so", TREE / MODULE)
    return result


def failing(mutant: Mutant) -> tuple[str | None, str]:
    """The failure of a mutant's tests in words, None if they pass; and the output. SystemExit if it cannot be built."""
    env = environment(mutant.env)
    if mutant.cargo:
        code, output = run(cargo(["test", "--no-run"]), env, BUILD_TIMEOUT_S)
        if code != 0:
            raise SystemExit(f"{mutant.name} does not compile:\n{output}")
        for name in mutant.cargo:
            code, output = run(cargo(["test", name]), env)
            if code != 0:
                return f"cargo test {name}" + (" (did not end)" if code is None else ""), output
    if mutant.pytest:
        if mutant.file.endswith(".rs") and (built := build_module())[0] != 0:
            raise SystemExit(f"{mutant.name} does not compile:\n{built[1]}")
        code, output = run([sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.pytest], env)
        # 4 and 5: no such test. That notices nothing.
        if code in (4, 5):
            raise SystemExit(f"pytest finds no test for {mutant.name}:\n{output}")
        if code != 0:
            return "pytest" + (" (did not end)" if code is None else ""), output
    return None, ""


Tests: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def check_unchanged(mutant: Mutant, passed: set[Tests]) -> None:
    """The tests of a mutant must pass while nothing is broken; `passed` has those of which that is known."""
    tests = (mutant.cargo, mutant.pytest, mutant.env)
    if tests not in passed:
        passed.add(tests)
        wrong, output = failing(Mutant("unchanged", "", "", "", *tests))
        if wrong:
            raise SystemExit(f"without any mutant, {wrong} fails:\n{output}")


def changed_since(commit: str) -> list[str]:
    """The files that differ from `commit`, those of the newest commits first; those of no commit yet before them."""
    files: dict[str, None] = {}
    for command in (["diff", "--name-only", "HEAD"], ["log", "--format=", "--name-only", f"{commit}..HEAD"]):
        listed = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True, text=True)
        files |= dict.fromkeys(listed.stdout.split("\n"))
    return list(files)


def try_mutant(mutant: Mutant) -> bool:
    """True if a test notices the mutant."""
    path = TREE / mutant.file
    before = path.read_text()
    assert before.count(mutant.text) == 1, f"{mutant.name}: the text occurs {before.count(mutant.text)} times"
    start = time.monotonic()
    try:
        path.write_text(before.replace(mutant.text, mutant.replacement))
        wrong, _ = failing(mutant)
    finally:
        path.write_text(before)
        if mutant.pytest and mutant.file.endswith(".rs") and (ROOT / MODULE).exists():
            shutil.copyfile(ROOT / MODULE, TREE / MODULE)
    state = f"noticed by {wrong}" if wrong else "SURVIVED"
    print(f"{mutant.name}: {state} ({time.monotonic() - start:.0f} s)", flush=True)
    return wrong is not None


def main() -> None:
    parser = argparse.ArgumentParser(description="Breaks the project on purpose and wants the tests to notice.")
    parser.add_argument("names", nargs="*", help="names of mutants, or beginnings of names; all without one")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    parser.add_argument(
        "--changed-since", metavar="COMMIT", help="only those of files that changed since COMMIT, newest changes first"
    )
    parser.add_argument("--minutes", type=float, help="begin no mutant after so many minutes")
    arguments = parser.parse_args()
    end = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    chosen = [
        mutant
        for mutant in mutants()
        if not arguments.names or any(mutant.name.startswith(name) for name in arguments.names)
    ]
    if arguments.changed_since is not None:
        newest = changed_since(arguments.changed_since)
        chosen = sorted((one for one in chosen if one.file in newest), key=lambda one: newest.index(one.file))
    if arguments.list:
        for mutant in chosen:
            print(mutant.name, *mutant.cargo, *mutant.pytest)
        return
    copy_tree()
    passed: set[Tests] = set()
    survivors, tried = [], 0
    for mutant in chosen:
        if end is not None and time.monotonic() > end:
            break
        check_unchanged(mutant, passed)
        tried += 1
        if not try_mutant(mutant):
            survivors.append(mutant.name)
    late = f", {len(chosen) - tried} not tried for lack of time" if tried < len(chosen) else ""
    print(f"{tried} mutants, {len(survivors)} survived{late} {' '.join(survivors)}".rstrip())
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
