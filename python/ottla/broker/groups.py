"""The group coordinator of this broker, as its settings want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.group.coordinator import GroupCoordinator
from ottla.group.hosted import GroupSettings
from ottla.group.state import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.config import BrokerConfig
    from ottla.replication.delayed import Deadlines
    from ottla.replication.internal_topic import InternalTopic


def groups(
    topic: InternalTopic, deadlines: Deadlines, config: BrokerConfig, wall_ms: Callable[[], int]
) -> GroupCoordinator:
    """`wall_ms` gives the time that stands in records, in milliseconds since 1970."""
    settings = GroupSettings(
        session_timeout_ms_min=config.get_int("group.min.session.timeout.ms"),
        session_timeout_ms_max=config.get_int("group.max.session.timeout.ms"),
        offset_metadata_max=config.get_int("offset.metadata.max.bytes"),
        retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
        limits=Limits(
            initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
            members_max=config.get_int("group.max.size"),
            pending_members_max=config.get_int("group.max.pending.members"),
            metadata_bytes_max=config.get_int("group.member.metadata.max.bytes"),
            group_bytes_max=config.get_int("group.max.bytes"),
            bytes_max=config.queued_bytes_max // 4,
        ),
    )
    return GroupCoordinator(topic, deadlines, settings, wall_ms=wall_ms)
