"""Other people's clients against the broker under test, cell by cell; see matrix.py for how they are judged.

Every cell that moves records moves at least 10,000 of them over three partitions (2,000 where that is the subject), in
batches of several records, and compares record by record: partition, offset, timestamp, key, value, headers.
"""

import os
import random
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.compat import table
from tests.compat.clients.worker import Record, eventually
from tests.compat.matrix import (
    ACKS,
    CLIENTS,
    CODECS,
    RECORDS,
    Client,
    Matrix,
    check_batches,
    compare,
    placed,
    plain,
    slug,
)
from tests.peers.proxy import CuttingProxy


def case(in_gate: bool, client: Client, *others: Client | str) -> Any:
    """A test's parameters: the judges have all of them, the gate some."""
    both = [client, *others]
    kinds = [getattr(pytest.mark, each.kind) for each in both if isinstance(each, Client)]
    names = [slug(each) if isinstance(each, Client) else each for each in both]
    return pytest.param(*both, id="-".join(names), marks=[*kinds, *([] if in_gate else [pytest.mark.judge])])


def clients(*releases: str) -> list[Any]:
    """Every client. The gate runs those whose release is one of `releases`."""
    return [case(client.release in releases, client) for client in CLIENTS]


EVERY_CLIENT = clients("newest")
# Where the releases of one family speak differently: formats, groups, transactions.
OLD_CLIENTS_TOO = clients("newest", "oldest")
READER = CLIENTS[0]  # reads what others wrote, where one reader is enough
OTHER_READER = CLIENTS[1]  # reads what READER wrote
REFUSES_NOTHING = ("kafka-python", "aiokafka")  # a record with neither key nor value
# What costs a slow client much and tells little of it.
WIDE = [
    case(client.release == "newest" and client.name.startswith(("confluent", "Java")), client) for client in CLIENTS
]
# Each codec of each client, with one acks after the other; the judges have all of them.
CELLS = [
    case(client.release == "newest" and ACKS[(number + CODECS.index(codec)) % len(ACKS)] == acks, client, codec, acks)
    for number, client in enumerate(CLIENTS)
    for codec in CODECS
    for acks in ACKS
]
# Each reads what one wrote, and what each wrote is read by one; the judges have every reader for every writer.
PAIRS = [
    case(READER in (reader, writer) and "between" not in (reader.release, writer.release), reader, writer)
    for reader in CLIENTS
    for writer in CLIENTS
]
BASE = "base"  # a topic that READER wrote, for those that begin in its middle


def topic_of(client: Client, codec: str, acks: str) -> str:
    return f"{slug(client)}.{codec}.{acks}"


def written(matrix: Matrix, client: Client, codec: str, acks: str) -> list[Record]:
    """The client's topic of that cell, produced when first asked for; the first time creates all of its topics."""
    topic = topic_of(client, codec, acks)
    if topic not in matrix.sent:
        matrix.worker(client)
        if not any(topic_of(client, a, b) in matrix.sent for a in CODECS for b in ACKS):
            matrix.create(topic_of(client, a, b) for a in CODECS for b in ACKS)
        matrix.produce(client, topic, plain(topic, client, matrix.base_ms), codec=codec, acks=acks)
    return matrix.sent[topic]


@pytest.fixture(scope="session")
def base(matrix: Matrix) -> list[Record]:
    """30,006 records, 10,002 in each partition; record i has the timestamp base_ms + i."""
    matrix.create([BASE])
    matrix.produce(READER, BASE, plain(BASE, READER, matrix.base_ms, 3 * RECORDS), codec="lz4", acks="all")
    return matrix.sent[BASE]


@pytest.mark.parametrize(("client", "codec", "acks"), CELLS)
def test_produce(matrix: Matrix, client: Client, codec: str, acks: str) -> None:
    records = written(matrix, client, codec, acks)
    reader = OTHER_READER if client is READER else READER
    topic = topic_of(client, codec, acks)
    compare(reader, client, records, matrix.consume(reader, topic, "earliest"))
    check_batches(list(matrix.batches(topic)), RECORDS, codec)
    matrix.passes(client, f"produce {codec}, acks 0, 1, all")


@pytest.mark.parametrize(("reader", "writer"), PAIRS)
def test_consume_from_earliest_what_each_client_wrote(matrix: Matrix, reader: Client, writer: Client) -> None:
    codec = CODECS[(CLIENTS.index(reader) + CLIENTS.index(writer)) % len(CODECS)]
    records = written(matrix, writer, codec, "all")
    seen = matrix.consume(reader, topic_of(writer, codec, "all"), "earliest")
    compare(reader, writer, records, seen)
    matrix.passes(reader, "consume from earliest")


@pytest.mark.parametrize("client", EVERY_CLIENT)
def test_consume_from_an_offset(matrix: Matrix, client: Client, base: list[Record]) -> None:
    middle = 2 * RECORDS // 3
    seen = matrix.consume(client, BASE, "offset", middle)
    compare(client, READER, [record for record in base if record.offset >= middle], seen)
    matrix.passes(client, "consume from an offset")


