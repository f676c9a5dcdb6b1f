"""Reading folders beside whoever writes them, without Spark: the reader as Spark calls it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import _core, records
from ottla.client import TopicPartition
from ottla.errors import InvalidTimestamp
from ottla.log import Log, LogConfig
from ottla.reading import segments as files
from ottla.reading.bounds import DataLoss
from ottla.reading.damage import DamagedBatch
from ottla.spark.options import parse
from ottla.spark.schema import COLUMNS
from tests.peers.skips import module
from tests.spark.files import BASE_MS, a_batch, swaps, write_high_watermarks, write_segment

module("spark", "pyspark")

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.spark.batch import BatchReader, Task

pytestmark = pytest.mark.spark
HERE = TopicPartition("t", 0)


def reader(root: Path, *names: str, **options: object) -> BatchReader:
    given = {"path": str(root), "subscribe": "t", **{name: str(value) for name, value in options.items()}}
    return BatchReader(parse(given), names or ("offset", "value"))


def batches(source: BatchReader) -> Iterator[pa.RecordBatch]:
    for task in source.partitions():
        yield from source.read(task)


def offsets(root: Path, **options: object) -> list[int]:
    """The offsets that are read; the values must be theirs."""
    table = pa.Table.from_batches(list(batches(reader(root, **options))), reader_schema())
    found: list[int] = table["offset"].to_pylist()
    assert table["value"].to_pylist() == [b"%d" % offset for offset in found]
    return found


def reader_schema() -> pa.Schema:
    return pa.schema([("offset", pa.int64()), ("value", pa.binary())])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three segments of a hundred batches of ten records; readers may have all but the last seven."""
    for first in (0, 1000, 2000):
        write_segment(tmp_path / "t-0", first, [a_batch(first + number, 10) for number in range(0, 1000, 10)])
    write_high_watermarks(tmp_path, {HERE: 2993})
    return tmp_path


def test_nothing_but_record_batches(root: Path) -> None:
    """Rows as tuples would work too, at a tenth of the speed."""
    source = reader(root, *COLUMNS, "headers", includeHeaders="true")
    found = list(batches(source))
    assert found
    assert {type(each) for each in found} == {pa.RecordBatch}
    assert sum(each.num_rows for each in found) == 2993
    for each in found:
        each.validate(full=True)


def test_a_timestamp_that_microseconds_cannot_hold(tmp_path: Path) -> None:
    """It is no damage: corruptBatches=skip does not leave the batch out."""
    times = [1, 2**63 - 1, 2]
    write_segment(tmp_path / "t-0", 0, [records.encode_batch([(time, None, b"x", []) for time in times])])
    for options in ({}, {"corruptBatches": "skip"}):
        with pytest.raises(InvalidTimestamp, match=rf"t-0: .*offset 1 .* {2**63 - 1},.* timestamps=null"):
            list(batches(reader(tmp_path, "timestamp", upTo="logEnd", **options)))
    (found,) = batches(reader(tmp_path, "timestamp", upTo="logEnd", timestamps="null"))
    assert found.column(0).cast(pa.int64()).to_pylist() == [1000, None, 2000]
    (found,) = batches(reader(tmp_path, "offset", upTo="logEnd"))
    assert found.column(0).to_pylist() == [0, 1, 2]


def test_batches_are_large(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [a_batch(number, 1000) for number in range(0, 120_000, 1000)])
    assert [each.num_rows for each in batches(reader(tmp_path, upTo="logEnd"))] == [20_000] * 6


def test_no_partitions_is_no_rows(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    source = reader(tmp_path)
    assert source.partitions() == []
    assert list(source.read(InputPartition(None))) == []


def test_up_to_the_high_watermark_or_the_end(root: Path) -> None:
    assert offsets(root) == list(range(2993))
    assert offsets(root, upTo="logEnd") == list(range(3000))
    (root / "replication-offset-checkpoint").unlink()
    assert offsets(root) == []


@pytest.mark.parametrize("tasks", [1, 2, 7, 50])
def test_tasks_together_are_everything(root: Path, tasks: int) -> None:
    assert offsets(root, minPartitions=tasks) == list(range(2993))


@pytest.mark.parametrize("first", [0, 1, 9, 10, 999, 1000, 1001, 1999, 2500, 2992])
@pytest.mark.parametrize("index", ["good", "absent", "zeros", "lies"])
def test_indexes_are_only_hints(root: Path, index: str, first: int) -> None:
    for path in [*(root / "t-0").glob("*.index"), *(root / "t-0").glob("*.timeindex")]:
        if index == "absent":
            path.unlink()
        elif index == "zeros":
            path.write_bytes(bytes(4096))
        elif index == "lies" and path.suffix == ".index":
            path.write_bytes(
                b"".join(files.OFFSET_ENTRY.pack(number * 10, number * 77 + 5) for number in range(1, 100))
            )
    end = min(first + 700, 2993)
    bounds = {side: json.dumps({"t": {"0": at}}) for side, at in (("startingOffsets", first), ("endingOffsets", end))}
    assert offsets(root, **bounds) == list(range(first, end))
    assert offsets(root, startingTimestamp=BASE_MS + first) == list(range(first, 2993))


def test_a_torn_batch_at_the_end(root: Path) -> None:
    last = root / "t-0" / f"{2000:020}.log"
    for size in (1, 12, 60, 61, 100):
        last.write_bytes(last.read_bytes()[:-size])
        end = files.end_offset(files.segments(root / "t-0"))
        assert end % 10 == 0
        assert offsets(root, upTo="logEnd") == list(range(end))


def test_a_batch_larger_than_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "READ_BYTES", 2000)
    write_segment(tmp_path / "t-0", 0, [a_batch(0, 5), a_batch(5, 2000), a_batch(2005, 3), a_batch(2008, 900)])
    assert offsets(tmp_path, upTo="logEnd") == list(range(2908))


