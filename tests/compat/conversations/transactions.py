"""Producer ids, and transactions and the offsets that are part of them."""

from __future__ import annotations

from tests.compat.conversations.common import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    batch,
    fetch,
    produce,
)
from tests.compat.talk import Talk


def producing(talk: Talk, name: str | None, version: int = 4, timeout_ms: int = 60_000, **fields: object) -> dict:
    answer = talk.ask(INIT_PRODUCER_ID, version, transactional_id=name, transaction_timeout_ms=timeout_ms, **fields)
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def producer_ids(talk: Talk) -> None:
    talk.coordinator("pi", 1)
    for version in range(5):
        for name in (None, "", "pi"):
            for timeout_ms in (60_000, 0, -1, 900_001, 900_000):
                producing(talk, name, version, timeout_ms)
    for version in (3, 4):
        me = producing(talk, "pi", version)
        bumped = producing(talk, "pi", version, **me)
        producing(talk, "pi", version, **me)  # a retry
        producing(talk, "pi", version, **bumped)
        producing(talk, "pi", version, **me)
        producing(talk, "pi", version, **{**me, "producer_id": 1 << 40})
        producing(talk, "pi", version, **{**me, "producer_epoch": 30_000})
        producing(talk, "pi", version, producer_id=-1, producer_epoch=5)
        producing(talk, "pi", version, producer_id=5, producer_epoch=-1)
        producing(talk, None, version, producer_id=5, producer_epoch=3)
        producing(talk, f"new-{version}", version, producer_id=5, producer_epoch=3)
        producing(talk, "pi", version, **{**me, "producer_epoch": -2})
        producing(talk, "pi", version, producer_id=-5, producer_epoch=3)


def transactions(talk: Talk) -> None:
    talk.topic("tx", 2)
    talk.coordinator("tx", 1)
    me = {"transactional_id": "tx", **producing(talk, "tx")}
    parts = [{"name": "tx", "partitions": [0, 1]}]
    nothing_is_open(talk, me, parts)
    transaction_aborts(talk, me, parts)
    me["producer_epoch"] += 1
    transaction_commits(talk, me, parts)


def nothing_is_open(talk: Talk, me: dict, parts: list[dict]) -> None:
    for committed in (True, False):
        talk.ask(END_TXN, 2, **me, committed=committed)
    talk.ask(ADD_PARTITIONS, 2, **me, topics=[])
    talk.ask(END_TXN, 2, **me, committed=True)
    talk.ask(
        ADD_PARTITIONS, 2, **me, topics=[{"name": "tx", "partitions": [0, 7]}, {"name": "none", "partitions": [0]}]
    )
    talk.ask(ADD_PARTITIONS, 2, **me, topics=[{"name": "none", "partitions": [0]}])
    talk.ask(ADD_PARTITIONS, 2, **me, topics=[{"name": "tx", "partitions": []}])
    for version in range(3):
        for wrong in (
            {"producer_id": 1 << 40},
            {"producer_epoch": 9},
            {"producer_epoch": -1},
            {"transactional_id": ""},
            {"transactional_id": "unknown"},
        ):
            talk.ask(ADD_PARTITIONS, version, **{**me, **wrong}, topics=parts)
            talk.ask(ADD_OFFSETS, version, **{**me, **wrong}, group_id="tx")
            talk.ask(END_TXN, version, **{**me, **wrong}, committed=True)
    talk.ask(ADD_OFFSETS, 2, **me, group_id="")


def transaction_aborts(talk: Talk, me: dict, parts: list[dict]) -> None:
    """As a new producer of the same transactional id wants it."""
    talk.ask(ADD_PARTITIONS, 2, **me, topics=parts)
    talk.ask(ADD_PARTITIONS, 2, **me, topics=parts)
    ours = {key: me[key] for key in ("producer_id", "producer_epoch")}
    produce(talk, "tx", batch(b"a", **ours, base_sequence=0, transactional=True), transactional_id="tx")
    produce(talk, "tx", batch(b"a", **ours, base_sequence=0, transactional=True), transactional_id="tx")
    produce(talk, "tx", batch(b"b", **ours, base_sequence=2, transactional=True), transactional_id="tx")
    produce(talk, "tx", batch(b"b", **ours, base_sequence=1), transactional_id="tx")
    produce(talk, "tx", batch(b"b", **ours, base_sequence=1, transactional=True), transactional_id=None)
    fetch(talk, "tx", isolation_level=1)
    fetch(talk, "tx", isolation_level=0)
    for isolation in (0, 1):
        for timestamp in (-1, -2, 0):
            row = {"partition_index": 0, "timestamp": timestamp}
            talk.ask(
                LIST_OFFSETS, 5, replica_id=-1, isolation_level=isolation, topics=[{"name": "tx", "partitions": [row]}]
            )
    talk.ask(END_TXN, 2, **me, committed=False)
    talk.unheard(
        INIT_PRODUCER_ID,
        4,
        lambda answer: answer.error_code != 51,
        transactional_id="tx",
        transaction_timeout_ms=60_000,
        **ours,
    )
    talk.ask(END_TXN, 2, **me, committed=False)


