"""A log that was put aside becomes that of the topic that has its name now: an operator's decision."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ottla._core import LogDirectory
from ottla.coordination import znodes
from ottla.errors import StorageError
from ottla.log import LogConfig
from ottla.replication import aside as files
from ottla.replication import log_notes
from ottla.replication.aside import Aside

#: Gaps between offsets may be compaction's, and are no damage.
CONFIG = LogConfig(cleanup_policy="compact")
#: In place of a czxid.
NO_TOPIC = -1


def take_back(directory: Path, identity: str, aside: Aside, *, replace: bool) -> str | None:
    """Puts the log back into its folder, in a data directory on which no broker runs. With `replace` the log that is
    there is put aside; returns under which id, None if there was none. Goes on with what was interrupted.

    Raises OSError, KafkaError if a broker runs, and StorageError if a log is there and may not be replaced.
    """
    native = LogDirectory.open(directory)
    try:
        replaced = None
        if (directory / aside.folder_name).exists() and not files.is_being_taken_back(directory, aside):
            if not replace:
                raise StorageError(
                    f"{directory / aside.folder_name} has a log: move it away, or have it put aside (--replace)"
                )
            replaced = _put_aside(native, directory, aside)
        files.take_back(directory, identity, aside)
        log = native.load(aside.topic, aside.partition, CONFIG.native)
        log.high_watermark = aside.high_watermark
        log.set_start_offset(aside.start_offset)
        native.checkpoint_start_offsets()
        native.checkpoint_high_watermarks()
    finally:
        native.close(clean=native.was_clean)
    return replaced


def _put_aside(native: LogDirectory, directory: Path, aside: Aside) -> str:
    """The log that is in the other's place. From now on its note names a topic that never was, so that a broker that is
    started between finishes this.
    """
    topic, index = aside.topic, aside.partition
    log = native.load(topic, index, CONFIG.native)
    folder = Path(log.directory)
    note = msgspec.structs.replace(log_notes.read(folder) or aside.note, topic_czxid=NO_TOPIC)
    log_notes.write(folder, note)
    range_ = (log.start_offset, log.end_offset, log.high_watermark)
    native.release(topic, index)
    return files.put_aside(directory, Aside(topic, index, note, *range_, put_aside_ms=znodes.now_ms()))
