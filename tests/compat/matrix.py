"""The judge of the client matrix: which clients, which cells, what each must have sent and seen.

One run has one broker under test (ours, or Apache Kafka 2.7.2 with OTTLA_JUDGE=kafka, which proves the judge itself),
one worker process per client, and a table of results. Expected records are made here, written to files for the workers
to send, and compared record by record with the files that workers write.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.clients.worker import DEADLINE_S, Record, by_place, eventually, read_records, write_records
from tests.peers.apache import need_java
from tests.peers.processes import is_readable, with_parent
from tests.peers.segments import Batch, batches
from tests.peers.skips import require
from tests.support import waiting
from tests.support.waiting import PATIENCE_S

JVM = {"KAFKA_HEAP_OPTS": "-Xms64m -Xmx384m", "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DRIVERS = HERE / "clients"
KAFKA = ROOT / "tests" / "peers" / "kafka"

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
KAFKAS = ("2.7.2", "3.9.2", "4.3.1")
RECORDS = 10_002  # over three partitions
FILLER = b"the quick brown fox jumps over the lazy dog while every broker keeps what it was given, byte by byte. " * 4


@dataclass(frozen=True)
class Client:
    """One column of the table. kind is the mark and the word in OTTLA_REQUIRE: clients or java."""

    name: str
    kind: str
    driver: str
    environment: str = ""  # a folder below .venvs; empty: the project's own environment
    java: str = ""
    release: str = "newest"  # of its family: the oldest is in the gate where releases differ, one between never

    @property
    def is_kcat(self) -> bool:
        return self.driver == "drive_kcat.py"

    def command(self) -> list[str]:
        if self.java:
            return [str(KAFKA), "java", self.java, str(DRIVERS / self.driver)]
        python = ROOT / ".venvs" / self.environment / "bin" / "python" if self.environment else Path(sys.executable)
        return [str(python), "-W", "ignore", str(DRIVERS / self.driver)]


CLIENTS = (
    Client("confluent-kafka", "clients", "drive_confluent.py"),
    Client("confluent-kafka 2.8.0", "clients", "drive_confluent.py", "confluent-2.8.0", release="between"),
    Client("confluent-kafka 2.6.0", "clients", "drive_confluent.py", "confluent-2.6.0", release="oldest"),
    Client("kafka-python", "clients", "drive_kafka_python.py"),
    Client("aiokafka", "clients", "drive_aiokafka.py"),
    Client("kcat", "clients", "drive_kcat.py"),
    Client("Java 2.7.2", "java", "Drive.java", java="2.7.2", release="oldest"),
    Client("Java 3.9.2", "java", "Drive.java", java="3.9.2", release="between"),
    Client("Java 4.3.1", "java", "Drive.java", java="4.3.1"),
)


class Worker:
    """A client's process. A command that fails or takes too long raises AssertionError with what the client said."""

    def __init__(self, client: Client, log: Path) -> None:
        self.client = client
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                with_parent(client.command()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **JVM},
            )

    def ask(self, command: str, **fields: object) -> dict[str, str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print("\t".join([command, *(f"{k}={v}" for k, v in fields.items())]), file=self.process.stdin, flush=True)
            is_told = is_readable(self.process.stdout, DEADLINE_S + 30)
            answer = self.process.stdout.readline().rstrip("\n") if is_told else "error\tno answer"
        except BrokenPipeError:
            answer = ""
        if not answer or answer == "error\tno answer":
            self.process.kill()
        outcome, *rest = answer.split("\t")
        if outcome != "ok":
            told = " ".join(rest) or "the worker ended"
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])
            raise AssertionError(f"{self.client.name}: {command} {fields}: {told}\n{tail}")
        return dict(part.split("=", 1) for part in rest)

    def end(self) -> None:
        """The process ends when it has read so far."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self, patience_s: float) -> str:
        """Empty if the process ends by itself. It is killed if it does not; who else has its input is told then."""
        assert self.process.stdout is not None
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            holders, stacks = self._holders_of_input(), self._stacks()
            self.process.kill()
            self.process.wait()
            return f"{self.client.name}, whose input is open in {holders}, and whose stacks are\n{stacks}"
        finally:
            self.process.stdout.close()
        return ""

    def _stacks(self) -> str:
        """Where its threads are: those of Python as the worker prints them, and what each waits for in the kernel."""
        before = self.log.stat().st_size
        if not self.client.java:
            self.process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(AssertionError):
                waiting.eventually("stacks", lambda: self.log.stat().st_size > before, timeout_s=5)
        waits = [
            f"{(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}"
            for task in Path(f"/proc/{self.process.pid}/task").iterdir()
        ]
        return self.log.read_text(errors="replace")[before:] + "\n".join(waits)

    def _holders_of_input(self) -> list[str]:
        """The commands of all processes that have an end of its input."""
        pipe = os.readlink(f"/proc/{self.process.pid}/fd/0")
        found = []
        # Descriptors and processes go while they are looked at.
        for process in Path("/proc").glob("[0-9]*"):
            descriptors: list[Path] = []
            with contextlib.suppress(OSError):
                descriptors += (process / "fd").iterdir()
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) == pipe:
                        found.append(f"{process.name}: {(process / 'cmdline').read_text().replace(chr(0), ' ')}")
                        break
        return found


@dataclass
class Matrix:
    """State of one run: the broker under test, its workers, and which cells passed."""

    bootstrap: str
    data: Path  # the broker's log directory
    folder: Path  # for files to and from workers
    broker_name: str
    workers: dict[str, Worker] = field(default_factory=dict)
    passed: dict[tuple[str, str], int] = field(default_factory=dict)  # (client, row) -> cells passed
    sent: dict[str, list[Record]] = field(default_factory=dict)  # topic -> records as they must be in it
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.control = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.base_ms = int(time.time() * 1000) - 3_600_000

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def worker(self, client: Client) -> Worker:
        """The client's running process; skips (or fails, where it is required) if its environment is absent."""
        worker = self.workers.get(client.name)
        if worker is None or worker.process.poll() is not None:
            if client.java:
                need_java()
            elif not Path(client.command()[0]).exists():
                require("clients", f"{client.name} has no environment in .venvs; `make clients-tools` makes it")
            elif client.is_kcat and shutil.which("kcat") is None:
                require("clients", "kcat is not installed (Debian: apt-get install kcat)")
            worker = Worker(client, self.folder / f"{client.name.replace(' ', '-')}.log")
            self.workers[client.name] = worker
            self.versions[client.name] = worker.ask("version")["version"]
        return worker

    def create(self, topics: Iterable[str], partitions: int = 3) -> None:
        """Create topics and wait until each partition has a leader, so that acks=0 cannot lose what was sent early."""
        new = [NewTopic(topic, partitions, 1, config={"retention.ms": "-1"}) for topic in topics]
        for future in self.control.create_topics(new, operation_timeout=PATIENCE_S).values():
            future.result(PATIENCE_S)
        wanted = {topic.topic for topic in new}

        def have_leaders() -> bool:
            known = self.control.list_topics(timeout=PATIENCE_S).topics
            wanted.difference_update(
                [
                    topic
                    for topic in wanted
                    if topic in known
                    and len(known[topic].partitions) == partitions
                    and all(partition.leader >= 0 for partition in known[topic].partitions.values())
                ]
            )
            return not wanted

        waiting.eventually("all have leaders", have_leaders, facts=lambda: sorted(wanted)[:5])

    def produce(
        self,
        client: Client,
        topic: str,
        records: list[Record],
        *,
        codec: str,
        acks: str,
        idempotent: bool = False,
        bootstrap: str | None = None,
    ) -> None:
        """Send the records; checks what was acknowledged and that the log holds batches of that codec."""
        path = self.folder / f"{topic}.in"
        write_records(path, records)
        told = self.worker(client).ask(
            "produce",
            bootstrap=bootstrap or self.bootstrap,
            topic=topic,
            input=path,
            codec=codec,
            acks=acks,
            idempotent=str(idempotent).lower(),
        )
        path.unlink()
        self.sent.setdefault(topic, []).extend(records)
        if acks == "0":  # the client is done when it has sent: what it sent may still be on its way
            eventually(lambda: str(sum(b.record_count for b in self.batches(topic))), str(len(self.sent[topic])))
        elif not client.is_kcat:
            assert told == {key: str(len(records)) for key in ("records", "acknowledged", "right")}, told

    def transact(self, client: Client, topic: str, records: list[Record], size: int) -> str:
        """Sends records in transactions; see worker.py. Whether the first producer was fenced: yes or no."""
        path = self.folder / f"{topic}.in"
        write_records(path, records)
        told = self.worker(client).ask(
            "transact", bootstrap=self.bootstrap, topic=topic, id=f"{topic}-id", input=path, size=size
        )
        path.unlink()
        return told["fenced"]

    def consume(
        self, client: Client, topic: str, start: str, value: int = 0, *, partitions: int = 3, isolation: str = ""
    ) -> list[Record]:
        path = self.folder / f"{topic}.out"
        self.worker(client).ask(
            "consume",
            bootstrap=self.bootstrap,
            topic=topic,
            partitions=partitions,
            output=path,
            value=value,
            **{"from": start},
            **({"isolation": isolation} if isolation else {}),
        )
        seen = read_records(path)
        path.unlink()
        return seen

    def latest(self, client: Client, topic: str, records: list[Record]) -> list[Record]:
        given, taken = self.folder / f"{topic}.in", self.folder / f"{topic}.out"
        write_records(given, records)
        places = {"bootstrap": self.bootstrap, "topic": topic, "partitions": 3}
        self.worker(client).ask("latest", **places, input=given, output=taken)
        return read_records(taken)

    def share(self, client: Client, topic: str, records: list[Record]) -> tuple[list[Record], str]:
        """The records that members of a group read between them, and how many partitions each had; see worker.py."""
        given, taken = self.folder / f"{topic}.in", self.folder / f"{topic}.out"
        write_records(given, records)
        places = {"bootstrap": self.bootstrap, "topic": topic, "group": topic, "partitions": 3}
        told = self.worker(client).ask("group", **places, input=given, output=taken)
        return read_records(taken), told["shares"]

    def come_back(self, client: Client, topic: str) -> str:
        """The fate of a static member's share while its process was replaced."""
        places = {"bootstrap": self.bootstrap, "topic": topic, "group": topic, "partitions": 3}
        return self.worker(client).ask("static", **places)["seen"]

    def batches(self, topic: str, partitions: int = 3) -> Iterator[Batch]:
        for partition in range(partitions):
            yield from batches(self.data / f"{topic}-{partition}", live=True)

    def passes(self, client: Client, row: str) -> None:
        self.passed[client.name, row] = self.passed.get((client.name, row), 0) + 1

    def close(self) -> None:
        """Ends all workers at once; an AssertionError names those that do not end."""
        for worker in self.workers.values():
            worker.end()
        until = time.monotonic() + PATIENCE_S
        ends = [worker.ended(max(0, until - time.monotonic())) for worker in self.workers.values()]
        assert not any(ends), f"these did not end with their input: {[*filter(None, ends)]}"


