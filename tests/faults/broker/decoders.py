"""Everything that reads bytes of somebody else, with valid bytes for it and the errors that it may raise."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ottla import _core
from ottla.config.properties import read as read_properties
from ottla.config.values import ConfigError
from ottla.coordination import znodes
from ottla.coordination.tree import TreeError
from ottla.errors import KafkaError, ProtocolError
from ottla.group import records as group_records
from ottla.group.subscription import assigned, subscribed
from ottla.transaction import records as transaction_records
from ottla.transaction.transaction import State, Transition
from ottla.wire import KEYS, api
from tests.faults.broker.mutate import mutated, sealed
from tests.records.samples import CODECS, shapes
from tests.wire.instances import instance

BATCH_BYTES_MAX = 1 << 20
DECOMPRESSED_BYTES_MAX = 4 << 20
DECLARED = (ProtocolError, KafkaError)


@dataclass(frozen=True)
class Decoder:
    """`decode` may raise one of `errors` and nothing else; `samples` are right."""

    name: str
    decode: Callable[[bytes], object]
    samples: list[bytes]
    errors: tuple[type[Exception], ...] = DECLARED
    seal: bool = False  # it checks a checksum first

    def case(self, chance: random.Random) -> bytes:
        data = mutated(chance.choice(self.samples), chance, chance.choice(self.samples))
        return sealed(data, chance) if self.seal else data

    def accepts(self, data: bytes) -> bool:
        """True if the decoder reads these bytes. Raises any error that is not a declared one."""
        try:
            self.decode(data)
        except self.errors:
            return False
        return True


def every_decoder(folder: Path) -> list[Decoder]:
    """`folder` is where files are put whose reader wants a path."""
    return [*_messages(), *_batches(), *_internal(), *_consumers(), *_files(folder), *_nodes()]


def _messages() -> Iterator[Decoder]:
    chance = random.Random(1)
    for key in KEYS:
        found = api(key)
        for version in found.versions:
            for side in ("request", "response"):
                samples = [
                    getattr(found, f"encode_{side}")(version, instance(getattr(found, side), version, chance))
                    for _ in range(4)
                ]
                decode = partial(getattr(found, f"decode_{side}"), version)
                yield Decoder(f"{found.name} {side} {version}", decode, samples)
                if side == "response" and key in (0, 1):
                    by_hand = _core.decode_produce_response if key == 0 else _core.decode_fetch_response
                    # The hand-written one reads what brokers send: the version is its second argument.
                    yield Decoder(f"{found.name} response {version} by hand", _second(by_hand, version), samples)
        header = partial(_core.parse_response_header, key, found.is_flexible(found.highest))
        yield Decoder(f"{found.name} response header", header, [b"\0\0\0\1\0", b"\0\0\0\1\1\5\2ab"])


def _second(decode: Callable[..., object], version: int) -> Callable[[bytes], object]:
    return lambda data: decode(data, version)


def batches(codecs: Sequence[str] = CODECS) -> list[bytes]:
    """Of format 2, with and without a producer."""
    made = []
    for codec in codecs:
        for options in ({}, {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3, "transactional": True}):
            builder = _core.BatchBuilder(compression=codec, **options)  # type: ignore[arg-type]
            for timestamp_ms, key, value, headers in shapes():
                builder.append(timestamp_ms, key, value and value[:900], headers)
            made.append(builder.finish(base_offset=5))
    return made


def messages() -> list[bytes]:
    """Of formats 0 and 1: one message, or one that holds compressed ones."""
    rows = [(timestamp_ms, key, value and value[:900]) for timestamp_ms, key, value, _ in shapes()]
    return [
        _core.encode_messages(rows[: 1 if codec == "none" else None], magic=magic, compression=codec)
        for magic in (0, 1)
        for codec in CODECS[: 4 if magic else 3]
    ]


def _batches() -> Iterator[Decoder]:
    limits = {"decompressed_bytes_max": DECOMPRESSED_BYTES_MAX}

    def columns(data: bytes) -> None:
        decoder = _core.ColumnDecoder(**limits)
        decoder.feed(data, [(7, 0)])
        while decoder.next() is not None:
            pass
        decoder.finish()

    readers: dict[str, Callable[[bytes], object]] = {
        "validate": lambda data: _core.validate(data, batch_bytes_max=BATCH_BYTES_MAX, **limits),
        "read records": lambda data: list(_core.RecordReader(data, **limits)),
        "read records unchecked": lambda data: list(_core.RecordReader(data, check_crc=False, **limits)),
        "read batches": lambda data: _core.read_batches(data),
        "read columns": columns,
        "stamp": lambda data: _core.stamp(data, 1 << 40, 3, 5),
        "to format 0": lambda data: _core.down_convert(data, magic=0),
        "to format 1": lambda data: _core.down_convert(data, magic=1),
    }
    for name, read in readers.items():
        # zstd came after the old formats.
        codecs = [codec for codec in CODECS if codec != "zstd" or not name.startswith("to format")]
        yield Decoder(f"{name}, format 2", read, batches(codecs), (*DECLARED, ValueError), seal=True)
        yield Decoder(f"{name}, formats 0 and 1", read, messages(), (*DECLARED, ValueError), seal=True)
    old = [_message_07(b"value of the oldest format" * n) for n in (1, 30)]
    yield Decoder("format of 0.7", lambda data: _core.decode_07(data, message_bytes_max=1 << 20), old)


def _message_07(payload: bytes) -> bytes:
    import zlib

    message = b"\1\0" + zlib.crc32(payload).to_bytes(4, "big") + payload
    return len(message).to_bytes(4, "big") + message


def _internal() -> Iterator[Decoder]:
    member = group_records.StoredMember(
        member_id="m", client_id="c", client_host="/h", subscription=b"\0\1" * 9, assignment=b"\0\1" * 5
    )
    group = group_records.StoredGroup("consumer", 3, "range", "m", 99, [member, member])
    commits = [group_records.CommittedOffset(offset=7), group_records.CommittedOffset(offset=1, metadata="m" * 90)]
    keys = [group_records.offset_key("g", "t", 1), group_records.group_key("g")]
    yield Decoder("a group's key", group_records.read_key, keys)
    yield Decoder("a group", group_records.read_group, [group_records.group_value(group)])
    yield Decoder("a committed offset", group_records.read_offset, [*map(group_records.offset_value, commits)])
    places = frozenset({("t", 1), ("t", 2), ("another", 0)})
    transitions = [
        transaction_records.encode_value(Transition(state, 5, 1, 60_000, places, 7, 8, last_epoch=-1))
        for state in (State.EMPTY, State.ONGOING)
    ]
    yield Decoder("a transaction's key", transaction_records.decode_key, [transaction_records.encode_key("id")])
    yield Decoder("a transaction", transaction_records.decode_value, transitions)


def _consumers() -> Iterator[Decoder]:
    topics = b"\0\1\0\0\0\2\0\3one\0\3two\xff\xff\xff\xff"
    parts = b"\0\0\0\0\0\1\0\3one\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    yield Decoder("a subscription", subscribed, [topics], ())
    yield Decoder("an assignment", assigned, [parts], ())


def _files(folder: Path) -> Iterator[Decoder]:
    entry = (100).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    time_entry = (1_700_000_000_000).to_bytes(8, "big") + (100).to_bytes(4, "big")
    aborted = b"".join(number.to_bytes(8, "big") for number in (5, 10, 20, 10))
    yield Decoder("an offset index", lambda data: _core.read_index(data, 50, "offset"), [entry * 5], DECLARED)
    yield Decoder("a time index", lambda data: _core.read_index(data, 50, "time"), [time_entry * 5], DECLARED)
    yield Decoder("a transaction index", _core.read_transaction_index, [(b"\0\0" + aborted) * 3], DECLARED)
    snapshot = next(iter(_snapshots(folder / "made")))
    yield Decoder("a producer snapshot", _core.read_producer_snapshot, [snapshot], (ValueError,))
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        yield Decoder(name, partial(_open_with, folder / name, name), [b"0\n2\nt 0 5\nt 1 9\n"], (*DECLARED, OSError))
    properties = b"#comment\nversion=0\nbroker.id=1\ncluster.id=a-b_c\\u0041\n"
    yield Decoder("properties", partial(_properties, folder / "meta.properties"), [properties], (ConfigError,))


def _snapshots(folder: Path) -> Iterator[bytes]:
    """Of a log with two producers, one of them in a transaction."""
    from ottla.log import Log

    folder.mkdir()
    with Log.open(folder / "t-0", "a") as log:
        for producer_id, transactional in [(7, False), (8, True)]:
            builder = _core.BatchBuilder(
                producer_id=producer_id, producer_epoch=1, base_sequence=0, transactional=transactional
            )
            builder.append(1_700_000_000_000, b"k", b"v")
            log.append_batch(builder.finish())
    return (path.read_bytes() for path in (folder / "t-0").glob("*.snapshot"))


def _open_with(folder: Path, name: str, data: bytes) -> None:
    """Opens a directory with this checkpoint and one log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    (folder / ".kafka_cleanshutdown").touch()
    directory = _core.LogDirectory.open(folder)
    try:
        directory.load_all({}, _core.LogConfig())
    finally:
        directory.close()


