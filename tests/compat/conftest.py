"""The broker under test and the state of a matrix run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import table
from tests.compat.matrix import Matrix
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers

# Members start at once: three seconds before each first generation would be all that the tests of groups do.
SETTINGS = {"group.initial.rebalance.delay.ms": 100}


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Matrix]:
    """One broker for all clients: ours, or with OTTLA_JUDGE=kafka Apache Kafka 2.7.2, which proves the judge itself."""
    folder = tmp_path_factory.mktemp("matrix")
    (folder / "records").mkdir()
    if os.environ.get("OTTLA_JUDGE") == "kafka":
        with Apache(folder) as apache:
            kafka = apache.broker("2.7.2", zookeeper=apache.zookeeper(), settings=SETTINGS, heap_mb=768)
            yield from _run(kafka.bootstrap, kafka.data, folder, "Apache Kafka 2.7.2", request.config)
    else:
        with Brokers(folder) as brokers:
            broker = brokers(settings=SETTINGS)
            yield from _run(broker.bootstrap, broker.data, folder, "Ottla", request.config)


def _run(bootstrap: str, data: Path, folder: Path, name: str, config: pytest.Config) -> Iterator[Matrix]:
    matrix = Matrix(bootstrap, data, folder / "records", name)
    try:
        yield matrix
    finally:
        matrix.close()
        config.stash[table.MATRIX] = matrix


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table of a run is printed; OTTLA_WRITE_TABLE=1 also writes it to docs/clients.md."""
    matrix = config.stash.get(table.MATRIX, None)
    if matrix is None or not matrix.passed:
        return
    text = table.render(matrix.passed, matrix.versions)
    terminalreporter.section(f"clients against {matrix.broker_name}")
    terminalreporter.write_line(text)
    if os.environ.get("OTTLA_WRITE_TABLE"):
        table.write(text)
