"""`Consumer.create(config)` gives a `ConsumerConnector`: streams of the messages that a group's members share.

Source: kafka/javaapi/consumer/ConsumerConnector.java.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.classic import loop
from ottla.classic.config import ConsumerConfig
from ottla.classic.errors import ClassicError, ConnectorClosed, InvalidConfig
from ottla.classic.loop import Loop
from ottla.classic.member import Member
from ottla.classic.registry import STREAMS_MAX, Subscription, TopicFilter
from ottla.classic.serializing import Decoder, DefaultDecoder, made
from ottla.classic.stream import AnyStream, KafkaStream

K = TypeVar("K")
V = TypeVar("V")


class ConsumerConnector:
    """A member of a group. `shutdown`, and the interpreter's end, write the offsets of what was consumed (with
    `auto.commit.enable`) and give the partitions up at once.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        """Raises Unavailable: ZooKeeper does not answer in time. ClassicError: no broker is registered there."""
        self.config = config
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._loop = Loop()
        self._closed = False
        self._joined = False
        self._member = Member(config, self._loop.soon)
        self._loop.run(self._member.connect)
        loop.at_exit(self)

    @property
    def consumer_id(self) -> str:
        """The name of its registration."""
        return self._member.id

    @property
    def rebalances(self) -> int:
        """How often it has computed an assignment."""
        return self._member.rebalances

    @property
    def owned(self) -> dict[Any, str]:
        """The partitions that are read here now, and the thread that each is for."""
        return dict(self._member.owned)

    def create_message_streams(
        self,
        topic_counts: Mapping[str, int],
        key_decoder: Decoder[Any] | type[Decoder[Any]] | str = DefaultDecoder,
        value_decoder: Decoder[Any] | type[Decoder[Any]] | str = DefaultDecoder,
    ) -> dict[str, list[AnyStream]]:
        """So many streams for each topic. A topic that is not there yet is read once it is. Once per connector.

        Raises:
            ConsumerRebalanceFailed, ClassicError, TreeError, KafkaError, OSError: see `Member.join`.
        """
        for topic, count in topic_counts.items():
            _check_count(count, f"topic '{topic}'")
        subscription = Subscription(dict(topic_counts))
        streams = {
            topic: [self._new_stream(key_decoder, value_decoder) for _ in range(count)]
            for topic, count in topic_counts.items()
        }
        by_thread = {(topic, at): each for topic, row in streams.items() for at, each in enumerate(row)}
        self._join(subscription, by_thread)
        return streams

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder[Any] | type[Decoder[Any]] | str = DefaultDecoder,
        value_decoder: Decoder[Any] | type[Decoder[Any]] | str = DefaultDecoder,
    ) -> list[AnyStream]:
        """So many streams of all topics that a `Whitelist` or `Blacklist` lets through, also of those to come. Once
        per connector. Raises as `create_message_streams`.
        """
        if not isinstance(topic_filter, TopicFilter):
            raise TypeError(f"a filter is a Whitelist or a Blacklist, not {type(topic_filter).__name__}")
        _check_count(num_streams, "a filter")
        streams = [self._new_stream(key_decoder, value_decoder) for _ in range(num_streams)]
        self._join(
            Subscription.filtered(topic_filter, num_streams), {("", at): each for at, each in enumerate(streams)}
        )
        return streams

    def commit_offsets(self) -> None:
        """Writes the offsets of everything that was handed over.

        Raises:
            TreeError, KafkaError, OSError: it cannot be written, after `offsets.commit.max.retries`.
            ConnectorClosed: it was shut down.
        """
        self._check()
        self._loop.run(self._member.commit)

    def shutdown(self, *, commit: bool | None = None) -> None:
        """Ends the streams and leaves the group. May be called more than once, and from any thread. `commit` says
        whether offsets are written, in place of `auto.commit.enable`.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        loop.closed(self)
        if self.pid == os.getpid():
            commits = self.config.auto_commit_enable if commit is None else commit
            self._loop.run(functools.partial(self._member.leave, commit=commits))

    close = shutdown

    def _join(self, subscription: Subscription, streams: Mapping[tuple[str, int], AnyStream]) -> None:
        with self._lock:
            self._check()
            if self._joined:
                raise ClassicError("streams were created already; a connector creates them once")
            self._joined = True
        try:
            self._loop.start(self._member.join, subscription, streams)
        except BaseException:
            self.shutdown()
            raise

    def _new_stream(self, key_decoder: Any, value_decoder: Any) -> AnyStream:
        return KafkaStream(
            made("key decoder", key_decoder, "from_bytes"),
            made("value decoder", value_decoder, "from_bytes"),
            self.config.consumer_timeout_ms,
            self.config.queued_max_message_chunks,
        )

    def _check(self) -> None:
        if self.pid != os.getpid():
            raise ConnectorClosed("made before a fork; make another one")
        if self._closed:
            raise ConnectorClosed("the connector was shut down")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


class Consumer:
    """The documents' way to a connector."""

    @staticmethod
    def create(config: ConsumerConfig | Mapping[str, Any]) -> ConsumerConnector:
        """Raises InvalidConfig: a setting is wrong. Others as `ConsumerConnector`."""
        return ConsumerConnector(config if isinstance(config, ConsumerConfig) else ConsumerConfig.of(config))


def _check_count(count: int, what: str) -> None:
    if not isinstance(count, int) or not 0 < count <= STREAMS_MAX:
        raise InvalidConfig(f"{what} has 1 to {STREAMS_MAX} streams, not {count!r}")