def transaction_commits(talk: Talk, me: dict, parts: list[dict]) -> None:
    talk.ask(END_TXN, 2, **me, committed=False)
    fetch(talk, "tx", isolation_level=1)
    talk.ask(ADD_PARTITIONS, 2, **{**me, "producer_epoch": 0}, topics=parts)
    talk.ask(ADD_PARTITIONS, 2, **me, topics=parts)
    talk.ask(END_TXN, 2, **me, committed=True)
    talk.unheard(ADD_OFFSETS, 2, lambda answer: answer.error_code != 51, **me, group_id="tx")
    talk.ask(END_TXN, 2, **me, committed=False)
    talk.unheard(END_TXN, 2, lambda answer: answer.error_code != 51, **me, committed=False)
    talk.ask(END_TXN, 2, **me, committed=False)
    talk.ask(END_TXN, 2, **me, committed=True)
    fetch(talk, "tx", isolation_level=1)


def transactional_offsets(talk: Talk) -> None:
    talk.topic("to")
    talk.coordinator("to")
    talk.coordinator("to", 1)
    me = {"transactional_id": "to", **producing(talk, "to")}
    row = {"partition_index": 0, "committed_offset": 5}
    rows = [{"name": "to", "partitions": [row]}]
    where = [{"name": "to", "partition_indexes": [0]}]
    talk.ask(ADD_OFFSETS, 2, **me, group_id="to")
    for version in range(4):
        talk.ask(TXN_OFFSET_COMMIT, version, **me, group_id="to", topics=rows)
        for fields in (
            {"generation_id": 1},
            {"member_id": "x"},
            {"generation_id": 1, "member_id": "x"},
            {"group_instance_id": "i"},
            {"generation_id": 0},
        ):
            if version == 3:
                talk.ask(TXN_OFFSET_COMMIT, version, **me, group_id="to", topics=rows, **fields)
        for bad in ({"partition_index": 7}, {"committed_metadata": "x" * 101}, {"committed_metadata": None}):
            talk.ask(
                TXN_OFFSET_COMMIT, version, **me, group_id="to", topics=[{"name": "to", "partitions": [{**row, **bad}]}]
            )
        talk.ask(TXN_OFFSET_COMMIT, version, **me, group_id="to", topics=[{"name": "none", "partitions": [row]}])
        talk.ask(TXN_OFFSET_COMMIT, version, **me, group_id="to", topics=[])
    for stable in (False, True):
        talk.ask(OFFSET_FETCH, 7, group_id="to", topics=where, require_stable=stable)
        talk.ask(OFFSET_FETCH, 7, group_id="to", topics=None, require_stable=stable)
    talk.ask(DELETE_GROUPS, 1, groups_names=["to"])
    talk.ask(DESCRIBE_GROUPS, 5, groups=["to"])
    talk.ask(END_TXN, 2, **me, committed=True)
    talk.unheard(
        OFFSET_FETCH,
        7,
        lambda answer: answer.topics[0].partitions[0].error_code == 0,
        group_id="to",
        topics=where,
        require_stable=True,
    )
    talk.ask(OFFSET_FETCH, 7, group_id="to", topics=None, require_stable=True)
    talk.ask(DESCRIBE_GROUPS, 5, groups=["to"])


def fences(talk: Talk) -> None:
    """A second producer with the same transactional id, while the first has a transaction open."""
    talk.topic("fc")
    talk.coordinator("fc", 1)
    parts = [{"name": "fc", "partitions": [0]}]
    old = {"transactional_id": "fc", **producing(talk, "fc")}
    talk.ask(ADD_PARTITIONS, 2, **old, topics=parts)
    batch_of_old = {"producer_id": old["producer_id"], "producer_epoch": old["producer_epoch"], "transactional": True}
    produce(talk, "fc", batch(b"a", **batch_of_old, base_sequence=0), transactional_id="fc")
    init = {"transactional_id": "fc", "transaction_timeout_ms": 60_000}
    talk.ask(INIT_PRODUCER_ID, 4, **init)
    talk.unheard(INIT_PRODUCER_ID, 4, lambda answer: answer.error_code != 51, **init)
    producing(talk, "fc")
    for version in range(3):
        talk.ask(ADD_PARTITIONS, version, **old, topics=parts)
        talk.ask(ADD_OFFSETS, version, **old, group_id="fc")
        talk.ask(END_TXN, version, **old, committed=True)
    for version in (2, 3, 4):
        fields = {"producer_id": old["producer_id"], "producer_epoch": old["producer_epoch"]} if version > 2 else {}
        talk.ask(INIT_PRODUCER_ID, version, **init, **fields)
    for version in (6, 8):
        produce(talk, "fc", batch(b"b", **batch_of_old, base_sequence=1), version, transactional_id="fc")
    fetch(talk, "fc", isolation_level=1)
    fetch(talk, "fc", 4, isolation_level=1)