@pytest.mark.parametrize("client", EVERY_CLIENT)
def test_consume_from_a_timestamp(matrix: Matrix, client: Client, base: list[Record]) -> None:
    """The time lies between two records of a partition, inside a batch: exactly the later ones come."""
    moment = base[2 * RECORDS - 1].timestamp_ms
    seen = matrix.consume(client, BASE, "timestamp", moment)
    # librdkafka and others begin at the record itself: the lookup answers an offset, not a batch.
    compare(client, READER, [record for record in base if record.timestamp_ms >= moment], seen)
    matrix.passes(client, "consume from a timestamp")


@pytest.mark.parametrize("client", EVERY_CLIENT)
def test_consume_from_latest(matrix: Matrix, client: Client) -> None:
    topic = f"{slug(client)}.latest"
    matrix.worker(client)
    matrix.create([topic])
    early = plain(topic, READER, matrix.base_ms, 300)
    matrix.produce(READER, topic, early, codec="gzip", acks="all")
    late = placed(plain(topic, client, matrix.base_ms), client, 3, first=100)
    compare(client, client, late, matrix.latest(client, topic, late))
    matrix.passes(client, "consume from latest")


@pytest.mark.parametrize("client", OLD_CLIENTS_TOO)
def test_idempotent_producer_whose_answers_are_lost(matrix: Matrix, client: Client) -> None:
    """Four Produce requests are appended and their connections die before the answer: each is sent again."""
    topic = f"{slug(client)}.idempotent"
    matrix.worker(client)
    matrix.create([topic])
    records = plain(topic, client, matrix.base_ms, 2 * RECORDS)
    with CuttingProxy(matrix.port, cut={1, 4, 6, 9}) as proxy:
        matrix.produce(client, topic, records, codec="none", acks="all", idempotent=True, bootstrap=proxy.bootstrap)
        assert proxy.lost >= 3, "the client sent too few requests to prove anything"
    reader = OTHER_READER if client is READER else READER
    compare(reader, client, records, matrix.consume(reader, topic, "earliest"))
    found = list(matrix.batches(topic))
    check_batches(found, 2 * RECORDS, "none")
    assert all(batch.producer_id >= 0 for batch in found)
    matrix.passes(client, "idempotent producer, answers lost")


