"""Records: Produce, Fetch and its sessions, offsets by time and epoch, DeleteRecords."""

from __future__ import annotations

from typing import Any

from ottla import _core
from tests.compat.conversations.common import (
    DELETE_RECORDS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    TIME,
    batch,
    fetch,
    produce,
)
from tests.compat.talk import Talk


def fetches(talk: Talk) -> None:
    talk.topic("fe")
    produce(talk, "fe", batch(b"a", b"b"))
    produce(talk, "fe", batch(b"c"))
    for version in range(4, 13):
        for offset in (0, 1, 2, 3, 4, -1, -2):
            fetch(talk, "fe", version, offset=offset)
        for partition in (1, -1):
            fetch(talk, "fe", version, partition=partition)
        fetch(talk, "none", version)
        fetch(talk, "", version)
        fetch(talk, "fe", version, row={"partition_max_bytes": 0})
        fetch(talk, "fe", version, max_bytes=0)
        fetch(talk, "fe", version, isolation_level=1)
        talk.ask(FETCH, version, replica_id=-1, topics=[])
        for epoch in (0, 1):
            fetch(talk, "fe", version, row={"current_leader_epoch": epoch})
            fetch(talk, "none", version, row={"current_leader_epoch": epoch})
        for replica in (-2, -3):
            fetch(talk, "fe", version, replica_id=replica)
    for epoch in (0, 1, 5):
        fetch(talk, "fe", 12, offset=1, row={"last_fetched_epoch": epoch})
        fetch(talk, "fe", 12, offset=9, row={"last_fetched_epoch": epoch})
    fetch(talk, "fe", 11, rack_id="a")
    fetch(talk, "fe", 11, session_id=0, session_epoch=0)
    for session, epoch in ((7, 0), (7, 1), (0, 1), (7, -1), (-1, -1), (-1, 0), (-5, 3)):
        fetch(talk, "fe", 11, session_id=session, session_epoch=epoch)


def fetch_limits(talk: Talk) -> None:
    """A Fetch that waits for more than its answer may have is answered all the same; before that, no connection of ours
    would wait so long. And partitions that are named twice.
    """
    talk.topic("fl", 2)
    for value in (b"a" * 100, b"b" * 100):
        produce(talk, "fl", batch(value))
    patient = {"replica_id": -1, "max_wait_ms": 60_000, "min_bytes": 1 << 20, "max_bytes": 50}

    def part(number: int, offset: int) -> dict[str, int]:
        return {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20}

    for version in (4, 9, 10, 11, 12):
        for committed in (0, 1):
            asked = {**patient, "isolation_level": committed}
            talk.ask(FETCH, version, **asked, topics=[{"topic": "fl", "partitions": [part(0, 0)]}])
            talk.ask(FETCH, version, **asked, topics=[{"topic": "fl", "partitions": [part(1, 0), part(0, 1)]}])
    several = [{"topic": "fl", "partitions": [part(1, 0), part(0, 0)]}]
    first = talk.ask(FETCH, 11, **{**patient, "min_bytes": 0}, session_id=0, session_epoch=0, topics=several)
    for epoch in (1, 2):
        talk.ask(FETCH, 11, **patient, session_id=first.session_id, session_epoch=epoch, topics=[])
    twice = [
        {"topic": "fl", "partitions": [part(0, 0), part(1, 0), part(0, 1)]},
        {"topic": "none", "partitions": [part(0, 0), part(0, 0)]},
        {"topic": "fl", "partitions": [part(1, 7), part(0, 2)]},
    ]
    for version in (4, 11, 12):
        for count in (1, 2, 3):
            quick = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0}
            talk.ask(FETCH, version, **quick, topics=twice[:count])
    first = talk.ask(FETCH, 11, **quick, session_id=0, session_epoch=0, topics=twice[:1])
    again = [{"topic": "fl", "partitions": [part(0, 1), part(0, 0)]}]
    talk.ask(FETCH, 11, **quick, session_id=first.session_id, session_epoch=1, topics=again)


