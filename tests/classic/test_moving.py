"""The page that moves a group from old consumers to new ones, played while a producer goes on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.classic import ProducerRequest, SyncProducer
from ottla.classic.messages import Message
from tests.classic.conftest import Place
from tests.cli.readers import Reader
from tests.peers.apache import SCRIPT, environment
from tests.peers.old_clients import OldConsumer
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.judge]

GROUP, TOPIC, PARTITIONS = "page-counts", "visits", 2
BETWEEN_S = 0.005
SOME = 60
QUICK = {"auto_offset_reset": "smallest", "zookeeper_session_timeout_ms": 4000, "rebalance_backoff_ms": 500}
SEE = block("sh", "describe page-counts --zookeeper", "docs/moving-consumers.md")
BOTH = block("properties", "dual.commit.enabled=true", "docs/moving-consumers.md")
KAFKA = block("properties", "dual.commit.enabled=false", "docs/moving-consumers.md")
NEW = block("properties", "bootstrap.servers", "docs/moving-consumers.md")
SEE_NEW = block("sh", "ottla group describe page-counts\n", "docs/moving-consumers.md")
CLEAN_UP = block("sh", "ottla group delete", "docs/moving-consumers.md")
MIGRATE = block("sh", "ottla group migrate", "docs/moving-consumers.md")

Seen = tuple[int, int]
"""Partition and offset."""


class Producing:
    """Sends records, a few at a time, until it is stopped."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stopped = threading.Event()
        self.sent = [0] * PARTITIONS
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with SyncProducer("127.0.0.1", self._place.port) as producer:
            while not self._stopped.wait(BETWEEN_S):
                for partition in range(PARTITIONS):
                    message = Message(b"%d" % self.sent[partition])
                    (found,) = producer.multi_send([ProducerRequest(TOPIC, partition, [message])])
                    assert found.error is None
                    self.sent[partition] += 1

    def stop(self) -> list[int]:
        self._stopped.set()
        self._thread.join(PATIENCE_S)
        return self.sent

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self.stop()


class Play:
    """The page's commands, and everybody who has read."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.old: list[OldConsumer] = []
        self.lines: list[list[str]] = []
        """Of each reader that prints `PARTITION OFFSET`."""

    def type(self, command: str) -> str:
        """What a command of the page prints."""
        typed = self._here(command).split()
        assert typed[0] == "ottla"
        where = [] if "--zookeeper" in typed else ["-b", self.place.bootstrap]
        done = subprocess.run(
            [sys.executable, "-m", *typed, *where], capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def settings(self, text: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self._here(text).splitlines())

    def _here(self, text: str) -> str:
        return text.replace("127.0.0.1:2181", self.place.zookeeper).replace("127.0.0.1:9092", self.place.bootstrap)

    def java(self, settings: str = "") -> OldConsumer:
        found = OldConsumer("0.10.2.2", self.place.zookeeper, GROUP, TOPIC, **QUICK, **self.settings(settings))
        self.old.append(found)
        return found.wait_ready()

    def reader(self, *arguments: str) -> Reader:
        found = Reader(TOPIC, "-g", GROUP, "-f", "%p %o\\n", "--from-beginning", *arguments)
        self.lines.append(found.lines)
        return found

    def storages(self) -> list[str]:
        """Where the offset of each partition is, by the command that shows the old group."""
        rows = [line.split(maxsplit=6) for line in self.type(SEE).splitlines()[2:]]
        return [row[6].split()[0] for row in rows if row[0] == TOPIC]

    def owners(self) -> set[str]:
        """Who owns partitions, without the thread's number."""
        rows = [line.split() for line in self.type(SEE).splitlines()[2:]]
        return {row[5].rpartition("-")[0] for row in rows if row[0] == TOPIC and row[5] != "-"}

    def by_each(self) -> list[list[Seen]]:
        """What each reader has seen, in its order."""
        found = [[(each.partition, each.offset) for each in reader.consumed] for reader in self.old]
        for lines in self.lines:
            found.append([(int(partition), int(offset)) for partition, offset in map(str.split, list(lines))])
        return found

    def count(self) -> int:
        return sum(map(len, self.by_each()))

    def some_more(self) -> None:
        """Waits until more is read."""
        before = self.count()
        eventually("more is read", lambda: self.count() >= before + SOME)

    def check(self, sent: list[int]) -> None:
        """Each record was seen once, and by each reader in order."""
        each = self.by_each()
        assert sorted(seen for reader in each for seen in reader) == [
            (partition, offset) for partition in range(PARTITIONS) for offset in range(sent[partition])
        ]
        for reader in each:
            assert reader
            for partition in range(PARTITIONS):
                offsets = [offset for of, offset in reader if of == partition]
                assert offsets == sorted(offsets)


