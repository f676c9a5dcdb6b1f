"""`ottla --version` says which commit a package was made from, and says so where nobody knows."""

import re
import subprocess
import sys
from pathlib import Path

import ottla
from ottla.cli._version import commit


def git(root: Path, *arguments: str) -> str:
    named = ("-c", "user.name=n", "-c", "user.email=e@localhost")
    return subprocess.run(["git", *named, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def work_tree(root: Path) -> Path:
    package = root / "python" / "ottla"
    package.mkdir(parents=True)
    (package / "module.py").touch()
    return package


def test_the_version_the_commit_and_the_profile() -> None:
    done = subprocess.run([sys.executable, "-m", "ottla", "--version"], capture_output=True, text=True, check=True)
    form = r"ottla {} \(commit (unknown|[0-9a-f]{{8,}}(-dirty)?), {}\)\n"
    assert re.fullmatch(form.format(re.escape(ottla.__version__), ottla._core.BUILD_PROFILE), done.stdout)
    assert ottla._core.BUILD_PROFILE in ("release", "quick", "debug")


def test_a_wheel_has_a_file_that_says_it(tmp_path: Path) -> None:
    package = work_tree(tmp_path)
    git(tmp_path, "init", "--quiet")
    (package / "commit.txt").write_text("1a2b3c4d\n")
    assert commit(package) == "1a2b3c4d"


def test_a_work_tree_asks_git(tmp_path: Path) -> None:
    package = work_tree(tmp_path)
    git(tmp_path, "init", "--quiet")
    assert commit(package) == "unknown"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    git(tmp_path, "tag", "v1")
    known = git(tmp_path, "rev-parse", "--short=8", "HEAD").strip()
    assert commit(package) == known
    (package / "module.py").write_text("changed")
    assert commit(package) == f"{known}-dirty"


def test_nobody_knows_the_commit_of_other_packages(tmp_path: Path) -> None:
    """Such as one that was built from an archive of the sources; the folders above it may be a work tree of others."""
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "of others")
    assert commit(work_tree(tmp_path / "venv" / "lib")) == "unknown"
