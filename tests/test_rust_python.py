"""The Rust tests of what Python sees (`rust/py`): they need an interpreter, and a build of the crate of their own."""

import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.judge
@pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="Python is built without a shared library")
def test_rust_python() -> None:
    done = subprocess.run(["make", "--silent", "test-rust-python"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    assert "test result: ok" in done.stdout
    assert "running 0 tests" not in done.stdout
