"""The common part of every driven client: how records lie in a file, and the loop that takes commands.

Each client library is driven by a process of its own (its own environment, or a JVM), so that versions live side by
side and nothing of a client runs inside the judge. The judge writes the records to send into a file and compares the
file that a consumer wrote; clients therefore share only this format and this loop. Standard library only.

A record file is records one after another, all integers big-endian:

    partition i32 | offset i64 | timestamp_ms i64 | key | value | headers i32 | (name | value) per header

where each of key, value and name is a length i32 (-1: null) and so many bytes. In a file to send, `offset` is the one
that the broker must give. A command is one line of fields separated by tabs, `name key=value ...`; the answer is one
line, `ok key=value ...` or `error text`.
"""

import faulthandler
import gc
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

HEAD = struct.Struct(">iqq")
LENGTH = struct.Struct(">i")
DEADLINE_S = 60.0  # for one command, as PATIENCE_S of tests/support/waiting.py, which these processes do not import


class Record(NamedTuple):
    """One record as a client sends or sees it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Start(NamedTuple):
    """Where a consumer starts: kind is earliest, offset or timestamp; value is the offset or the milliseconds."""

    kind: str
    value: int = 0


class Driver(Protocol):
    """One client library."""

    def version(self) -> str: ...

    def produce(
        self, bootstrap: str, topic: str, records: list[Record], codec: str, acks: str, idempotent: bool
    ) -> list[int | None]:
        """Send all records in order and flush; returns the acknowledged offset of each, None where there is none."""

    def transact(self, bootstrap: str, topic: str, transactional_id: str, records: list[Record], size: int) -> bool:
        """Two producers take the same id. The older one sends the first `size` records and tries to commit them after
        the newer one has come; the newer one sends the rest, `size` records in a transaction, and aborts every third
        (the second, the fifth...). Whether the older one was told that it is fenced.
        """

    def consume(self, bootstrap: str, topic: str, partitions: int, start: Start) -> list[Record]:
        """Assign all partitions, start there, and read until the end of each."""

    def latest(self, bootstrap: str, topic: str, partitions: int, records: list[Record]) -> list[Record]:
        """Assign all partitions at their end, then produce, then read what was produced."""

    def member(self, bootstrap: str, topic: str, group: str, instance: str | None) -> "Member":
        """A consumer that joins a group and subscribes; it begins at the earliest, and commits only when told to."""

    def admin(self, bootstrap: str, topic: str) -> "Admin | None":
        """The library's administration of that topic, if it has one."""


class Member(Protocol):
    """A consumer in a group. It does its part only while it is polled, or in threads of its own."""

    def poll(self) -> list[Record]:
        """The records that come in about 50 ms."""

    def assigned(self) -> set[int]:
        """The partitions that it has now."""

    def commit(self) -> None:
        """Stores how far it has read, and waits for the answer."""

    def close(self) -> None:
        """Leaves the group (a static member does not), having committed."""


class Admin(Protocol):
    """Administration of one topic. A configuration is shown as `value SOURCE`; None: the library has no such call."""

    def create(self, partitions: int, configs: dict[str, str]) -> str:
        """`created`, or the error's name in capitals."""

    def partitions(self) -> str:
        """The number of partitions, or `none` if there is no such topic."""

    def grow(self, partitions: int) -> None: ...

    def config(self, name: str) -> str: ...

    incremental: "Callable[[str, str | None], object] | None"  # (name, value or None to delete)

    replace: "Callable[[str, str], object] | None"  # AlterConfigs: all settings become this one

    def delete(self) -> None: ...

    def close(self) -> None: ...


def _bytes(value: bytes | None) -> bytes:
    return LENGTH.pack(-1) if value is None else LENGTH.pack(len(value)) + value


def pack(record: Record) -> bytes:
    parts = [HEAD.pack(*record[:3]), _bytes(record.key), _bytes(record.value), LENGTH.pack(len(record.headers))]
    for name, value in record.headers:
        parts += [_bytes(name.encode()), _bytes(value)]
    return b"".join(parts)


def write_records(path: Path, records: Iterable[Record]) -> None:
    path.write_bytes(b"".join(map(pack, records)))


