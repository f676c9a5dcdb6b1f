"""Record batches into Arrow batches: Rust decodes into buffers, pyarrow takes them as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from ottla import _core
from ottla.client import TopicPartition
from ottla.errors import InvalidTimestamp, KafkaError
from ottla.reading.damage import DamagedBatch, Skipped, damage
from ottla.reading.layout import CONSTANT, Layout
from ottla.reading.options import Advice

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.reading.options import ReadOptions
    from ottla.reading.ranges import Range


class Columns:
    """Decodes one partition's records with offsets `start` to before `end`, in order.

    Checksums are verified unless told otherwise; control records and those of aborted transactions are left out.
    """

    def __init__(
        self,
        layout: Layout,
        partition: TopicPartition,
        start: int,
        end: int,
        skipped: Skipped | None = None,
        *,
        check_crc: bool = True,
        timestamps: str = "error",
        advice: Advice | None = None,
    ) -> None:
        """`skipped` notes batches that cannot be read; without it they are errors. `timestamps` is "error" or "null",
        for those that the column's unit cannot hold. `advice` ends the errors.
        """
        self._layout = layout
        self._schema = layout.schema
        self._advice = advice or Advice()
        self._partition = partition
        self._skipped = skipped
        # Of the last data, what a damaged batch ended.
        self._before = 0
        self._decoder = _core.ColumnDecoder(
            start_offset=start,
            end_offset=end,
            columns=layout.columns,
            rows_max=layout.rows_max,
            bytes_max=layout.bytes_max,
            timestamp_unit=layout.timestamp_unit,
            timestamps=timestamps,
            check_crc=check_crc,
        )
        self._constant: dict[str, pa.Array] = {}

    @classmethod
    def of(cls, options: ReadOptions, part: Range, names: Sequence[str], skipped: Skipped | None) -> Self:
        """For a range that is read."""
        return cls(
            options.layout(names),
            part.partition,
            part.start,
            part.end,
            skipped,
            check_crc=options.verify_crc,
            timestamps=options.timestamps,
            advice=options.advice,
        )

    @property
    def next_offset(self) -> int:
        """The offset to read on from."""
        return self._decoder.next_offset

    @property
    def position(self) -> int:
        """How many bytes of the last data were used: up to a batch that is cut off."""
        return self._before + self._decoder.position

    @property
    def done(self) -> bool:
        """True if everything up to the end was decoded; `rest` may still have rows."""
        return self._decoder.done

    def decode(
        self,
        data: Buffer,
        aborted: Sequence[tuple[int, int]] | None = None,
        place: str = "",
        position: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Takes whole batches (a cut-off one at the end is ignored) and gives the Arrow batches that are full.

        `aborted` has (producer id, first offset) of aborted transactions; None keeps those of the last call. `place`
        says where the data is from, for errors, and `position` where in that file.

        Damaged batches that are to be skipped are, except for one in a file that does not say where the next one
        begins: there `position` stays.

        Raises:
            DamagedBatch: one cannot be read or skipped.
            InvalidTimestamp: a timestamp is none that microseconds can hold.
        """
        view, known = memoryview(data), None if aborted is None else list(aborted)
        self._before = 0
        while True:
            self._decoder.feed(view[self._before :], known)
            known = None
            try:
                while (chunk := self._decoder.next()) is not None:
                    yield self._batch(chunk)
                return
            except InvalidTimestamp as problem:
                raise InvalidTimestamp(f"{self._partition}: {problem}{self._advice.timestamp}") from problem
            except KafkaError as problem:
                where = place if position is None else f"{place} at byte {position + self.position}"
                found = damage(view, self.position, self._partition, where)
                if self._skipped is None or (found.size_bytes is None and position is None):
                    raise DamagedBatch(f"{found}: {problem}{self._advice.damage}") from problem
                if found.size_bytes is None:
                    return
                self._skipped.note(found, problem)
            self._before = self.position + found.size_bytes
            if self._before == len(view):
                # Nothing after it says where to go on. Batches that follow may begin later, but not before this.
                self._decoder.seek(max(self.next_offset, found.last_offset + 1))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The rows that did not fill a batch."""
        if (chunk := self._decoder.finish()) is not None:
            yield self._batch(chunk)

    def skip_to(self, offset: int) -> None:
        """Goes on at a later offset."""
        self._decoder.seek(offset)

    def _batch(self, chunk: _core.Columns) -> pa.RecordBatch:
        arrays = [self._array(chunk, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, chunk: _core.Columns, field: pa.Field) -> pa.Array:
        if field.name in CONSTANT:
            return self._repeated(field.name, chunk.rows)
        name = self._layout.decoded[field.name]
        if name != "headers":
            return _from_buffers(chunk, name, field.type, chunk.rows)
        pairs = field.type.value_type
        names, values = (
            _from_buffers(chunk, part, pairs.field(index).type, chunk.header_count)
            for index, part in enumerate(("headers.name", "headers.value"))
        )
        entries = pa.Array.from_buffers(pairs, chunk.header_count, [None], 0, children=[names, values])
        return _from_buffers(chunk, name, field.type, chunk.rows, [entries])

    def _repeated(self, name: str, rows: int) -> pa.Array:
        whole = self._constant.get(name)
        if whole is None or len(whole) < rows:
            value = (
                pa.scalar(self._partition.topic)
                if name == "topic"
                else pa.scalar(self._partition.partition, pa.int32())
            )
            whole = self._constant[name] = pa.repeat(value, max(rows, self._layout.rows_max))
        return whole.slice(0, rows)


def _from_buffers(
    chunk: _core.Columns, name: str, kind: pa.DataType, rows: int, children: list[pa.Array] | None = None
) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in chunk.buffers(name)]
    return pa.Array.from_buffers(kind, rows, buffers, chunk.null_count(name), children=children)
