"""A read as brokers and directories must know it. `ottla.scan` and the Spark source each add their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ottla.client import Security
from ottla.reading.layout import Layout
from ottla.reading.limits import Limit
from ottla.reading.topics import Topics


@dataclass(frozen=True, slots=True)
class Advice:
    """The last words of errors: what the caller can do about them, by the names of the caller's own options. Each is
    empty, or begins with what parts it from the words before it.
    """

    data_loss: str = ""
    no_later_record: str = ""
    damage: str = ""
    timestamp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read, checked and typed. Sizes in bytes, times in milliseconds."""

    advice: ClassVar[Advice] = Advice()

    topics: Topics
    starting: Limit
    ending: Limit
    bootstrap_servers: str | None
    security: Security | None
    paths: tuple[str, ...]
    """The data directories of one broker; none: the brokers are asked."""
    up_to_log_end: bool
    latest_if_no_timestamp: bool
    fail_on_data_loss: bool
    read_committed: bool
    client_id: str
    poll_timeout_ms: int
    api_timeout_ms: int
    fetch_bytes_max: int | None
    fetch_wait_ms_max: int | None
    offset_attempts: int
    offset_retry_ms: int
    skip_corrupt: bool
    corrupt_report: str | None
    verify_crc: bool
    timestamps: str
    """Treatment of timestamps that the column cannot hold: `error` or `null`."""

    def layout(self, names: Sequence[str]) -> Layout:
        """How these columns are laid out."""
        raise NotImplementedError