@pytest.mark.parametrize("client", [each for each in OLD_CLIENTS_TOO if not each.values[0].is_kcat])
def test_transactions(matrix: Matrix, client: Client) -> None:
    """A reader of committed records sees what was committed: nothing of the fenced producer, nothing aborted."""
    topic, size = f"{slug(client)}.transactions", 300
    matrix.worker(client)
    matrix.create([topic])
    records = plain(topic, client, matrix.base_ms, 20 * size)
    assert matrix.transact(client, topic, records, size) == "yes"
    committed = [record for index, record in enumerate(records) if index >= size and index // size % 3 != 2]
    wanted = sorted(record._replace(offset=0) for record in committed)
    reader = client if client.java else READER  # librdkafka reads what is committed unless it is told otherwise

    def seen() -> list[Record]:
        found = matrix.consume(reader, topic, "earliest", isolation="read_committed")
        return sorted(record._replace(offset=0) for record in found)

    # The last marker is written after the answer.
    eventually(lambda: str(len(seen())), str(len(wanted)))
    assert seen() == wanted
    matrix.passes(client, "transactions")


@pytest.mark.parametrize("client", OLD_CLIENTS_TOO)
def test_the_members_of_a_group_read_every_record_once(matrix: Matrix, client: Client) -> None:
    """While there is one member, then two, then the other one alone, then a new one that goes on where it ended."""
    topic = f"{slug(client)}.group"
    matrix.worker(client)
    matrix.create([topic])
    records = plain(topic, client, matrix.base_ms, 900)
    seen, shares = matrix.share(client, topic, records)
    assert shares == "1+2"
    compare(client, client, records, seen)
    matrix.passes(client, "a group: one member, two, another one")


@pytest.mark.parametrize("client", OLD_CLIENTS_TOO)
def test_a_static_member_comes_back_to_its_partitions(matrix: Matrix, client: Client) -> None:
    topic = f"{slug(client)}.static"
    matrix.worker(client)
    matrix.create([topic])
    assert matrix.come_back(client, topic) == "kept"
    matrix.passes(client, "a static member comes back")


def odd(client: Client, base_ms: int) -> list[Record]:
    """Records that programs also send: no key, an empty key, nothing, null, many headers, one name twice, all
    alphabets.
    """
    keys = (None, b"", b"key", "ключ".encode(), bytes(range(256)))
    values = (b"", None, b"value", "значення 値".encode(), bytes(reversed(range(256))))
    twice = (("a", b"1"), ("a", b"2"), ("b", b""))
    nothing = b"" if client.name == "kafka-python" else None  # it sends no null in a header
    headers: Sequence[Any] = ((), (("a", b"1"),), twice, (("c", nothing), ("ї", b"\0\xff")))
    if client.is_kcat:  # lines of text, of which an empty one is none
        keys, values, headers = (None, b"", b"k1", b"k2"), (b"", b"v1", b"v2"), ((("a", b"1"), ("b", b"2")),)
    records = []
    for i in range(RECORDS):
        key, value = keys[i % len(keys)], values[i // 3 % len(values)]
        if key is None and (client.is_kcat or client.name in REFUSES_NOTHING):
            value = value or b"something"
        records.append(Record(i % 3, 0, base_ms + i, key, value, headers[i // 7 % len(headers)]))
    return placed(records, client, 3)


@pytest.mark.parametrize("client", EVERY_CLIENT)
def test_null_keys_empty_values_and_headers(matrix: Matrix, client: Client) -> None:
    topic = f"{slug(client)}.odd"
    matrix.worker(client)
    matrix.create([topic])
    records = odd(client, matrix.base_ms)
    matrix.produce(client, topic, records, codec="none", acks="all")
    for reader in {client, OTHER_READER if client is READER else READER}:
        compare(reader, client, records, matrix.consume(reader, topic, "earliest"))
    matrix.passes(client, "null keys, empty and null values, headers")


@pytest.mark.parametrize("client", EVERY_CLIENT)
def test_messages_of_1_mb(matrix: Matrix, client: Client) -> None:
    """Twelve messages of 1,000,000 bytes that do not compress, between 10,002 small ones."""
    topic = f"{slug(client)}.large"
    matrix.worker(client)
    matrix.create([topic])
    records = plain(topic, client, matrix.base_ms)
    chance = random.Random(topic)
    for index in range(400, RECORDS, RECORDS // 12):
        records[index] = records[index]._replace(value=chance.randbytes(500_000).hex().encode())
    matrix.produce(client, topic, records, codec="none", acks="all")
    compare(client, client, records, matrix.consume(client, topic, "earliest"))
    matrix.passes(client, "1 MB messages")


@pytest.mark.parametrize("client", WIDE)
def test_2000_partitions_in_one_topic(matrix: Matrix, client: Client) -> None:
    """All clients share the topic, one after another: each starts where the last one ended."""
    topic, partitions, each = "wide", 2000, 6
    if topic not in matrix.sent:
        matrix.create([topic], partitions)
    before = matrix.sent.setdefault(topic, [])
    first = len(before) // partitions
    if client.is_kcat:  # its partitions follow from keys: as many keys for each partition as the others write
        records = evenly_keyed(topic, matrix.base_ms, partitions, each)
    else:
        records = plain(topic, client, matrix.base_ms, partitions * each, partitions)
    records = placed(records, client, partitions, first)
    matrix.produce(client, topic, records, codec="none", acks="all")
    compare(client, client, records, matrix.consume(client, topic, "offset", first, partitions=partitions))
    matrix.passes(client, "2,000 partitions in one topic")


def evenly_keyed(topic: str, base_ms: int, partitions: int, each: int) -> list[Record]:
    room = [each] * partitions
    records: list[Record] = []
    number = 0
    while len(records) < partitions * each:
        key = b"key-%d" % number
        number += 1
        partition = zlib.crc32(key) % partitions
        if room[partition]:
            room[partition] -= 1
            records.append(Record(partition, 0, base_ms, key, b"%s %d" % (topic.encode(), number)))
    return records


@pytest.mark.parametrize("client", EVERY_CLIENT)
def test_topics_and_configurations(matrix: Matrix, client: Client) -> None:
    seen = matrix.worker(client).ask("admin", bootstrap=matrix.bootstrap, topic=f"{slug(client)}.admin")["seen"]
    if client.is_kcat:
        assert seen == "none"
        return
    retention = "retention.ms 123456789 DYNAMIC_TOPIC_CONFIG"
    begin = ["created", "partitions 3", retention, "TOPIC_ALREADY_EXISTS", "partitions 5"]
    incremental = ["segment.bytes 2097152 DYNAMIC_TOPIC_CONFIG", "segment.bytes 1073741824 DEFAULT_CONFIG", retention]
    replace = ["max.message.bytes 2000000 DYNAMIC_TOPIC_CONFIG"]
    if client.name == "aiokafka":
        incremental = []
    if client.name == "Java 4.3.1":
        replace = []
    assert seen.split("; ") == [*begin, *incremental, *replace, "partitions none"]
    matrix.passes(client, "topics and configurations")


@pytest.mark.skipif("OTTLA_WRITE_TABLE" in os.environ, reason="this run writes the table")
def test_the_table_in_the_documentation_names_every_cell() -> None:
    """The demands of the tests above on each client are those of docs/clients.md, no more and no less."""
    cells = {(client.name, row): "✓" for client in CLIENTS for row in table.ROWS}
    assert table.parsed(table.committed()) == {**cells, **dict.fromkeys(table.ABSENT, "–")}
