"""How much of what there is in the invented activity."""

from dataclasses import dataclass

HOUR_MS = 3_600_000
CHUNK_EVENTS = 50_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides the events. Shares are of all events, from 0 to 1; times in milliseconds.

    `span_ms` is the time from the first event to the last; `late_ms_max` how late a late event may arrive. From the
    event `changed_at` (a share) on, producers run a newer version that sends the field `referrer` too.

    Raises:
        ValueError: a value out of its range.
    """

    events: int = 100_000
    seed: int = 1
    start_ms: int = 1_767_571_200_000  # Monday 5 January 2026, 00:00 UTC
    span_ms: int = 24 * HOUR_MS
    members: int = 10_000
    items: int = 2_000
    bots: int = 5
    bot_share: float = 0.06
    late_share: float = 0.02
    late_ms_max: int = 600_000
    duplicate_share: float = 0.01
    changed_at: float = 0.5

    def __post_init__(self) -> None:
        for name in ("events", "span_ms", "members", "items"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least 1")
        for name in ("bots", "late_ms_max", "start_ms", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least 0")
        for name in ("bot_share", "late_share", "duplicate_share", "changed_at"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share from 0 to 1")
        if self.bot_share + self.duplicate_share > 0.8:
            raise ValueError("bot_share and duplicate_share leave less than a fifth of the events to people")
