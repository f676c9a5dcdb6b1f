"""A partition with transactions of every kind, for tests that show it to somebody else."""

from pathlib import Path

from ottla import _core

from .batches import batch

TRANSACTIONAL = 0x10
COMMIT, ABORT = True, False


def write(
    log: _core.Log, producer: int, sequence: int, *values: bytes, epoch: int = 0, transactional: bool = True
) -> int:
    """Appends one batch; its first offset."""
    attributes = TRANSACTIONAL if transactional else 0
    data = batch(*values, producer=(producer, epoch, sequence), attributes=attributes, timestamp_ms=1_700_000_000_000)
    return log.append_bytes(data, max(log.leader_epoch, 0)).base_offset


def end(log: _core.Log, producer: int, commit: bool, *, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """Appends a marker; its offset."""
    marker = log.append_marker(producer, epoch, commit, coordinator_epoch, max(log.leader_epoch, 0))
    assert marker is not None
    return marker.base_offset


def fill(log: _core.Log, rounds: int = 40) -> list[bytes]:
    """Three producers' transactions between each other, half of them aborted, some records outside of any, and at the
    end one transaction that stays open. What a reader of committed records sees.
    """
    sequences, visible = [0, 0, 0], []
    pending: list[list[tuple[int, bytes]]] = [[], [], []]
    committed: list[tuple[int, bytes]] = []
    for number in range(rounds):
        producer = number % 3
        value = b"%d of %d " % (number, producer) * (1 + number % 5)
        offset = write(log, producer, sequences[producer], value, value + b"!")
        sequences[producer] += 2
        pending[producer] += [(offset, value), (offset + 1, value + b"!")]
        if number % 4 == 3:
            plain = b"plain %d" % number
            committed.append((write(log, -1, -1, plain, epoch=-1, transactional=False), plain))
        if len(pending[producer]) >= 2 * (producer + 1):
            commit = number % 2 == 0
            end(log, producer, commit, coordinator_epoch=number)
            committed += pending[producer] if commit else []
            pending[producer] = []
    for producer in range(3):
        if pending[producer]:
            end(log, producer, ABORT, epoch=1, coordinator_epoch=rounds)
    visible = [value for _, value in sorted(committed)]
    write(log, 9, 0, b"never seen")
    write(log, -1, -1, b"behind it", epoch=-1, transactional=False)
    return visible


def open_log(path: Path, **config: int) -> _core.Log:
    """A partition's folder, made if it is not there."""
    return _core.Log.open_to_append(path, _core.LogConfig(**config))  # type: ignore[arg-type]