def session_order(talk: Talk) -> None:
    """In which order the partitions of a session are read, whichever moved first, as they enter and leave it."""
    talk.topic("fo", 4)
    asked = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    session, epoch = 0, 0

    def ask(*named: tuple[int, int], forgotten: tuple[int, ...] = (), **options: int) -> None:
        nonlocal session, epoch
        rows = [{"partition": n, "fetch_offset": offset, "partition_max_bytes": 1 << 20} for n, offset in named]
        answer = talk.ask(
            FETCH,
            11,
            **{**asked, **options},
            session_id=session,
            session_epoch=epoch,
            topics=[{"topic": "fo", "partitions": rows}] if rows else [],
            forgotten_topics_data=[{"topic": "fo", "partitions": list(forgotten)}] if forgotten else [],
        )
        session, epoch = answer.session_id, epoch + 1

    ask((2, 0), (0, 0), (1, 0))
    ask()
    for partition in (1, 2, 0):
        produce(talk, "fo", batch(b"a"), partition=partition)
    ask()
    for partition in (0, 2):
        produce(talk, "fo", batch(b"b"), partition=partition)
    ask((1, 1), (0, 1), (2, 1))
    ask((0, 2), (2, 2))
    for partition in (3, 1, 0):
        produce(talk, "fo", batch(b"c"), partition=partition)
    ask((3, 0))
    ask(max_bytes=1)
    ask(max_bytes=1)
    ask((3, 1), (1, 2), forgotten=(0, 2), max_bytes=1)
    for partition in (0, 1, 2, 3):
        produce(talk, "fo", batch(b"d"), partition=partition)
    ask((2, 3), (0, 3))
    ask((3, 2), (1, 3), isolation_level=1)
    ask(forgotten=(1, 3))
    ask()


def sessions(talk: Talk) -> None:
    talk.topic("fs", 3)
    produce(talk, "fs", batch(b"a"))
    parts = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in range(3)]
    asked = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0}
    first = talk.ask(FETCH, 11, **asked, session_id=0, session_epoch=0, topics=[{"topic": "fs", "partitions": parts}])
    session = first.session_id
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=1, topics=[])
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=1, topics=[])
    moved = [{**parts[0], "fetch_offset": 1}]
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=2, topics=[{"topic": "fs", "partitions": moved}])
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=3, topics=[])
    produce(talk, "fs", batch(b"b"), partition=1)
    talk.ask(
        FETCH,
        11,
        **asked,
        session_id=session,
        session_epoch=4,
        topics=[],
        forgotten_topics_data=[{"topic": "fs", "partitions": [0, 9]}],
    )
    unknown = [{"topic": "none", "partitions": parts[:1]}]
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=5, topics=unknown)
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=6, topics=[])
    talk.ask(
        FETCH,
        11,
        **asked,
        session_id=session,
        session_epoch=7,
        topics=[],
        forgotten_topics_data=[{"topic": "none", "partitions": [0]}],
    )
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=9, topics=[])
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=-1, topics=[{"topic": "fs", "partitions": parts}])
    talk.ask(FETCH, 11, **asked, session_id=session, session_epoch=8, topics=[])
    talk.ask(FETCH, 11, **asked, session_id=0, session_epoch=0, topics=[])


