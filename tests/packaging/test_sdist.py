"""The sources of a release: they have everything that a wheel is built from, and no more than that and the pages."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
MATURIN = Path(sys.executable).with_name("maturin")
NAMED = ("Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "THIRD-PARTY-LICENSES.txt", "pyproject.toml")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([MATURIN, "sdist", "--out", folder], cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    (found,) = folder.glob("ottla-*.tar.gz")
    return found


@pytest.fixture(scope="module")
def files(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return {name.partition("/")[2] for name in opened.getnames()}


def test_it_has_all_that_a_wheel_is_built_from(files: set[str]) -> None:
    sources = [path for name in ("rust", "python") for path in (ROOT / name).rglob("*") if path.is_file()]
    built = {".pyc", ".so", ".new"}
    needed = {path.relative_to(ROOT).as_posix() for path in sources if path.suffix not in built}
    assert {*NAMED, *needed} - {"python/ottla/commit.txt"} <= files


def test_it_has_nothing_that_was_built_and_no_tests(archive: Path, files: set[str]) -> None:
    assert [name for name in files if name.startswith((".ci/", "benches/", "target/", "tests/"))] == []
    assert [name for name in files if name.endswith((".so", ".pyc", ".png", ".svg"))] == []
    assert archive.stat().st_size < 4_000_000


@pytest.mark.judge
def test_a_wheel_is_built_from_it(archive: Path, tmp_path: Path) -> None:
    """With the compiler's quick profile, which is enough to see that nothing is missing."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables = {**others, "MATURIN_PEP517_ARGS": "--profile quick"}
    install = [python, "-m", "pip", "install", "--quiet", archive]
    subprocess.run(install, cwd=tmp_path, env=variables, check=True)
    told = subprocess.run(
        [python.with_name("ottla"), "--version"], cwd=tmp_path, env=others, check=True, capture_output=True, text=True
    )
    assert told.stdout.endswith(", quick)\n")