class NewJava:
    """Java's console consumer of 3.9 with the settings of the page."""

    def __init__(self, play: Play) -> None:
        self.lines: list[str] = []
        play.lines.append(self.lines)
        settings = play.settings(NEW)
        command = [str(SCRIPT), "tool", "3.9.2", "console-consumer", "--topic", TOPIC]
        command += ["--bootstrap-server", settings.pop("bootstrap.servers"), "--group", settings.pop("group.id")]
        for name, value in settings.items():
            command += ["--consumer-property", f"{name}={value}"]
        for name in ("print.partition=true", "print.offset=true", "print.value=false"):
            command += ["--property", name]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment(192)}
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        """`Partition:1\tOffset:17` becomes `1 17`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(" ".join(part.partition(":")[2] for part in line.split()))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self._thread.join(PATIENCE_S)
            assert self.process.stdout is not None
            self.process.stdout.close()


def test_a_group_moves_without_a_gap_or_a_double(ours: Place) -> None:
    ours.create(TOPIC, PARTITIONS)
    play, producing = Play(ours), Producing(ours)
    with producing.running():
        with play.java():
            play.some_more()
            with beside(play.reader("--classic", "--zookeeper", ours.zookeeper)) as classic:
                eventually("each has a partition", lambda: len(play.owners()) == 2)
                play.some_more()
                play.old[0].stop()
                eventually("the other has both", lambda: len(play.owners()) == 1)
                play.some_more()
                assert play.storages() == ["zookeeper"] * PARTITIONS
                with play.java(BOTH) as first:
                    eventually("each has a partition", lambda: len(play.owners()) == 2)
                    classic.interrupt()
                    eventually("one has both", lambda: len(play.owners()) == 1)
                    play.some_more()
                    first.commit()
                    assert play.storages() == ["both"] * PARTITIONS
                    with play.java(KAFKA) as second:
                        eventually("each has a partition", lambda: len(play.owners()) == 2)
                        first.stop()
                        eventually("one has both", lambda: len(play.owners()) == 1)
                        play.some_more()
                        second.commit()
                        assert play.storages() == ["kafka"] * PARTITIONS
                        second.stop()
        assert f"{GROUP}: in ZooKeeper, 0 members" in play.type(SEE)
        newest = NewJava(play)
        try:
            play.some_more()
            with beside(play.reader("-b", ours.bootstrap)) as member:
                eventually("both read", lambda: len(member.lines) >= SOME)
                assert f"{GROUP}: Stable, 2 members" in play.type(SEE_NEW)
                member.interrupt()
            play.some_more()
            sent = producing.stop()
            eventually("everything is read", lambda: play.count() >= sum(sent), facts=play.by_each)
        finally:
            newest.stop()
    play.check(sent)
    assert play.type(CLEAN_UP) == f"deleted group {GROUP}\n"
    assert f"{GROUP}: Empty, 0 members" in play.type(SEE_NEW)


@contextmanager
def beside(reader: Reader) -> Iterator[Reader]:
    try:
        yield reader
    finally:
        reader.end()


def test_the_shorter_way(theirs: Place) -> None:
    """With Apache Kafka's broker: the offsets are copied while nobody reads."""
    theirs.create(TOPIC, PARTITIONS)
    play, producing = Play(theirs), Producing(theirs)
    with producing.running():
        with play.java():
            play.some_more()
        assert f"{GROUP}: in ZooKeeper, 0 members" in play.type(SEE)
        assert "copied" in play.type(MIGRATE)
        newest = NewJava(play)
        try:
            play.some_more()
            sent = producing.stop()
            eventually("everything is read", lambda: play.count() >= sum(sent), facts=play.by_each)
        finally:
            newest.stop()
    play.check(sent)