def read_records(path: Path) -> list[Record]:
    data, position, records = path.read_bytes(), 0, []

    def take() -> bytes | None:
        nonlocal position
        (length,) = LENGTH.unpack_from(data, position)
        position += 4
        if length < 0:
            return None
        position += length
        return data[position - length : position]

    while position < len(data):
        head = HEAD.unpack_from(data, position)
        position += HEAD.size
        key, value = take(), take()
        (count,) = LENGTH.unpack_from(data, position)
        position += 4
        headers = tuple(((take() or b"").decode(), take()) for _ in range(count))
        records.append(Record(*head, key, value, headers))
    return records


def by_place(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record[:2])


def eventually(see: Callable[[], str], wanted: str, timeout_s: float = DEADLINE_S) -> str:
    """Ask until the answer is the wanted one, since metadata spreads after an answer; returns the last answer."""
    deadline = time.monotonic() + timeout_s
    while (seen := see()) != wanted and time.monotonic() < deadline:
        pass
    return seen


def administer(admin: Admin) -> list[str]:
    """Create, describe, grow, configure and delete a topic; what was seen at each step."""
    seen = [admin.create(3, {"retention.ms": "123456789"})]
    seen.append("partitions " + eventually(admin.partitions, "3"))
    seen.append("retention.ms " + admin.config("retention.ms"))
    seen.append(admin.create(3, {}))
    admin.grow(5)
    seen.append("partitions " + eventually(admin.partitions, "5"))
    if admin.incremental is not None:
        admin.incremental("segment.bytes", "2097152")
        wanted = "2097152 DYNAMIC_TOPIC_CONFIG"
        seen.append("segment.bytes " + eventually(lambda: admin.config("segment.bytes"), wanted))
        admin.incremental("segment.bytes", None)
        wanted = "1073741824 DEFAULT_CONFIG"
        seen.append("segment.bytes " + eventually(lambda: admin.config("segment.bytes"), wanted))
        seen.append("retention.ms " + admin.config("retention.ms"))
    if admin.replace is not None:
        admin.replace("max.message.bytes", "2000000")
        wanted = "2000000 DYNAMIC_TOPIC_CONFIG"
        seen.append("max.message.bytes " + eventually(lambda: admin.config("max.message.bytes"), wanted))
    admin.delete()
    seen.append("partitions " + eventually(admin.partitions, "none"))
    admin.close()
    return seen


#: The times that members are given besides: quick to notice, and with the shortest session that brokers allow.
SESSION_MS, HEARTBEAT_MS = 6_000, 300


def poll_until(members: list[Member], holds: Callable[[], bool], what: str) -> None:
    deadline = Deadline(what)
    while not holds():
        for member in members:
            assert not member.poll(), "there is nothing to read yet"
        deadline.check([member.assigned() for member in members])


def read(members: list[Member], count: int) -> list[Record]:
    """Polls until so many records were seen by all members together, and commits each poll."""
    seen: list[Record] = []
    deadline = Deadline("read")
    while len(seen) < count:
        for member in members:
            if records := member.poll():
                seen += records
                member.commit()
        deadline.check(f"{len(seen)} of {count} records")
    return seen


def is_shared(members: list[Member], partitions: int) -> bool:
    """True if the members have all partitions, each of them some."""
    shares = [member.assigned() for member in members]
    return all(shares) and sum(map(len, shares)) == partitions == len(set().union(*shares))


def share(
    driver: Driver, bootstrap: str, topic: str, group: str, partitions: int, records: list[Record]
) -> tuple[list[Record], str]:
    """A group's life: one member, two, one, and then another one. Records come in each state but the first; what is
    returned is all that was read, and the sizes of the shares while there were two.
    """

    def produce_and_read(members: list[Member], part: int) -> list[Record]:
        third = len(records) // 3
        driver.produce(bootstrap, topic, records[part * third : (part + 1) * third], "none", "all", False)
        return read(members, third)

    first = driver.member(bootstrap, topic, group, None)
    poll_until([first], lambda: len(first.assigned()) == partitions, "the first member")
    second = driver.member(bootstrap, topic, group, None)
    both = [first, second]
    poll_until(both, lambda: is_shared(both, partitions), "the second member")
    sizes = sorted(len(member.assigned()) for member in both)
    seen = produce_and_read(both, 0)
    first.close()
    poll_until([second], lambda: len(second.assigned()) == partitions, "the second member alone")
    seen += produce_and_read([second], 1)
    second.close()
    third = driver.member(bootstrap, topic, group, None)
    seen += produce_and_read([third], 2)
    third.close()
    return seen, "+".join(map(str, sizes))