def test_a_range_in_the_middle_of_a_segment_counts_as_what_it_is(tmp_path: Path) -> None:
    """A stream reads a live segment piece by piece; each piece is not all that follows."""
    write_segment(tmp_path / "t-0", 0, [a_batch(number, 10) for number in range(0, 5000, 10)])
    size = (tmp_path / "t-0" / f"{0:020}.log").stat().st_size
    bounds = {"startingOffsets": '{"t":{"0":2000}}', "endingOffsets": '{"t":{"0":2500}}'}
    (task,) = reader(tmp_path, upTo="logEnd", **bounds).partitions()
    assert isinstance(task, Task)
    assert sum(each.size_bytes for each in task.ranges) == pytest.approx(size / 10, rel=0.2)


def test_what_compaction_took_is_no_loss(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [a_batch(0, 5), a_batch(90, 5)])
    write_segment(tmp_path / "t-0", 200, [a_batch(207, 3)])
    assert offsets(tmp_path, upTo="logEnd") == [*range(5), *range(90, 95), *range(207, 210)]


def damage(path: Path, batch: int, byte: int) -> int:
    """Turns a bit in a batch of a segment; gives the batch's position."""
    data = bytearray(path.read_bytes())
    position = _core.read_batches(bytes(data), check_crc=False)[batch].position
    data[position + byte] ^= 1
    path.write_bytes(data)
    return position


def test_damage_is_an_error_with_its_place(root: Path) -> None:
    path = root / "t-0" / f"{1000:020}.log"
    position = damage(path, 5, 70)
    place = rf"the batch with offset 1050 of t-0 \({path} at byte {position}\) is damaged: .*(?i:crc)"
    with pytest.raises(DamagedBatch, match=place):
        offsets(root)


def test_damaged_batches_are_skipped_and_reported(root: Path, tmp_path: Path) -> None:
    """Two in a row, and one at the end of a segment."""
    report = tmp_path / "report"
    lost = []
    for first, batch in ((0, 7), (0, 8), (1000, 99)):
        damage(root / "t-0" / f"{first:020}.log", batch, 70)
        lost.append(first + 10 * batch)
    left = [offset for offset in range(2993) if offset // 10 * 10 not in lost]
    assert offsets(root, corruptBatches="skip", corruptReport=str(report)) == left
    noted = [json.loads(path.read_text()) for path in sorted(report.iterdir())]
    assert [(each["offset"], each["last_offset"]) for each in noted] == [(first, first + 9) for first in lost]


@pytest.mark.parametrize("byte", [8, 11])  # a length that is negative or far too large; one that is not the batch's
def test_the_rest_of_a_segment_is_skipped_where_no_batch_can_be_found(root: Path, tmp_path: Path, byte: int) -> None:
    path = root / "t-0" / f"{1000:020}.log"
    data = bytearray(path.read_bytes())
    position = _core.read_batches(bytes(data))[50].position
    data[position + byte] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(DamagedBatch, match=rf"offset 1500 of t-0 \({path} at byte {position}"):
        offsets(root)
    found = offsets(root, corruptBatches="skip", corruptReport=str(tmp_path / "report"))
    assert found == [*range(1500), *range(2000, 2993)]
    (noted,) = [json.loads(path.read_text()) for path in (tmp_path / "report").iterdir()]
    assert (noted["offset"], noted["last_offset"], noted["size_bytes"]) == (1500, 1999, None)


def test_segments_that_go_away_after_planning(root: Path) -> None:
    def planned(**options: Any) -> tuple[BatchReader, list[InputPartition]]:
        source = reader(root, **options)
        return source, source.partitions()

    strict, lenient = planned(), planned(failOnDataLoss="false")
    path = root / "t-0" / f"{0:020}.log"
    path.rename(path.with_suffix(".log.deleted"))
    with pytest.raises(DataLoss, match="t-0 begins at offset 1000 by now, and 0 is to be read next"):
        list(strict[0].read(strict[1][0]))
    table = pa.Table.from_batches(lenient[0].read(lenient[1][0]))
    assert table["offset"].to_pylist() == list(range(1000, 2993))
    assert offsets(root) == list(range(1000, 2993))


def test_records_that_go_away_at_the_end(root: Path) -> None:
    source = reader(root)
    (task,) = source.partitions()
    assert isinstance(task, Task)
    path = root / "t-0" / f"{2000:020}.log"
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataLoss, match="but 2993 was there when the query was planned"):
        list(source.read(task))