def _properties(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    read_properties(path)


def _nodes() -> Iterator[Decoder]:
    by_path: list[tuple[str, Callable[[bytes], Any], bytes]] = [
        (
            "a broker's registration",
            partial(znodes.BrokerRegistration.decode, "/p"),
            b'{"version":4,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"],'
            b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{}}',
        ),
        (
            "a topic's assignment",
            partial(znodes.TopicAssignment.decode, "/p"),
            b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}',
        ),
        (
            "a partition's state",
            partial(znodes.PartitionState.decode, "/p"),
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}',
        ),
        ("the controller", znodes.decode_controller, b'{"version":1,"brokerid":1,"timestamp":"5"}'),
        ("an epoch", znodes.decode_epoch, b"17"),
        ("the cluster's id", znodes.decode_cluster_id, b'{"version":"1","id":"abc"}'),
        ("a config", partial(znodes.decode_config, "/p"), b'{"version":1,"config":{"retention.ms":"5"}}'),
        ("a config's change", partial(znodes.decode_config_change, "/p"), b'{"version":2,"entity_path":"topics/t"}'),
        (
            "partitions",
            partial(znodes.decode_partitions, "/p"),
            b'{"version":1,"partitions":[{"topic":"t","partition":1}]}',
        ),
        (
            "a reassignment",
            partial(znodes.decode_reassignment, "/p"),
            b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1,2]}]}',
        ),
        ("a directory's failure", partial(znodes.decode_log_dir_event, "/p"), b'{"version":1,"broker":1,"event":1}'),
        (
            "producer ids",
            znodes.ProducerIdBlock.decode,
            b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
        ),
    ]
    for name, decode, sample in by_path:
        yield Decoder(f"{name} in the tree", decode, [sample], (TreeError, ProtocolError))