def come_back(driver: Driver, bootstrap: str, topic: str, group: str, partitions: int) -> str:
    """Two static members, of which one ends and comes back: `kept` if it has the same partitions again, and the other
    one has noticed nothing.
    """
    one, two = (driver.member(bootstrap, topic, group, instance) for instance in ("one", "two"))
    poll_until([one, two], lambda: is_shared([one, two], partitions), "two static members")
    before, others = one.assigned(), two.assigned()
    one.close()
    back = driver.member(bootstrap, topic, group, "one")
    changed = False

    def is_back() -> bool:
        nonlocal changed
        changed = changed or two.assigned() != others
        return bool(back.assigned())

    poll_until([back, two], is_back, "the static member that came back")
    kept = back.assigned() == before and not changed
    back.close()
    two.close()
    return "kept" if kept else "rebalanced"


class Deadline:
    """Raises TimeoutError once a command has taken too long."""

    def __init__(self, doing: str, timeout_s: float = DEADLINE_S) -> None:
        self.doing = doing
        self.end = time.monotonic() + timeout_s

    def check(self, progress: object) -> None:
        if time.monotonic() > self.end:
            raise TimeoutError(f"{self.doing}: no end after {DEADLINE_S} s, so far {progress}")


def run(driver: Driver, name: str, fields: dict[str, str]) -> dict[str, object]:
    bootstrap, topic = fields.get("bootstrap", ""), fields.get("topic", "")
    if name == "version":
        return {"version": driver.version()}
    if name == "admin":
        admin = driver.admin(bootstrap, topic)
        return {"seen": "; ".join(administer(admin)) if admin else "none"}
    if name == "produce":
        records = read_records(Path(fields["input"]))
        offsets = driver.produce(
            bootstrap, topic, records, fields["codec"], fields["acks"], fields.get("idempotent") == "true"
        )
        acknowledged = sum(offset is not None and offset >= 0 for offset in offsets)
        right = sum(record.offset == offset for record, offset in zip(records, offsets, strict=True))
        return {"records": len(records), "acknowledged": acknowledged, "right": right}
    if name == "transact":
        records = read_records(Path(fields["input"]))
        fenced = driver.transact(bootstrap, topic, fields["id"], records, int(fields["size"]))
        return {"fenced": "yes" if fenced else "no"}
    if name == "static":
        return {"seen": come_back(driver, bootstrap, topic, fields["group"], int(fields["partitions"]))}
    partitions, output = int(fields["partitions"]), Path(fields["output"])
    if name == "group":
        records = read_records(Path(fields["input"]))
        seen, shares = share(driver, bootstrap, topic, fields["group"], partitions, records)
        write_records(output, by_place(seen))
        return {"records": len(seen), "shares": shares}
    if name == "consume":
        seen = driver.consume(bootstrap, topic, partitions, Start(fields["from"], int(fields.get("value", "0"))))
    elif name == "latest":
        seen = driver.latest(bootstrap, topic, partitions, read_records(Path(fields["input"])))
    else:
        raise ValueError(f"no command {name}")
    write_records(output, by_place(seen))
    return {"records": len(seen)}


def serve(driver: Driver) -> None:
    """Answer commands from stdin until it ends, then end the process. What libraries print goes to stderr. SIGUSR1 has
    all stacks printed there.

    The interpreter is not taken down. Until Python 3.13 it ends any thread of a library that wants the GIL meanwhile,
    with the locks that it holds; whoever destroys the library's objects then waits for that thread for ever.
    """
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        name, *rest = line.rstrip("\n").split("\t")
        try:
            seen = run(driver, name, dict(field.split("=", 1) for field in rest))
            answer = "\t".join(["ok", *(f"{key}={value}" for key, value in seen.items())])
        except Exception as error:  # whatever a client raises is a finding for the judge, not the end of the worker
            traceback.print_exc()
            answer = "error\t" + f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")
        print(answer, file=answers, flush=True)
    # What is left of clients ends as it does in any program.
    gc.collect()
    sys.stderr.flush()
    os._exit(0)