def test_other_folders_and_topics_are_left_alone(root: Path) -> None:
    write_segment(root / "u-0", 0, [a_batch(0, 10)])
    write_segment(root / "t-x", 0, [a_batch(0, 10)])
    write_segment(root / "t-0.abc-delete", 0, [a_batch(0, 10)])
    (root / "meta.properties").write_text("version=0\n")
    assert offsets(root) == list(range(2993))


@pytest.mark.parametrize("broken", ["ottla._core", "ottla.spark.source", "pyspark.sql.datasource"])
def test_the_discovered_module_never_raises(broken: str) -> None:
    """One that does switches off every data source that Spark finds by name."""
    program = (
        f"import sys; sys.modules[{broken!r}] = None\n"
        "import pyspark_ottla; print(vars(pyspark_ottla).get('DefaultSource'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_what_compaction_swaps_is_read_as_it_was_or_as_it_is(root: Path) -> None:
    before = list(range(2993))
    after = [offset for offset in before if not (1000 <= offset < 2000 and offset // 10 % 2)]
    task = reader(root)
    planned = task.partitions()
    seen = []
    for state in swaps(root / "t-0"):
        found = offsets(root)
        assert found in (before, after), state
        seen.append(found == after)
        table = pa.Table.from_batches([batch for part in planned for batch in task.read(part)])
        assert table["offset"].to_pylist() == found, state
    assert seen == sorted(seen), "never back"
    assert (seen[0], seen[-1]) == (False, True)


def test_what_a_split_has_not_finished_does_not_count(root: Path) -> None:
    folder = root / "t-0"
    (folder / f"{1500:020}.log.swap").write_bytes(b"".join(a_batch(number, 10) for number in range(1500, 2000, 10)))
    (folder / f"{1000:020}.log.cleaned").write_bytes(a_batch(1000, 10))
    assert offsets(root) == list(range(2993))


def test_a_compaction_that_swaps_while_it_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a segment everything is swapped in: nothing is left out or read twice."""
    monkeypatch.setattr("ottla.spark.schema.ROWS_MAX", 100)
    source = reader(root, "offset")
    (task,) = source.partitions()
    found = source.read(task)
    seen = next(found)["offset"].to_pylist()
    assert seen[-1] < 1000
    for _ in swaps(root / "t-0"):
        pass
    rest = [offset for batch in found for offset in batch["offset"].to_pylist()]
    expected = [offset for offset in range(2993) if not (1000 <= offset < 2000 and offset // 10 % 2)]
    assert [*seen, *rest] == expected


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300])
def test_committed_records(tmp_path: Path, segment_bytes: int) -> None:
    def append(producer: int, sequence: int) -> list[int]:
        first = log.end_offset
        whose = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        builder = _core.BatchBuilder(**(whose if producer >= 0 else {}))  # type: ignore[arg-type]
        for offset in (first, first + 1):
            builder.append(BASE_MS, None, b"%d" % offset)
        log.append_batch(builder.finish())
        return [first, first + 1]

    def end(producer: int, commit: bool) -> None:
        log._log.append_bytes(_core.marker_batch(producer, 0, commit, 0, BASE_MS), 0, origin="coordinator")

    with Log.open(tmp_path / "t-0", "a", config=LogConfig(segment_bytes=segment_bytes)) as log:
        everything = append(-1, 0)
        committed = list(everything)
        for round in range(3):
            aborted, kept = append(7, round * 4), append(8, round * 2)
            between = append(-1, 0)
            aborted += append(7, round * 4 + 2)
            end(7, commit=round == 1)
            end(8, commit=True)
            everything += aborted + kept + between
            committed += kept + between + (aborted if round == 1 else [])
        stable = log.end_offset
        open_ones = append(7, 12) + append(-1, 0)
    options = {"upTo": "logEnd"}
    assert offsets(tmp_path, **options) == sorted(everything + open_ones)
    options["kafka.isolation.level"] = "read_committed"
    assert offsets(tmp_path, **options) == sorted(committed)
    middle = json.dumps({"t": {"0": 9}})
    assert offsets(tmp_path, startingOffsets=middle, **options) == sorted(each for each in committed if each >= 9)
    assert max(committed) < stable == open_ones[0]
    write_high_watermarks(tmp_path, {HERE: 9})
    del options["upTo"]
    # Below the high watermark the first transaction of 7 was open yet.
    assert offsets(tmp_path, **options) == [0, 1]
