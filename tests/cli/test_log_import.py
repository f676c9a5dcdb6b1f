"""`ottla log import --format 0.7`, of bytes that Kafka 0.7.0's own classes wrote."""

import base64
import struct
import zlib
from pathlib import Path

import pytest

from ottla.log import Log
from ottla.log.format_07 import CHUNK_BYTES

from .conftest import Ottla

#: By kafka.javaapi.message.ByteBufferMessageSet of Kafka 0.7.0: three messages, twenty in gzip, two in snappy, one.
WRITTEN = base64.b64decode(
    "AAAACwEAknHuV2ZpcnN0AAAABgEAAAAAAAAAAAsBACQyIGR0aGlyZAAAANsBAUMeamYfiwgAAAAAAAD/Y2Bg4GNkKPFyOlyQmJyd"
    "mqJgwAAWYfYtCoWKGEJEZrkov4eKGEFE3joLV0JFjCEixeptt6AiJhARFoVtPlARU4jIXM3n36AiZhCRV3rXE6Ai5hCRqomnPkJF"
    "LCAivNN+pUNFLIEi/IwM72+aa8BcaAARmnGPfR9MyBAixHg9jAUmZAQRKruQNgkmZAwRerHlsyFMyAQiNH/z4eUwIVOIENuuSbIw"
    "ITOIUOHeRd0wIXOI0EOm/VIwIQuI0DTW/h6YkCUAsl9DvXIBAAAAAAA4AQL8og9CglNOQVBQWQAAAAABAAAAAQAAAB4cbAAAAAoB"
    "AMjLigZjb2xkAAAACgEANmQdnnNuYXAAAAAKAQBK26mgbGFzdA=="
)
VALUES = [b"first", b"", b"third", *(b"packed %d" % number for number in range(20)), b"cold", b"snap", b"last"]