def produces(talk: Talk) -> None:
    talk.topic("pr", 2)
    talk.topic("pr-compact", cleanup_policy="compact")
    talk.topic("pr-small", max_message_bytes="100")
    talk.topic("pr-stamped", message_timestamp_type="LogAppendTime", message_timestamp_difference_max_ms="1000")
    talk.topic("pr-late", message_timestamp_difference_max_ms="1000")
    for version in (3, 4, 5, 6, 7, 8):
        for acks in (1, -1, 2, -2):
            produce(talk, "pr", batch(b"a"), version, acks=acks)
        produce(talk, "pr", batch(b"a"), version, partition=7)
        produce(talk, "pr", batch(b"a"), version, partition=-1)
        produce(talk, "none", batch(b"a"), version)
        produce(talk, "a b", batch(b"a"), version)
        produce(talk, "", batch(b"a"), version)
        produce(talk, "__consumer_offsets", batch(b"a"), version)
        produce(talk, "pr", batch(b"a"), version, transactional_id="")
        produce(talk, "pr", batch(b"a"), version, transactional_id="nobody")
        if version < 5:  # where the answer does not tell the log's start
            produce(talk, "pr", batch(b"a", b"b") + batch(b"c"), version)
        produce(talk, "pr", batch(b"a")[:-1] + b"!", version)
        produce(talk, "pr-compact", batch(b"a"), version)
        produce(talk, "pr-compact", batch(b"a", key=b""), version)
        produce(talk, "pr-small", batch(b"a" * 200), version)
        produce(talk, "pr-late", batch(b"a", b"b"), version)
        produce(talk, "pr", batch(b"a", producer_id=5, producer_epoch=0, base_sequence=-1), version)
        produce(talk, "pr", batch(b"a", producer_id=5, producer_epoch=-1, base_sequence=0), version)
        produce(talk, "pr", batch(b"a", producer_id=100 + version, producer_epoch=0, base_sequence=3), version)
        produce(talk, "pr", batch(b"a", producer_id=100 + version, producer_epoch=0, base_sequence=5), version)
        produce(talk, "pr", batch(b"a", producer_id=100 + version, producer_epoch=1, base_sequence=4), version)
        produce(talk, "pr", batch(b"a", producer_id=100 + version, producer_epoch=1, base_sequence=0), version)
        produce(talk, "pr", batch(b"a", producer_id=100 + version, producer_epoch=0, base_sequence=4), version)
        produce(talk, "pr", batch(b"a", compression="zstd"), version)
        talk.ask(PRODUCE, version, acks=1, timeout_ms=60_000, transactional_id=None, topics=[])
        empty = [{"name": "pr", "partitions": []}]
        talk.ask(PRODUCE, version, acks=1, timeout_ms=60_000, transactional_id=None, topics=empty)


def list_offsets(talk: Talk) -> None:
    talk.topic("lo")
    produce(talk, "lo", batch(b"a", b"b"))
    produce(talk, "lo", batch(b"c"))
    for version in range(6):
        for timestamp in (-1, -2, -3, -4, 0, TIME, TIME + 1, 1 << 60):
            for count in (1, 0, 5) if version == 0 else (1,):
                row = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": count}
                talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "lo", "partitions": [row]}])
        for name, index in (("lo", 1), ("lo", -1), ("none", 0), ("", 0)):
            row = {"partition_index": index, "timestamp": -1}
            talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[{"name": name, "partitions": [row]}])
        rows = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
        talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "lo", "partitions": rows}])
        talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[])
        for replica in (-2, -3, 1, 5):
            talk.ask(LIST_OFFSETS, version, replica_id=replica, topics=[{"name": "lo", "partitions": rows[:1]}])
    for epoch in (-1, 0, 1, -2):
        for name in ("lo", "none"):
            row = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}
            talk.ask(LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": name, "partitions": [row]}])
            for asked in (-1, 0, 1, 9):
                row = {"partition_index": 0, "leader_epoch": asked, "current_leader_epoch": epoch}
                for version in range(4):
                    talk.ask(
                        OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=[{"name": name, "partitions": [row]}]
                    )


def delete_records(talk: Talk) -> None:
    talk.topic("dr")
    talk.topic("dr-compact", cleanup_policy="compact")
    talk.topic("dr-both", cleanup_policy="compact,delete")
    produce(talk, "dr", batch(b"a", b"b", b"c"))
    for version in range(3):
        for offset in (0, -2, 1 + version, 4, -3):
            row = {"partition_index": 0, "offset": offset}
            talk.ask(DELETE_RECORDS, version, topics=[{"name": "dr", "partitions": [row]}], timeout_ms=60_000)
        for name, index in (
            ("none", 0),
            ("dr", 1),
            ("dr", -1),
            ("dr-compact", 0),
            ("dr-both", 0),
            ("__consumer_offsets", 0),
        ):
            row = {"partition_index": index, "offset": 0}
            talk.ask(DELETE_RECORDS, version, topics=[{"name": name, "partitions": [row]}], timeout_ms=60_000)
        talk.ask(DELETE_RECORDS, version, topics=[], timeout_ms=60_000)
    row = {"partition_index": 0, "offset": -1}
    talk.ask(DELETE_RECORDS, 2, topics=[{"name": "dr", "partitions": [row]}], timeout_ms=0)
    fetch(talk, "dr", offset=1)
    fetch(talk, "dr", offset=3)


def old_formats(talk: Talk) -> None:
    """Message sets, and batches for those who only know message sets."""
    talk.topic("om-2")
    talk.topic("om-1", message_format_version="0.10.2")
    talk.topic("om-0", message_format_version="0.9.0")
    talk.topic("om-stamped", message_format_version="0.10.2", message_timestamp_type="LogAppendTime")
    rows = [(TIME, b"k", b"v"), (TIME + 5, None, b"w"), (TIME + 3, b"k", None)]
    for topic in ("om-2", "om-1", "om-0"):
        for version in range(9):
            if version < 3:
                data = _core.encode_messages(rows, magic=1 if version == 2 else 0)
                talk.ask(PRODUCE, version, acks=1, timeout_ms=60_000, topics=produced(topic, data))
            else:
                produce(talk, topic, batch(b"x", b"y"), version)
        for version in range(13):
            for offset in (0, 1, 5, 14):
                if version < 3:
                    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                    asked = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0}
                    talk.ask(FETCH, version, **asked, topics=[{"topic": topic, "partitions": [part]}])
                else:
                    fetch(talk, topic, version, offset=offset)
        for timestamp in (TIME - 1, TIME, TIME + 1, TIME + 4, TIME + 5, TIME + 6):
            row = {"partition_index": 0, "timestamp": timestamp}
            for version in (0, 1, 5):
                talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[{"name": topic, "partitions": [row]}])
    for version in range(3):
        for data in (_core.encode_messages(rows, magic=min(2 - version, 1)), batch(b"x")):
            talk.ask(PRODUCE, version, acks=1, timeout_ms=60_000, topics=produced("om-2", data))
    produce(talk, "om-2", _core.encode_messages(rows, magic=1), 3)


