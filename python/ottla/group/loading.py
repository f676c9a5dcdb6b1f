"""From the records of a partition of `__consumer_offsets` to its groups: the last word on each key, in the log's order.

Commits of transactions count when their COMMIT marker comes, at the place of the commit and not of the marker: a plain
commit that follows in the log before the marker is the younger one. What is open at the end stays open. No I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla.errors import ProtocolError
from ottla.group import records
from ottla.group.members import Member
from ottla.group.offsets import GroupOffsets, Placed, Transaction
from ottla.group.records import GroupKey, OffsetKey, StoredGroup
from ottla.group.state import Group
from ottla.kafka import TopicPartition

logger = logging.getLogger("ottla.group")

#: about a millisecond
DECODED_AT_ONCE = 500


@dataclass
class LoadedGroup:
    """A group as the log has it; `stored` is None if it only has offsets."""

    stored: StoredGroup | None = None
    offsets: GroupOffsets = field(default_factory=GroupOffsets)


class Replay:
    """Takes batches in the order of the log; `groups` are there when `decode` has run to its end."""

    def __init__(self, where: str) -> None:
        self.groups: dict[str, LoadedGroup] = {}
        self._where = where
        # By the keys' bytes: most records of a log that was not compacted yet are superseded, and never decoded.
        self._values: dict[bytes, tuple[int, bytes]] = {}
        self._open: dict[int, dict[bytes, tuple[int, bytes]]] = {}

    def take(
        self,
        producer_id: int,
        is_transactional: bool,
        is_commit: bool | None,
        batch_records: Iterable[tuple[int, bytes | None, bytes | None]],
    ) -> None:
        """A batch; `is_commit` is what a control batch says, its records are not looked at."""
        if is_commit is not None:
            self._end_transaction(producer_id, is_commit)
            return
        into = self._open.setdefault(producer_id, {}) if is_transactional else self._values
        base_offset = -1
        for offset, key, value in batch_records:
            if base_offset < 0:
                base_offset = offset
            if key is None:
                logger.warning("%s: the record at offset %d has no key, it is skipped", self._where, offset)
            elif value is None:
                into.pop(key, None)
            else:
                into[key] = (base_offset, value)

    def _end_transaction(self, producer_id: int, is_commit: bool) -> None:
        commits = self._open.pop(producer_id, {})
        if not is_commit:
            return
        for key, placed in commits.items():
            known = self._values.get(key)
            if known is None or known[0] < placed[0]:
                self._values[key] = placed

    def decode(self) -> Iterator[None]:
        """Makes `groups` of what was taken; yields from time to time, so that a loop may do other things meanwhile."""
        for number, (key, (log_offset, value)) in enumerate(self._values.items()):
            if number % DECODED_AT_ONCE == 0:
                yield
            try:
                decoded = records.read_key(key)
                group = self.groups.setdefault(decoded.group, LoadedGroup())
                if isinstance(decoded, GroupKey):
                    group.stored = records.read_group(value)
                else:
                    self._commit(group.offsets.committed, decoded, log_offset, value)
            except ProtocolError as error:
                self._skip(log_offset, error)
        for producer_id, commits in self._open.items():
            for key, (log_offset, value) in commits.items():
                try:
                    decoded = records.read_key(key)
                    if isinstance(decoded, OffsetKey):
                        offsets = self.groups.setdefault(decoded.group, LoadedGroup()).offsets
                        transaction = offsets.open_transactions.setdefault(producer_id, Transaction())
                        self._commit(transaction.placed, decoded, log_offset, value)
                except ProtocolError as error:
                    self._skip(log_offset, error)

    @staticmethod
    def _commit(into: dict[TopicPartition, Placed], key: OffsetKey, log_offset: int, value: bytes) -> None:
        partition = TopicPartition(key.topic, key.partition)
        known = into.get(partition)
        # Keys of versions 0 and 1 are different bytes for the same partition.
        if known is None or known.log_offset <= log_offset:
            into[partition] = Placed(log_offset, records.read_offset(value))

    def _skip(self, log_offset: int, error: ProtocolError) -> None:
        logger.warning("%s: a record in the batch at offset %d is skipped: %s", self._where, log_offset, error)


def restore(group: Group, loaded: LoadedGroup) -> None:
    """Makes a new group what the log says."""
    group.offsets = loaded.offsets
    stored = loaded.stored
    if stored is None:
        return
    members = []
    for row in stored.members:
        member = Member(
            row.member_id,
            row.group_instance_id,
            row.client_id,
            row.client_host,
            row.session_timeout_ms,
            row.rebalance_timeout_ms,
            [(stored.protocol or "", row.subscription)],
        )
        member.assignment = row.assignment
        members.append(member)
    group.generation = stored.generation
    group.protocol = stored.protocol
    group.restore(members, stored.protocol_type or None, stored.leader)


def to_store(group: Group, assignments: Mapping[str, bytes], state_timestamp_ms: int) -> StoredGroup:
    """The group as a record, with the assignments that it is about to have."""
    members = []
    for member in group.members.values():
        assert group.protocol is not None
        members.append(
            records.StoredMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol),
                assignments[member.member_id],
            )
        )
    return StoredGroup(
        group.protocol_type or "", group.generation, group.protocol, group.leader, state_timestamp_ms, members
    )