def markers(talk: Talk) -> None:
    """Markers as coordinators send them: also to partitions where the producer has nothing, or was never seen."""
    talk.topic("mk", 2)
    talk.coordinator("mk", 1)
    me = {"transactional_id": "mk", **producing(talk, "mk")}
    ours = {"producer_id": me["producer_id"], "producer_epoch": me["producer_epoch"]}
    talk.ask(ADD_PARTITIONS, 2, **me, topics=[{"name": "mk", "partitions": [0]}])
    produce(talk, "mk", batch(b"a", **ours, base_sequence=0, transactional=True), transactional_id="mk")

    def write(producer_id: int, epoch: int, coordinator_epoch: int, partition: int, commit: bool) -> None:
        row = {"producer_id": producer_id, "producer_epoch": epoch, "coordinator_epoch": coordinator_epoch}
        topics = [{"name": "mk", "partition_indexes": [partition]}, {"name": "none", "partition_indexes": [0]}]
        talk.ask(WRITE_TXN_MARKERS, 0, markers=[{**row, "transaction_result": commit, "topics": topics}])

    marks = {
        "producer_id": 5,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "none", "partition_indexes": [0]}],
    }
    talk.ask(WRITE_TXN_MARKERS, 0, markers=[marks])
    talk.ask(WRITE_TXN_MARKERS, 0, markers=[])
    for commit in (False, True):
        write(me["producer_id"], me["producer_epoch"], 0, 7, True)
        write(me["producer_id"], me["producer_epoch"], 0, 1, commit)
        write(me["producer_id"], me["producer_epoch"], 0, 0, False)
        write(me["producer_id"], me["producer_epoch"], -1, 0, False)
        write(1 << 40, 0, 0, 0, True)
    write(me["producer_id"], 7, 0, 1, True)
    write(me["producer_id"], 6, 0, 1, True)
    write(me["producer_id"], 7, 5, 1, True)
    write(me["producer_id"], 7, 4, 1, True)
    fetch(talk, "mk")
    fetch(talk, "mk", partition=1)
    fetch(talk, "mk", isolation_level=1)


def sequences(talk: Talk) -> None:
    """Idempotent producers: repeated, skipped and wrapped sequence numbers, and epochs."""
    talk.topic("sq", 2)
    end = (1 << 31) - 1

    def send(sequence: int, *values: bytes, producer: int = 900, epoch: int = 0, partition: int = 0) -> None:
        data = batch(*(values or (b"a",)), producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        produce(talk, "sq", data, partition=partition)

    for sequence in (0, 1, 2, 3, 4, 5, 6):
        send(sequence)
    for sequence in (6, 5, 2, 1, 0, 8, 7):
        send(sequence)
    send(6, b"a", b"b")
    send(8, b"a", b"b")
    send(9, b"b")
    send(8, b"a")
    send(8, b"a", b"b")
    send(1, epoch=1)
    send(0, epoch=1)
    send(10, epoch=0)
    send(1, epoch=3)
    send(0, epoch=3)
    send(end, producer=901)
    send(0, producer=901)
    send(1, producer=901)
    send(end - 1, b"a", b"b", b"c", producer=902)
    send(1, producer=902)
    send(5, producer=903, epoch=5)
    send(6, producer=903, epoch=4)
    send(6, producer=903, epoch=5)
    for value in (b"x", b"y"):
        produce(talk, "sq", batch(value), partition=1)
    fetch(talk, "sq")


def timeouts(talk: Talk) -> None:
    """A transaction that was open for too long: what its producer is told, and how it may go on (KIP-588)."""
    opened = {}
    for version in range(3):
        name = f"tt-{version}"
        talk.topic(name)
        talk.coordinator(name, 1)
        # Long enough for the record to come before the end even on a busy machine; the three run out side by side.
        opened[name] = ids = producing(talk, name, timeout_ms=3000)
        parts = [{"name": name, "partitions": [0]}]
        talk.ask(ADD_PARTITIONS, version, transactional_id=name, **ids, topics=parts)
        produce(talk, name, batch(b"a", **ids, base_sequence=0, transactional=True), transactional_id=name)
    for version, (name, ids) in enumerate(opened.items()):
        me = {"transactional_id": name, **ids}
        parts = [{"name": name, "partitions": [0]}]
        row = {"partition_index": 0, "timestamp": -1}
        latest = {"replica_id": -1, "isolation_level": 1, "topics": [{"name": name, "partitions": [row]}]}
        talk.unheard(LIST_OFFSETS, 5, lambda answer: answer.topics[0].partitions[0].offset == 2, **latest)
        again = {"transactional_id": name, "transaction_timeout_ms": 60_000, **ids}
        talk.unheard(INIT_PRODUCER_ID, 4, lambda answer: answer.error_code != 51, **again)
        for committed in (True, False):
            talk.ask(END_TXN, version, **me, committed=committed)
        talk.ask(ADD_PARTITIONS, version, **me, topics=parts)
        talk.ask(ADD_OFFSETS, version, **me, group_id=name)
        for init in (4, 3):
            producing(talk, name, init, **ids)
        producing(talk, name, 2)
        fetch(talk, name, isolation_level=1)