def unwilling(talk: Talk) -> None:
    """Records that a client of an old version cannot have."""
    talk.topic("un", message_downconversion_enable="false")
    talk.topic("un-zstd")
    produce(talk, "un", batch(b"x"))
    produce(talk, "un-zstd", batch(b"x"), 7)
    produce(talk, "un-zstd", batch(b"y", compression="zstd"), 7)
    asked = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0}
    for topic in ("un", "un-zstd"):
        for version in range(13):
            for offset in (0, 1):
                part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                talk.ask(FETCH, version, **asked, topics=[{"topic": topic, "partitions": [part]}])


def produced(topic: str, data: bytes) -> list[dict[str, Any]]:
    return [{"name": topic, "partitions": [{"partition_index": 0, "records": data}]}]


def times(talk: Talk) -> None:
    """Offsets by time, over several batches whose times go up and down."""
    talk.topic("ti")
    talk.topic("ti-append", message_timestamp_type="LogAppendTime")
    for stamps in ((5, 9, 7), (3,), (20, 11), (15, 16), (16,)):
        builder = _core.BatchBuilder()
        for stamp in stamps:
            builder.append(stamp, None, b"x")
        produce(talk, "ti", builder.finish())
    for stamp in range(22):
        row = {"partition_index": 0, "timestamp": stamp}
        for version in (0, 1, 4):
            talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "ti", "partitions": [row]}])
    for stamp in (-1, -2, 0, 1 << 62):
        row = {"partition_index": 0, "timestamp": stamp}
        talk.ask(LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": "ti-append", "partitions": [row]}])
    row = {"partition_index": 0, "offset": 4}
    talk.ask(DELETE_RECORDS, 1, topics=[{"name": "ti", "partitions": [row]}], timeout_ms=60_000)
    for stamp in (-2, 0, 3, 10, 12, 21):
        row = {"partition_index": 0, "timestamp": stamp}
        for version in (0, 5):
            talk.ask(LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "ti", "partitions": [row]}])
    fetch(talk, "ti", offset=3)
    fetch(talk, "ti", offset=5)
