"""A group as its coordinator holds it, and the settings that hold for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.group.members import NEVER
from ottla.group.state import Group, Limits

Done = Callable[[int], None]
"""Called once with an error code, 0 for none."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings group.* and offsets.*, in milliseconds."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    #: characters
    offset_metadata_max: int = 4_096
    retention_ms: int = 10_080 * 60_000
    retention_check_interval_ms: int = 600_000
    limits: Limits = field(default_factory=Limits)


class Hosted:
    """A group with what its coordinator knows about it."""

    __slots__ = ("alarm", "alarm_ms", "group", "index", "leader_epoch", "state", "state_timestamp_ms")

    def __init__(self, group: Group, index: int, leader_epoch: int, state_timestamp_ms: int) -> None:
        self.group = group
        #: its partition, and the leader epoch in which this broker leads that
        self.index = index
        self.leader_epoch = leader_epoch
        #: when it went into the state it is in, in milliseconds since 1970; -1 if that is not known
        self.state_timestamp_ms = state_timestamp_ms
        self.state = group.state
        self.alarm: Alarm | None = None
        self.alarm_ms = NEVER


class Alarm:
    """Rings when a group's first timer is due."""

    __slots__ = ("_hosted", "_ring", "done")
    purgatory = "Heartbeat"

    def __init__(self, hosted: Hosted, ring: Callable[[Hosted], None]) -> None:
        self._hosted = hosted
        self._ring = ring
        self.done = False

    def expire(self) -> None:
        self.done = True
        self._ring(self._hosted)
