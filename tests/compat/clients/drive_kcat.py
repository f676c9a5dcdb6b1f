"""Drives kcat, the command-line client over librdkafka, with one process per command.

kcat sends lines of text: the same headers for all records, no timestamps, and the partition is chosen by the key's
CRC-32. The judge makes records that fit. It prints what it reads in a format of our choice;
headers only as text, which becomes one nameless header here.
"""

import re
import subprocess
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from worker import DEADLINE_S, HEARTBEAT_MS, SESSION_MS, Record, Start, serve

FORMAT = r"%p %o %T %K %S %h\n%k%s\n"
COMMON = [
    "kcat",
    "-E",
    "-X",
    "message.max.bytes=1048588",
    "-X",
    "batch.num.messages=1000",
    "-X",
    "reconnect.backoff.ms=10",
    "-X",
    "retry.backoff.ms=20",
]
COMMON += ["-X", "reconnect.backoff.max.ms=100", "-X", "fetch.wait.max.ms=20", "-X", "check.crcs=true"]


class KcatMember:
    """A kcat process; it tells of rebalances on stderr, and commits what it has printed when it ends."""

    def __init__(self, bootstrap: str, topic: str, group: str, instance: str | None) -> None:
        command = [*COMMON, "-b", bootstrap, "-G", group, "-u", "-f", FORMAT, "-X", "auto.offset.reset=earliest"]
        command += ["-X", f"session.timeout.ms={SESSION_MS}", "-X", f"heartbeat.interval.ms={HEARTBEAT_MS}"]
        command += ["-X", f"group.instance.id={instance}"] if instance is not None else []
        self.process = subprocess.Popen([*command, topic], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.places: set[int] = set()
        self.output = b""
        self.news = threading.Condition()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._read)]
        for thread in self.threads:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if match := re.search(rb"rebalanced.*(assigned|revoked): (.*)", line):
                found = {int(number) for number in re.findall(rb"\[(\d+)\]", match[2])}
                self.places = found if match[1] == b"assigned" else set()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while data := self.process.stdout.read1():
            with self.news:
                self.output += data
                self.news.notify()

    def poll(self) -> list[Record]:
        """The records that came since, or come within a moment."""
        with self.news:
            self.news.wait_for(lambda: self.output, timeout=0.05)
            # Whole records: the output ends with the newline of the last one only between two writes.
            try:
                records = parse(self.output)
            except (ValueError, AssertionError):
                self.news.wait(timeout=0.05)
                return []
            self.output = b""
        return records

    def assigned(self) -> set[int]:
        return self.places

    def commit(self) -> None:
        pass

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        for thread in self.threads:
            thread.join()


def parse(output: bytes) -> list[Record]:
    records, position = [], 0
    while position < len(output):
        line_end = output.index(b"\n", position)
        fields = output[position:line_end].split(b" ", 5)
        partition, offset, timestamp_ms, key_size, value_size = map(int, fields[:5])
        key_start = line_end + 1
        value_start = key_start + max(0, key_size)
        position = value_start + max(0, value_size)
        key = output[key_start:value_start] if key_size >= 0 else None
        value = output[value_start:position] if value_size >= 0 else None
        headers = (("", fields[5]),) if fields[5] else ()
        assert output[position : position + 1] == b"\n", "the framing is ours"
        position += 1
        records.append(Record(partition, offset, timestamp_ms, key, value, headers))
    return records


class Kcat:
    def version(self) -> str:
        text = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
        version, library = re.search(r"Version (\S+).*librdkafka ([\d.]+)", text).groups()  # type: ignore[union-attr]
        return f"{version} (librdkafka {library})"

    def produce(
        self, bootstrap: str, topic: str, records: list[Record], codec: str, acks: str, idempotent: bool
    ) -> list[int | None]:
        command = [*COMMON, "-P", "-b", bootstrap, "-t", topic, "-z", codec, "-X", "linger.ms=20", "-K", "\t"]
        command += ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
        command += ["-X", "topic.partitioner=consistent"]
        for name, value in records[0].headers:
            command += ["-H", f"{name}={(value or b'').decode()}"]
        with TemporaryDirectory() as folder:
            lines = Path(folder) / "lines"
            keys = (b"" if r.key is None else r.key + b"\t" for r in records)  # no delimiter: no key
            lines.write_bytes(b"".join(key + (r.value or b"") + b"\n" for key, r in zip(keys, records, strict=True)))
            done = subprocess.run([*command, "-l", str(lines)], capture_output=True, text=True, timeout=DEADLINE_S)
        if done.returncode != 0 or "failed" in done.stderr.lower():
            raise RuntimeError(f"kcat ended with {done.returncode}: {done.stderr.strip()}")
        return [None] * len(records)

    def _command(self, bootstrap: str, topic: str, offset: str) -> list[str]:
        return [*COMMON, "-C", "-b", bootstrap, "-t", topic, "-o", offset, "-f", FORMAT]

    def consume(self, bootstrap: str, topic: str, partitions: int, start: Start) -> list[Record]:
        offset = {"earliest": "beginning", "timestamp": f"s@{start.value}"}.get(start.kind, str(start.value))
        done = subprocess.run(
            [*self._command(bootstrap, topic, offset), "-e", "-q"], capture_output=True, timeout=DEADLINE_S
        )
        if done.returncode != 0:
            raise RuntimeError(f"kcat ended with {done.returncode}: {done.stderr.decode().strip()}")
        return parse(done.stdout)

    def latest(self, bootstrap: str, topic: str, partitions: int, records: list[Record]) -> list[Record]:
        command = [*self._command(bootstrap, topic, "end"), "-u", "-c", str(len(records))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            killer = threading.Timer(DEADLINE_S, consumer.kill)
            killer.start()
            ends = set()
            while len(ends) < partitions:
                line = consumer.stderr.readline().decode()
                if not line:
                    raise RuntimeError(f"kcat ended before the end of {partitions - len(ends)} partitions")
                if match := re.search(r"Reached end of topic \S+ \[(\d+)\]", line):
                    ends.add(match[1])
            threading.Thread(target=consumer.stderr.read, daemon=True).start()
            self.produce(bootstrap, topic, records, "none", "all", False)
            output = consumer.stdout.read()
            killer.cancel()
        return parse(output)

    def member(self, bootstrap: str, topic: str, group: str, instance: str | None) -> "KcatMember":
        return KcatMember(bootstrap, topic, group, instance)

    def admin(self, bootstrap: str, topic: str) -> None:
        return None


if __name__ == "__main__":
    serve(Kcat())
