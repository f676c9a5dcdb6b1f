"""Notes beside logs: what they say of their logs, and when they say nothing."""

from pathlib import Path

import msgspec
import pytest

from ottla.replication import log_notes
from ottla.replication.log_notes import Note, Verdict, verdict

TOPIC = Note("cluster", 7, 1_700_000_000_000, 40)


def changed(**values: str | int) -> Note:
    return msgspec.structs.replace(TOPIC, **values)


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (TOPIC, Verdict.ITS_OWN),
        (None, Verdict.UNKNOWN),
        (changed(topic_czxid=39), Verdict.ANOTHERS),
        (changed(topic_czxid=41), Verdict.ANOTHERS),
        (changed(cluster_id="other"), Verdict.UNKNOWN),
        (changed(cluster_czxid=8, topic_czxid=41), Verdict.UNKNOWN),
        (changed(cluster_ctime_ms=1, topic_czxid=41), Verdict.UNKNOWN),
    ],
)
def test_a_note_speaks_against_its_log_in_its_own_tree_alone(note: Note | None, said: Verdict) -> None:
    assert verdict(note, TOPIC) is said


def test_a_note_is_read_as_it_was_written_and_one_that_is_torn_says_nothing(tmp_path: Path) -> None:
    assert log_notes.read(tmp_path) is None
    for note in (TOPIC, changed(topic_czxid=41)):
        log_notes.write(tmp_path, note)
        assert log_notes.read(tmp_path) == note
    path = tmp_path / log_notes.FILE
    whole = path.read_bytes()
    # The end of the line may be missing.
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        assert log_notes.read(tmp_path) == (note if length == len(whole) - 1 else None)
    for damaged in (b"\xff" * 10, b"[]", b'{"cluster_id": 1}'):
        path.write_bytes(damaged)
        assert log_notes.read(tmp_path) is None
    for _ in range(2):
        log_notes.remove(tmp_path)
        assert log_notes.read(tmp_path) is None