def slug(client: Client) -> str:
    return client.name.replace(" ", "-")


def plain(topic: str, client: Client, base_ms: int, count: int = RECORDS, partitions: int = 3) -> list[Record]:
    """Records as most programs send them: a key, some text, now and then a header; 40 to 220 bytes."""
    records = []
    for index in range(count):
        text = b"%s %d " % (topic.encode(), index)
        value = text + FILLER[index % 101 : index % 101 + index * 37 % 181]
        headers = () if index % 10 or client.is_kcat else (("trace", b"%08x" % index),)
        records.append(Record(index % partitions, 0, base_ms + index, b"key-%d" % index, value, headers))
    return placed(records, client, partitions)


def placed(records: list[Record], client: Client, partitions: int, first: int = 0) -> list[Record]:
    """The same with the offset that the broker must give, when each partition's next is `first`.

    kcat takes no partition for a record: librdkafka chooses it by the key's CRC-32.
    """
    following = [first] * partitions
    result = []
    for record in records:
        partition = zlib.crc32(record.key or b"") % partitions if client.is_kcat else record.partition
        result.append(record._replace(partition=partition, offset=following[partition]))
        following[partition] += 1
    return result


def as_seen_by(reader: Client, writer: Client, records: Iterable[Record]) -> list[Record]:
    """The records as they are left where a client cannot show or set all of one: kcat's headers are text, and it sets
    no timestamp (0 stands for any).
    """
    result = []
    for record in by_place(records):
        if reader.is_kcat and record.headers and record.headers[0][0]:
            text = b",".join(b"%s=%s" % (name.encode(), b"NULL" if v is None else v) for name, v in record.headers)
            record = record._replace(headers=(("", text),))
        if writer.is_kcat:
            record = record._replace(timestamp_ms=0)
        result.append(record)
    return result


def compare(reader: Client, writer: Client, expected: Iterable[Record], seen: Iterable[Record]) -> None:
    """Fails with the first record that differs, is missing, or came twice."""
    wanted, got = as_seen_by(reader, writer, expected), as_seen_by(reader, writer, seen)
    if wanted == got:
        return
    for want, have in zip(wanted, got, strict=False):
        assert want == have, f"{len(wanted)} records expected, {len(got)} seen; the first difference"
    raise AssertionError(f"{len(wanted)} records expected, {len(got)} seen; the shorter is a prefix")


def check_batches(found: list[Batch], records: int, codec: str) -> None:
    """Each batch is of the codec (one of a few records may not be worth it to a client) and holds several records."""
    assert sum(batch.record_count for batch in found) == records
    assert len(found) * 2 <= records, f"{records} records in {len(found)} batches"
    assert {batch.codec for batch in found if batch.record_count >= 10} == {codec}
