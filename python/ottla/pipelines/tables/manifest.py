"""Plain Parquet with a manifest: for readers that know nothing but folders of Parquet files.

    topic=views/date=2026-01-05/hour=13/ottla-00000007-0001-5f3a.parquet     committed
    topic=views/date=2026-01-05/hour=14/_ottla-00000008-0000-91bc.parquet    not yet; readers skip names with _
    _offsets/00000007.json                                                   files and offsets of batch 7

The commit is the appearance of the manifest, by link(2), which fails if the name is taken: all of its bytes or none,
and one winner. The files get their final names afterwards; after a kill in between, `recover` gives them. So whoever
reads the folders never sees a row that is not committed and never one twice, and whoever reads by the manifests sees
whole batches alone. The table must be in a file system that has links and renames: a local or mounted one.
"""

import base64
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from ottla.client import TopicPartition
from ottla.pipelines.tables.durable import sync
from ottla.pipelines.tables.table import Conflict, DataFile, Position, uncommitted

MANIFESTS = "_offsets"


class Batch(msgspec.Struct, frozen=True):
    """One manifest. `offsets` are the next ones to read by topic and partition, of all partitions; `schema` is
    Arrow's serialized form in base64.
    """

    epoch: int
    offsets: dict[str, dict[int, int]]
    files: list[DataFile]
    schema: str


class Manifest:
    """See the module, and `Table`."""

    has_topic_column = False
    staged_prefix = "_"

    def __init__(self, location: Path) -> None:
        self.location = location
        self._folder = location / MANIFESTS
        self._folder.mkdir(exist_ok=True)

    def batches(self) -> list[Batch]:
        """All manifests, in their order."""
        return [self._read(path) for path in self._paths()]

    def files(self) -> list[Path]:
        """All committed files: what an exact reader reads."""
        return [self._final(file) for batch in self.batches() for file in batch.files]

    def position(self, partitions: Iterable[TopicPartition]) -> Position:
        """See `Table`."""
        if (last := self._last()) is None:
            return Position()
        offsets = {
            TopicPartition(topic, number): offset for topic, of in last.offsets.items() for number, offset in of.items()
        }
        return Position(last.epoch, {each: offsets[each] for each in partitions if each in offsets})

    def schema(self) -> pa.Schema | None:
        """See `Table`."""
        last = self._last()
        return None if last is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(last.schema)))

    def recover(self) -> int:
        """See `Table`."""
        last = self._last()
        if last is not None:
            self._show(last.files)
        left = uncommitted(self.location, 0 if last is None else last.epoch)
        for path in left:
            path.unlink()
        for path in self._folder.glob("*.new"):
            path.unlink()
        return len(left)

    def commit(self, position: Position, files: Sequence[DataFile], schema: pa.Schema) -> None:
        """See `Table`."""
        last = self._last()
        offsets: dict[str, dict[int, int]] = {} if last is None else {name: {**of} for name, of in last.offsets.items()}
        for (topic, number), offset in sorted(position.offsets.items()):
            offsets.setdefault(topic, {})[number] = offset
        text = base64.b64encode(schema.serialize().to_pybytes()).decode()
        batch = Batch(position.epoch, offsets, list(files), text)
        for folder in {(self.location / file.path).parent for file in files}:
            sync(folder)
        new, name = self._folder / f"{os.getpid()}.new", self._folder / f"{position.epoch:08}.json"
        with new.open("wb") as file:
            file.write(msgspec.json.encode(batch))
            file.flush()
            os.fsync(file.fileno())
        try:
            if (last.epoch if last else 0) != position.epoch - 1:
                raise FileExistsError(name)
            os.link(new, name)
        except FileExistsError:
            raise Conflict(f"{name} exists: somebody else loads {self.location}; let only one do it") from None
        finally:
            new.unlink()
        sync(self._folder)
        self._show(batch.files)

    def _show(self, files: Iterable[DataFile]) -> None:
        """Gives committed files their final names."""
        folders = set()
        for file in files:
            staged = self.location / file.path
            if staged.exists():
                staged.rename(self._final(file))
                folders.add(staged.parent)
        for folder in folders:
            sync(folder)

    def _final(self, file: DataFile) -> Path:
        staged = self.location / file.path
        return staged.with_name(staged.name.removeprefix(self.staged_prefix))

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _last(self) -> Batch | None:
        paths = self._paths()
        return self._read(paths[-1]) if paths else None

    def _read(self, path: Path) -> Batch:
        return msgspec.json.decode(path.read_bytes(), type=Batch)
