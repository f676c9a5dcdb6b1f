"""The fixtures for pytest, in runs of their own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest

from tests.support.inner_pytest import run_pytest

TESTS = """
import pytest

def test_one(ottla_broker, ottla_topic):
    assert ottla_broker.is_running
    with ottla_broker.log(ottla_topic) as log:
        assert log.end_offset == 0

def test_other(ottla_broker, ottla_topic):
    assert ottla_broker.settings["num.partitions"] == "7"
    assert len([path for path in ottla_broker.data_dir.glob("test-*-0")]) == 2
"""
SETTINGS = """
import pytest

@pytest.fixture(scope="session")
def ottla_settings():
    return {"num.partitions": 7}
"""
ASYNC = """
import pytest

@pytest.mark.trio
async def test_in_trio(ottla_broker, ottla_topic):
    import trio
    stream = await trio.open_tcp_stream(ottla_broker.host, ottla_broker.port)
    await stream.aclose()

async def of_asyncio(broker):
    import asyncio
    _, writer = await asyncio.open_connection(broker.host, broker.port)
    writer.close()

def test_in_asyncio(ottla_broker):
    import asyncio
    asyncio.run(of_asyncio(ottla_broker))
"""
NOTHING = """
import sys

def test_nothing_is_imported():
    assert not [name for name in sys.modules if name == "ottla" or name.startswith("ottla.")]
"""
FAULTS = """
def test_one(ottla_broker):
    assert len(ottla_broker.faults) == 0
    ottla_broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
    ottla_broker.faults.add(disk="write", error="ENOSPC")
    ottla_broker.clock.jump(3600)
    ottla_broker.pause()

def test_other(ottla_broker):
    assert not ottla_broker.is_paused
    assert len(ottla_broker.faults) == 0
    assert ottla_broker.clock.ahead == 0
    ottla_broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER")
"""


def test_a_run_has_one_broker_and_each_test_a_topic(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SETTINGS)
    (tmp_path / "test_it.py").write_text(TESTS)
    assert "2 passed" in run_pytest(tmp_path)


def test_they_are_there_in_async_tests(tmp_path: Path) -> None:
    pytest.importorskip("pytest_trio")
    (tmp_path / "test_it.py").write_text(ASYNC)
    assert "2 passed" in run_pytest(tmp_path)


def test_each_worker_has_a_broker(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    lines = "def test_{0}(ottla_broker): print(ottla_broker.port); assert ottla_broker.is_running\n"
    (tmp_path / "test_it.py").write_text("".join(lines.format(number) for number in range(4)))
    assert "4 passed" in run_pytest(tmp_path, "-n", "2")


def test_runs_that_do_not_use_them_import_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(NOTHING)
    assert "1 passed" in run_pytest(tmp_path)


def test_they_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["ottla.testing"]\n' + SETTINGS)
    (tmp_path / "test_it.py").write_text(TESTS)
    assert "2 passed" in run_pytest(tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


@pytest.mark.parametrize("conftest", ["", 'pytest_plugins = ["ottla.testing"]\n'])
def test_faults_end_with_their_test(tmp_path: Path, conftest: str) -> None:
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_it.py").write_text(FAULTS)
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if conftest else {}
    assert "2 passed" in run_pytest(tmp_path, **environment)


def test_pytest_finds_them() -> None:
    (found,) = (each for each in importlib.metadata.entry_points(group="pytest11") if each.name == "ottla")
    assert importlib.util.find_spec(found.value) is not None
