"""Fixtures of every test: skips that cannot hide, free ports, and Kafka, ZooKeeper and our own broker as processes.

Servers of a failed test are shown with the end of their output; the whole is kept in pytest's temporary folder.
"""

import functools
import gc
import itertools
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.peers import forks, ports, processes
from tests.peers.apache import Apache
from tests.peers.ottla import Broker, Brokers
from tests.peers.skips import require, required
from tests.spark.stops import Stops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import LoadScopeScheduling

__all__ = ["require"]

#: Of Spark's JVMs in tests, which live for a minute: with its second compiler a JVM spends more on compiling than on
#: all else. Checking Spark's classes is a tenth of its start.
SPARK_JVM = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


def pytest_configure(config: pytest.Config) -> None:
    required()
    forks.is_on = os.environ.get("OTTLA_TEST_STARTS", "copies") != "own"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SPARK_JVM)
    # An example may take as long as the machine needs, and so may what makes it: the first text needs a table of all
    # of Unicode.
    untimed = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
    hypothesis.settings.register_profile("untimed", hypothesis.settings(), **untimed)
    hypothesis.settings.load_profile("untimed")
    # Nothing here multiplies matrices: the threads that numpy starts for it only spin, in each process.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A shell without job control starts what it puts into the background with SIGINT ignored; children inherit it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> "LoadScopeScheduling":
    """Several processes run the tests (`-n 4`): what tests share stays in one of them, a file's servers and what
    `_shared` names.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return _shared(config.rootpath / file) or file

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_finish() -> None:
    # Tests that are collected stay to the end: without this each whole collection of garbage looks at all of them.
    gc.freeze()


#: So many descriptors a process of tests has at most when a file of them begins, or garbage is looked for.
DESCRIPTORS_MAX = 200


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Brokers inside the process are cycles that hold descriptors. Python counts objects, not descriptors, before it
    looks for garbage.
    """
    yield
    is_last = nextitem is None or nextitem.path != item.path
    if is_last and len(os.listdir("/proc/self/fd")) > DESCRIPTORS_MAX:
        gc.collect()


#: The time that a soak test may take; any other has pyproject's `timeout`.
SOAK_SECONDS = 3 * 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # What takes longest comes first.
    items.sort(key=lambda item: _SHARED.index(_shared(item.path)))
    for item in items:
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS))


#: The things that tests of several files share: the one Spark session of a run (a file names its type), and the
#: machine, as far as one cluster at a time is enough for it.
_SHARED = ("spark", "cluster", "")
_CLUSTERS = Path(__file__).with_name("cluster")


@functools.cache
def _shared(file: Path) -> str:
    if file.is_relative_to(_CLUSTERS):
        return "cluster"
    return "spark" if 'spark: "SparkSession"' in file.read_text() else ""


@pytest.fixture
def free_port() -> int:
    return ports.free_port()


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real input, from $OTTLA_TEST_DATA."""
    folder = os.environ.get("OTTLA_TEST_DATA")
    if not folder:
        require("data", "real input is not part of the project; $OTTLA_TEST_DATA names its folder")
    return Path(folder)


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Apache]:
    """Apache's servers of this test: kafka.zookeeper(), kafka.broker("3.9.2"), kafka.tool("3.9.2", "topics", ...)."""
    with Apache(tmp_path) as apache:
        yield apache


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of one ZooKeeper for the whole run; a test takes a chroot of its own from `zookeeper`."""
    with Apache(tmp_path_factory.mktemp("zookeeper")) as apache:
        yield apache.zookeeper()


_chroots = itertools.count(1)


@pytest.fixture
def zookeeper(zookeeper_server: str) -> str:
    """HOST:PORT/chroot with a chroot that no other test uses and that does not exist yet."""
    return f"{zookeeper_server}/test-{next(_chroots)}"


@pytest.fixture(scope="session")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Stops:
    """Where the sink's processes of the session `spark` can be stopped."""
    folder = tmp_path_factory.mktemp("sink-stops")
    os.environ["OTTLA_SINK_STOPS"] = str(folder)
    return Stops(folder)


@pytest.fixture(scope="session")
def spark(stops: Stops, tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One Spark session for the whole run, with two cores and a small heap: it costs eight seconds and a gigabyte."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        require("spark", "pyspark is not installed")
    from ottla.spark import session

    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    spark = session("ottla tests", cores=2, memory="512m", settings=warehouse)
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """A factory of our own brokers, stopped at the end: brokers(settings={...}, zookeeper=..., data=...)."""
    with Brokers(tmp_path) as factory:
        yield factory


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    """One of our own brokers with default settings on an empty data directory."""
    return brokers()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for server in processes.STARTED:
            if (server.running or report.when == "call") and (tail := server.output_tail(30)):
                report.sections.append((f"{server.name}: end of {server.log}", tail))
    if report.when == "teardown":
        processes.STARTED[:] = [server for server in processes.STARTED if server.running]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Every run ends with its skips, so that nobody takes a run without Java for a proof."""
    skipped = terminalreporter.stats.get("skipped", [])
    terminalreporter.section(f"skips: {len(skipped) or 'none'}")
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")
