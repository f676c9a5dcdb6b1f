"""A log with a note, as one that is put aside is found."""

from pathlib import Path

from ottla._core import LogDirectory
from ottla.log import LogConfig
from ottla.replication import log_notes
from ottla.replication.aside import Aside
from ottla.replication.log_notes import Note
from tests.support.client import batch

OLD = Note("cluster", 7, 1_700_000_000_000, 40)


def made(directory: Path, topic: str = "t", *, values: int = 6, note: Note | None = OLD) -> Aside:
    """A log of some segments with a note, in a directory that is closed; as it is described."""
    directory.mkdir(exist_ok=True)
    native = LogDirectory.open(directory)
    (log,) = native.create(topic, [0], LogConfig(segment_bytes=200).native)
    for number in range(values):
        log.append_bytes(batch(b"%d" % number + b"x" * 60), 0)
    log.high_watermark = log.end_offset
    log.set_start_offset(1)
    if note is not None:
        log_notes.write(Path(log.directory), note)
    native.release(topic, 0)
    described = Aside(topic, 0, OLD, 1, log.end_offset, log.end_offset, put_aside_ms=5)
    native.close()
    return described
