"""Requests said to a broker one after the other, and its answers with everything that may differ taken out.

What may differ between two right brokers: ports, ids that are drawn by lot or by the clock (each gets a name, so that
it still shows where the same one comes again), the words of error messages, times, and the order of answers in which
Kafka goes through a hash map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    NotCoordinator,
    UnknownTopicOrPartition,
)
from ottla.wire import api
from ottla.wire.headers import parse_response_header, request_frame
from ottla.wire.schema import Message, describe
from tests.compat.raw import Connection
from tests.support.waiting import PATIENCE_S, eventually

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOT_YET = {error.code for error in (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)}
#: Fields with ids that the broker draws; -1 and 0 mean something themselves.
DRAWN = {"producer_id", "session_id"}
#: Fields that say nothing here: of the machine, of the release, in words, of times.
UNALIKE = {"cluster_id", "log_dir", "documentation", "log_append_time_ms", "finalized_features_epoch", "api_keys"}
#: Lists whose order says nothing, by the class of their items.
ORDERED = {"FetchablePartitionResponse"}

#: Where these are in a batch.
NOTHING = b"\xff" * 8
MAGIC, CRC, ATTRIBUTES, TIMES, PRODUCER_ID = 16, slice(17, 21), 22, slice(27, 43), slice(43, 51)

WORDS = "words"
CLOSED = "the connection is closed"


class Talk:
    """All connections to one broker; `answers` is what is compared."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: list[tuple[str, object]] = []
        self._connections: dict[str, Connection] = {}
        self._asked: dict[str, list[tuple[int, int]]] = {}
        self._names: dict[object, str] = {}

    @contextmanager
    def open(self) -> Iterator[Talk]:
        try:
            yield self
        finally:
            for connection in self._connections.values():
                connection.close()

    def ask(self, key: int, version: int, /, *, by: str = "client", **fields: object) -> Any:
        """The answer, which is also kept; None if the broker closed the connection instead."""
        self.send(key, version, by=by, **fields)
        return self.receive(by)

    def send(self, key: int, version: int, /, *, by: str = "client", **fields: object) -> None:
        if by not in self._connections:
            self._connections[by] = Connection(self.port, PATIENCE_S)
        message = build(api(key).request, fields)
        body = api(key).encode_request(version, message)
        self._connections[by].send(request_frame(key, version, len(self.answers), by, body))
        self._asked.setdefault(by, []).append((key, version))

    def receive(self, by: str = "client") -> Any:
        key, version = self._asked[by].pop(0)
        title = f"{len(self.answers)}: {api(key).name} {version} by {by}"
        try:
            frame = self._connections[by].answer()
        except (EOFError, ConnectionError):
            self._connections.pop(by).close()
            self._asked[by].clear()
            self.answers.append((title, CLOSED))
            return None
        _, start = parse_response_header(key, version, frame)
        answer = api(key).decode_response(version, frame[start:])
        self.answers.append((title, self.plain(answer)))
        return answer

    def unheard(self, key: int, version: int, until: Callable[[Any], bool], /, **fields: object) -> Any:
        """Asks until the answer is as it should be; none of these answers is kept."""
        answer: Any = None

        def is_told() -> bool:
            nonlocal answer
            answer = self.ask(key, version, **fields)
            del self.answers[-1]
            return until(answer)

        eventually(f"{api(key).name} {fields}", is_told, facts=lambda: answer)
        return answer

    # --- what conversations begin with ---

    def topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Makes a topic and waits until it can be written to. Settings with `_` for `.`."""
        configs = [{"name": name.replace("_", "."), "value": value} for name, value in settings.items()]
        row = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
        self.unheard(19, 4, lambda answer: answer.topics[0].error_code == 0, topics=[row], timeout_ms=60_000)
        self.led(name)

    def led(self, topic: str) -> None:
        missing = {LeaderNotAvailable.code, UnknownTopicOrPartition.code}

        def is_led(answer: Any) -> bool:
            rows = answer.topics[0]
            return rows.error_code not in missing and all(row.error_code == 0 for row in rows.partitions)

        self.unheard(3, 4, is_led, topics=[{"name": topic}], allow_auto_topic_creation=False)

    def coordinator(self, key: str, kind: int = 0) -> None:
        """Waits until the broker coordinates a group (0) or a transactional id (1)."""
        self.unheard(10, 1, lambda answer: answer.error_code == 0, key=key, key_type=kind)
        if kind == 0:
            self.unheard(
                12, 0, lambda answer: answer.error_code not in NOT_YET, group_id=key, generation_id=0, member_id="x"
            )
        else:
            fields = {"transactional_id": key, "producer_id": 1 << 40, "producer_epoch": 0, "committed": True}
            self.unheard(26, 0, lambda answer: answer.error_code not in NOT_YET, **fields)

    # --- what may differ ---

    def plain(self, value: Any, name: str = "") -> object:
        if isinstance(value, Message):
            row = {field: self.plain(part, field) for field, part in msgspec.structs.asdict(value).items()}
            if row.get("error_code"):
                row.pop("error_message", None)
            return {field: part for field, part in row.items() if part is not ...}
        if name in UNALIKE:
            return ...
        if isinstance(value, list):
            parts = [self.plain(part, name) for part in value]
            ordered = bool(value) and type(value[0]).__name__ in ORDERED
            return parts if ordered else sorted(parts, key=repr)
        if name == "port":
            return value == self.port
        if name in DRAWN and value > 0:
            return self._named(value, name)
        if name.endswith("error_message"):
            return value and WORDS
        if isinstance(value, str):
            return UUID.sub(lambda match: self._named(match[0], "uuid"), value)
        return records(bytes(value)) if name == "record_set" and value is not None else value

    def _named(self, value: object, kind: str) -> str:
        return self._names.setdefault((kind, value), f"<{kind} {len(self._names)}>")


def records(data: bytes) -> bytes:
    """Batches without the producer ids and the times of markers in them, and then without the checksum; and without the
    part of a message, or the message of no sense, with which Kafka fills what it converted up to what it had announced.
    """
    start, result = 0, bytearray(data)
    while start + 12 <= len(data):
        end = start + 12 + int.from_bytes(data[start + 8 : start + 12])
        if data[start : start + 8] == NOTHING or end > len(data):
            return bytes(result[:start])
        if data[start + MAGIC] == 2 and data[start:end][PRODUCER_ID] != NOTHING:
            is_control = data[start + ATTRIBUTES] & 0x20
            for part in (CRC, PRODUCER_ID, TIMES) if is_control else (CRC, PRODUCER_ID):
                result[start + part.start : start + part.stop] = bytes(part.stop - part.start)
        start = end
    return bytes(result)


def build(cls: type[Message], fields: dict[str, Any]) -> Message:
    """A message of plain values: dictionaries for structures."""
    inner = {field.name: field.type for field in describe(cls).fields}
    assert fields.keys() <= inner.keys(), f"{cls.__name__} has no {fields.keys() - inner.keys()}"
    return cls(**{name: _built(inner[name], value) for name, value in fields.items()})


def _built(kind: Any, value: Any) -> Any:
    if isinstance(kind, tuple) and isinstance(value, list):
        return [_built(kind[1], part) for part in value]
    if isinstance(value, dict):
        return build(kind.cls, value)
    return value
