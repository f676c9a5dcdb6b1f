"""The command `ottla` inside the test's process, and the clusters that it talks to."""

import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ottla.cli.main import main
from tests.cluster.stand import Cluster
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers


@dataclass(frozen=True)
class Result:
    """The result of a command: its exit code and all it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[object]:
        """Its output as JSON, one value a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Ottla = Callable[..., Result]


@contextlib.contextmanager
def as_in_a_process() -> Iterator[None]:
    """Restores where log lines of the whole process go: a command sends them to the test's stderr."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture
def ottla(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """ottla("topic", "list", stdin=b"...") runs it as a process would; the test fails unless it ends with `code`."""

    # Not the descriptors: a client that an earlier test of this process has left may write there.
    def run(*arguments: str, stdin: bytes = b"", code: int = 0) -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended, as_in_a_process():
            main(arguments)
        out, err = capsys.readouterr()
        assert ended.value.code == code, f"{arguments} ended with {ended.value.code}:\n{out}\n{err}"
        return Result(code, out, err)

    return run


#: In the gate our client alone meets it (`tests/client`).
KAFKA = pytest.param("kafka-2.7.2", marks=[pytest.mark.java, pytest.mark.judge])


@pytest.fixture(scope="module", params=[KAFKA, "ottla"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a broker for all tests of a file: once Apache's, to see that our commands are right, once ours."""
    folder = tmp_path_factory.mktemp("cluster")
    # Records of 1970 are part of the tests, and Kafka looks for what is too old half a minute after its start.
    settings = {"log.retention.ms": -1}
    if request.param == "ottla":
        with Brokers(folder) as brokers:
            yield brokers(settings=settings).bootstrap
    else:
        with Apache(folder) as apache:
            yield apache.broker("2.7.2", zookeeper=apache.zookeeper(), settings=settings).bootstrap


@pytest.fixture(
    scope="module",
    params=["ottla", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("kafka", "kafka-3.9.2"))],
)
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers for all tests of a file, which see to it that they are as they were. Leaders stay where they are
    put.
    """
    with Cluster(tmp_path_factory.mktemp("three"), (request.param,) * 3, namespaces=False) as cluster:
        yield cluster
