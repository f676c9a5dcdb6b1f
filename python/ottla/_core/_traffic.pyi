"""Traffic of topics, counted (rust/py/traffic.rs)."""

from typing import Self, final

@final
class TopicTraffic:
    """What went through the topics of one broker, counted by its log directories and its hub."""

    def __new__(cls) -> Self: ...
    def counts(self) -> TrafficCounts: ...

@final
class TrafficCounts:
    by_topic: dict[str, Counts]  # of every topic that has a log
    total: Counts  # of all topics there ever were

@final
class Counts:
    """The hub counts what its requests bring, if it measures; the logs count the rest."""

    records_in: int  # by logs
    bytes_in: int  # by logs
    bytes_out: int
    produce_requests: int  # partitions in them
    fetch_requests: int
    failed_produce_requests: int  # unexpectedly
    failed_fetch_requests: int
    produce_conversions: int  # records; by logs
    fetch_conversions: int
    replication_bytes_in: int  # by logs: what fetchers appended
    replication_bytes_out: int  # to followers
    reassignment_bytes_in: int  # by logs: of those fetched, for replicas that a reassignment adds
