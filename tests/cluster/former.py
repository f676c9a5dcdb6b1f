"""A build of this project as it was at an earlier commit, made from the checkout's own history."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Before a folder had a note of the topic that its log is of.
FORMER = "bebd7f3"
#: As CI builds: it need not be fast.
QUICK = {"CARGO_PROFILE_QUICK_OPT_LEVEL": "1", "CARGO_INCREMENTAL": "0", "CFLAGS": "-g0"}


def former(folder: Path, commit: str = FORMER) -> Path:
    """The folder with the package of that build, made in `folder`, or $OTTLA_FORMER if it was unpacked there before.
    Skips where the history does not reach so far.
    """
    if (before := os.environ.get("OTTLA_FORMER")) and (Path(before) / "ottla").is_dir():
        return Path(before)
    package = Path(before) if before else folder / "package"
    git = shutil.which("git")
    known = git and subprocess.run([git, "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True)
    if not git or not known or known.returncode != 0:
        pytest.skip(f"the history of this checkout has no commit {commit}")
    source = folder / "source"
    subprocess.run([git, "clone", "--quiet", "--no-checkout", str(ROOT), str(source)], check=True)
    subprocess.run([git, "checkout", "--quiet", commit], cwd=source, check=True)
    maturin = [Path(sys.executable).with_name("maturin"), "build", "--profile", "quick", "--locked", "--out", "dist"]
    built = subprocess.run(maturin, cwd=source, env={**os.environ, **QUICK}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-5000:]
    (wheel,) = (source / "dist").glob("ottla-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package
