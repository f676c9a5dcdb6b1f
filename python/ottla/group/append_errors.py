"""What clients are told when an append of their coordinator fails (kafka.coordinator.group.GroupMetadataManager)."""

from __future__ import annotations

from ottla.errors import (
    CoordinatorNotAvailable,
    InvalidCommitOffsetSize,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RebalanceInProgress,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartition,
)

_NOT_AVAILABLE = (UnknownTopicOrPartition.code, NotEnoughReplicas.code, NotEnoughReplicasAfterAppend.code)
_NOT_HERE = (NotLeaderOrFollower.code, StorageError.code)
_TOO_LARGE = (MessageTooLarge.code, RecordListTooLarge.code)

_COMMIT_ERRORS = {
    **dict.fromkeys(_NOT_AVAILABLE, CoordinatorNotAvailable.code),
    **dict.fromkeys(_NOT_HERE, NotCoordinator.code),
    **dict.fromkeys(_TOO_LARGE, InvalidCommitOffsetSize.code),
}
_STORE_ERRORS = {
    **_COMMIT_ERRORS,
    **dict.fromkeys(_TOO_LARGE, UnknownServerError.code),
    RequestTimedOut.code: RebalanceInProgress.code,
}


def as_commit_error(error: int) -> int:
    """For who commits or removes offsets; other codes, and 0, stay as they are."""
    return _COMMIT_ERRORS.get(error, error)


def as_store_error(error: int) -> int:
    """For members who wait for their assignment."""
    return _STORE_ERRORS.get(error, error)
