"""What consumers write into ZooKeeper, byte for byte as Java's of 0.8.2 to 0.10.2 do, and what they read there.

    /consumers/G/ids/G_HOST-MS-HEX8              {"version":1,"subscription":{"t":2},"pattern":"static",
                                                  "timestamp":"1448455200000"}              ephemeral
    /consumers/G/owners/T/P                      G_HOST-MS-HEX8-0                           ephemeral
    /consumers/G/offsets/T/P                     1234

Source: kafka/consumer/TopicCount.scala, TopicFilter.scala, ZookeeperConsumerConnector.scala.
"""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.classic.errors import InvalidConfig
from ottla.kafka import INTERNAL_TOPICS, TopicPartition

STREAMS_MAX = 10_000
"""More streams in one registration are taken for a malformed one: each is a row in everybody's memory."""


@dataclass(frozen=True)
class TopicFilter:
    """A regular expression over names of topics, which has to match a whole name. `,` is `|`, and quotes around it
    and spaces in it do not count, as files of properties bring them.

    Raises:
        InvalidConfig: it is no regular expression.
    """

    regex: str

    pattern = ""

    def __post_init__(self) -> None:
        cleaned = self.regex.strip().replace(",", "|").replace(" ", "")
        object.__setattr__(self, "regex", re.sub(r"^[\"']+|[\"']+$", "", cleaned))
        try:
            re.compile(self.regex)
        except re.error as problem:
            raise InvalidConfig(f"not a regular expression: {self.regex!r}: {problem}") from problem

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        raise NotImplementedError

    def _matches(self, topic: str) -> bool:
        return re.fullmatch(self.regex, topic) is not None


class Whitelist(TopicFilter):
    """The topics that match."""

    pattern = "white_list"

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        return self._matches(topic) and not (exclude_internal and topic in INTERNAL_TOPICS)


class Blacklist(TopicFilter):
    """The topics that do not match."""

    pattern = "black_list"

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        return not self._matches(topic) and not (exclude_internal and topic in INTERNAL_TOPICS)


class MalformedRegistration(ValueError):
    """A member's registration makes no sense."""


@dataclass(frozen=True)
class Subscription:
    """What a member reads: topics with the number of streams of each, or a filter with a number."""

    topics: Mapping[str, int]
    filter: TopicFilter | None = None

    @classmethod
    def filtered(cls, topic_filter: TopicFilter, streams: int) -> Subscription:
        return cls({topic_filter.regex: streams}, topic_filter)

    @property
    def pattern(self) -> str:
        return "static" if self.filter is None else self.filter.pattern

    def encode(self, now_ms: int) -> bytes:
        fields = {
            "version": 1,
            "subscription": dict(self.topics),
            "pattern": self.pattern,
            "timestamp": str(now_ms),
        }
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        """Raises MalformedRegistration."""
        try:
            fields: Any = json.loads(data)
            topics = {str(name): int(count) for name, count in fields["subscription"].items()}
            pattern = fields["pattern"]
            if not all(0 < count <= STREAMS_MAX for count in topics.values()):
                raise ValueError("numbers of streams")
            if pattern == "static":
                return cls(topics)
            kind = {"white_list": Whitelist, "black_list": Blacklist}[pattern]
            ((regex, count),) = topics.items()
            return cls({regex: count}, kind(regex))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise MalformedRegistration(f"not a consumer's registration: {data[:200]!r}") from problem

    def threads(self, consumer: str, topics: Iterable[str], *, exclude_internal: bool) -> dict[str, list[str]]:
        """The member's threads by topic; `topics` are those there are."""
        if self.filter is None:
            counts: Mapping[str, int] = self.topics
        else:
            (count,) = self.topics.values()
            counts = {topic: count for topic in topics if self.filter.allows(topic, exclude_internal=exclude_internal)}
        return {topic: [thread(consumer, number) for number in range(count)] for topic, count in counts.items()}


def thread(consumer: str, number: int) -> str:
    """The name under which one of a member's threads owns partitions."""
    return f"{consumer}-{number}"


def new_consumer_id(group: str, name: str = "") -> str:
    """`group_host-ms-hex8`, or with a name of the user's `group_name`."""
    unique = f"{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
    return f"{group}_{name or unique}"


def ids_path(group: str) -> str:
    return f"/consumers/{group}/ids"


def owner_path(group: str, place: TopicPartition) -> str:
    return f"/consumers/{group}/owners/{place.topic}/{place.partition}"


def offset_path(group: str, place: TopicPartition) -> str:
    return f"/consumers/{group}/offsets/{place.topic}/{place.partition}"