def old(payload: bytes) -> bytes:
    """A message of magic 0, as releases before 0.7 wrote it."""
    return struct.pack(">ibI", 5 + len(payload), 0, zlib.crc32(payload)) + payload


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files: the first is named after an offset at which retention left it."""
    path = tmp_path / "orders_3"
    path.mkdir()
    (path / "00000000000000005000.kafka").write_bytes(WRITTEN)
    (path / f"{5000 + len(WRITTEN):020}.kafka").write_bytes(old(b"older") + old(b"x" * 3 * CHUNK_BYTES) + old(b"end"))
    return path


ALL = [*VALUES, b"older", b"x" * 3 * CHUNK_BYTES, b"end"]


def values(data: Path, name: str) -> list[bytes | None]:
    with Log.open(data / name) as log:
        records = list(log)
    assert [record.offset for record in records] == list(range(len(records)))
    assert {record.key for record in records} <= {None}
    assert {record.timestamp_ms for record in records} <= {-1}
    return [record.value for record in records]


def test_into_a_data_directory(ottla: Ottla, tmp_path: Path, folder: Path) -> None:
    options = ["--format", "0.7", "--topic", "orders", "--data-dir", str(tmp_path)]
    (folder / f"{5000 + len(WRITTEN):020}.kafka").write_bytes(old(b"older") + old(b"end"))
    told = ottla("log", "import", str(folder), *options).err
    assert told == f"imported {len(VALUES) + 2} messages into orders-3\n"
    assert values(tmp_path, "orders-3") == [*VALUES, b"older", b"end"]


def test_into_a_broker(ottla: Ottla, bootstrap: str, folder: Path) -> None:
    ottla("topic", "create", "imported", "-b", bootstrap, "--set", "max.message.bytes=10000000")
    options = ["--format", "0.7", "--topic", "imported", "--bootstrap-server", bootstrap]
    missing = ottla("log", "import", str(folder), *options, code=1).err
    assert "topic 'imported' has no partition 3, its last is 0; --partition names another one" in missing
    ottla("log", "import", str(folder), *options, "--partition", "0", "--compression", "gzip")
    seen = ottla("consume", "imported", "-b", bootstrap, "--from-beginning", "--until-end", "--json").json
    assert [str(row["value"]).encode() for row in seen] == ALL  # type: ignore[index]


def test_damage_stops_the_import_where_it_can_go_on(ottla: Ottla, tmp_path: Path, folder: Path) -> None:
    file = folder / "00000000000000005000.kafka"
    damaged = bytearray(WRITTEN)
    damaged[25 + 12] ^= 1  # in the third message's payload
    file.write_bytes(damaged)
    command = ["log", "import", str(folder), "--format", "0.7", "--topic", "orders", "--data-dir", str(tmp_path)]
    told = ottla(*command, code=1).err
    assert f"{file} at byte 31: crc: the stored checksum is 0x24322064" in told
    assert "imported 2 messages into orders-3, up to byte offset 5025" in told
    assert "--from-offset 5040" in told
    assert values(tmp_path, "orders-3") == VALUES[:2]
    # Repaired, it goes on with the very next message; or behind the damage.
    file.write_bytes(WRITTEN)
    (folder / f"{5000 + len(WRITTEN):020}.kafka").unlink()
    ottla(*command, "--from-offset", "5025")
    assert values(tmp_path, "orders-3") == VALUES
    ottla(*command, "--from-offset", "5040", "--partition", "0")
    assert values(tmp_path, "orders-0") == VALUES[3:]


def test_a_message_that_is_cut_off(ottla: Ottla, tmp_path: Path, folder: Path) -> None:
    first, last = sorted(folder.iterdir())
    last.write_bytes(old(b"whole") + old(b"torn")[:-2])
    command = ["log", "import", str(folder), "--format", "0.7", "--topic", "t", "--data-dir", str(tmp_path)]
    told = ottla(*command).err
    assert "the last 11 bytes are the beginning of a message; Kafka 0.7 would cut them off, they are left out" in told
    assert values(tmp_path, "t-3") == [*VALUES, b"whole"]
    # In the middle of the log it is damage.
    first.write_bytes(WRITTEN + b"\0\0")
    told = ottla(*command, "--partition", "1", code=1).err
    assert f"{first} at byte {len(WRITTEN)}: 2 bytes at the end of the file, which are no whole message" in told
    nothing = ottla("log", "import", str(tmp_path), "--format", "0.7", "--topic", "t", code=1).err
    assert "there is no file named <byte offset>.kafka" in nothing


def test_what_is_no_log_of_kafka_0_7(ottla: Ottla, tmp_path: Path) -> None:
    folder = tmp_path / "notes-0"
    folder.mkdir()
    file = folder / f"{0:020}.kafka"
    command = ["log", "import", str(folder), "--format", "0.7", "--topic", "t", "--data-dir", str(tmp_path)]
    for content in (b"a text, and no log of anything", b"\x1f\x8b\x08" + b"\xff" * 60):
        file.write_bytes(content)
        told = ottla(*command, code=1).err
        assert told.startswith(f"Error: {file} at byte 0: ")
        assert f"It begins with the bytes {content[:8].hex(' ')}, and has no message: it may be no log of Kafka" in told
        assert "imported 0 messages" in told
        assert told.endswith("; nothing behind it is a whole message\n")
        assert told.count("\n") == 1


def test_a_file_that_is_missing_or_cut_or_of_another_log(ottla: Ottla, tmp_path: Path, folder: Path) -> None:
    """Files are named by the offsets at which they begin: each begins where the one before it ends."""
    first, second = sorted(folder.iterdir())
    end = 5000 + len(WRITTEN)
    last = folder / f"{end + 1000:020}.kafka"
    last.write_bytes(old(b"far"))
    second.write_bytes(old(b"near"))
    near = end + len(old(b"near"))
    command = ["log", "import", str(folder), "--format", "0.7", "--topic", "t", "--data-dir", str(tmp_path)]
    told = ottla(*command, code=1).err
    assert f"{second} at byte 13: it ends 987 bytes before the next file begins: between them one is missing" in told
    assert f"imported {len(VALUES) + 1} messages into t-3, up to byte offset {near}" in told
    assert f"--from-offset {end + 1000}\n" in told
    ottla(*command, "--from-offset", str(end + 1000))
    assert values(tmp_path, "t-3") == [*VALUES, b"near", b"far"]
    # Cut in a message, the next file is where it goes on.
    second.write_bytes(old(b"near")[:-1])
    assert f"--from-offset {end + 1000}\n" in ottla(*command, "--partition", "1", code=1).err
    # What is in both files is imported once.
    last.unlink()
    first.write_bytes(WRITTEN + old(b"near"))
    second.write_bytes(old(b"near") + old(b"behind"))
    told = ottla(*command, "--partition", "2", code=1).err
    assert f"{first} at byte {near - 5000}: it ends 13 bytes behind where the next file begins" in told
    assert f"--from-offset {near}\n" in told
    ottla(*command, "--partition", "2", "--from-offset", str(near))
    assert values(tmp_path, "t-2") == [*VALUES, b"near", b"behind"]
