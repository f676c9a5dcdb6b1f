"""What is done with messages once it is their turn: encode them, choose their partitions, send them to the leaders.

Source: kafka/producer/async/DefaultEventHandler.scala, kafka/producer/BrokerPartitionInfo.scala.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ottla.classic.config import ProducerConfig
from ottla.classic.connection import LazyConnection
from ottla.classic.discovery import Discovery
from ottla.classic.errors import FailedToSendMessage, MessageSizeTooLarge
from ottla.classic.messages import KeyedMessage, Message
from ottla.classic.serializing import DefaultEncoder, Encoder, Partitioner
from ottla.classic.sync_producer import Produced, ProducerRequest, SyncProducer
from ottla.client.cluster import Address
from ottla.errors import (
    KafkaError,
    LeaderNotAvailable,
    NetworkException,
    ProtocolError,
    UnknownTopicOrPartition,
    error,
)
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic

logger = logging.getLogger(__name__)


BATCH_BYTES = 512 * 1024
"""What is sent to a partition at once: half of what brokers take by default (`message.max.bytes`)."""

_Row = Message | tuple[bytes, bytes | None, int]
_Waiting = tuple[KeyedMessage, _Row]
"""A message, and what is stored of it."""


class EventHandler:
    """Handles what an asynchronous producer took, in batches, on its thread; what it raises counts as a drop of the
    whole batch and is raised to the program. `close` is called once, after the last batch.
    """

    def init(self, props: Any) -> None:
        """Called first, with `event.handler.props`."""

    def handle(self, events: Sequence[KeyedMessage], producer: SyncProducer, encoder: Encoder[Any]) -> None:
        """`producer` sends to whichever broker leads a partition; `encoder` is that of `serializer.class`."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class LeaderProducer(SyncProducer):
    """A `SyncProducer` for a whole cluster: each request goes to the leader of its partition. It knows the topics."""

    def __init__(self, config: ProducerConfig, discovery: Discovery) -> None:
        self.acks = config.request_required_acks
        self.request_timeout_ms = config.request_timeout_ms
        self._config = config
        self._discovery = discovery
        self._version = discovery.version
        self._lock = threading.RLock()
        self._brokers: dict[Address, SyncProducer] = {}
        self._places: dict[int, Address] = {}
        self._topics: dict[str, list[int]] = {}
        self._seen: dict[str, float] = {}

    def leaders(self, topic: str) -> list[int]:
        """The broker that leads each partition of a topic, by number; NO_LEADER where none does. A topic that is not
        there is made, if brokers do so.

        Raises:
            KafkaError: what a broker says of it. OSError, RemoteProtocolError: none answers.
        """
        with self._lock:
            self._forget_old()
            if topic not in self._topics:
                self.refresh([topic])
            return self._topics[topic]

    def refresh(self, topics: Sequence[str]) -> None:
        """Asks for the metadata of topics. Raises as `leaders`."""
        with self._lock:
            asked = [MetadataRequestTopic(name=name) for name in topics]
            answer = self._ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True))
            self._places = {row.node_id: Address(row.host, row.port) for row in answer.brokers}
            for address in set(self._brokers) - set(self._places.values()):
                self._brokers.pop(address).close()
            for topic in answer.topics:
                self._topics.pop(topic.name, None)
                if topic.error_code:
                    raise error(topic.error_code, f"topic '{topic.name}'")
                rows = sorted(topic.partitions, key=lambda row: row.partition_index)
                self._topics[topic.name] = [row.leader_id for row in rows]
                self._seen[topic.name] = time.monotonic()

    def forget(self, topics: Sequence[str]) -> None:
        """What is known of these topics is old."""
        with self._lock:
            for topic in topics:
                self._topics.pop(topic, None)

    def multi_send(self, requests: Sequence[ProducerRequest]) -> list[Produced]:
        """As `SyncProducer.multi_send`; a broker that cannot be reached is the error of its partitions. Those that are
        decided may be before others that are sent again.
        """
        results: list[Produced | None] = [None] * len(requests)
        groups: dict[Address, list[int]] = {}
        for at, each in enumerate(requests):
            try:
                groups.setdefault(self._leader(each.place), []).append(at)
            except (OSError, ProtocolError) as problem:
                results[at] = Produced(each.place, -1, NetworkException(str(problem)))
            except KafkaError as problem:
                results[at] = Produced(each.place, -1, problem)
        for address, members in groups.items():
            asked = [requests[at] for at in members]
            try:
                found = self._broker(address).multi_send(asked)
            except (OSError, ProtocolError) as problem:
                failure = NetworkException(_at(address, problem))
                found = [Produced(each.place, -1, failure) for each in asked]
            for at, result in zip(members, found, strict=True):
                results[at] = result
        return [each for each in results if each is not None]

    def close(self) -> None:
        with self._lock:
            for producer in self._brokers.values():
                producer.close()
            self._brokers.clear()

    def _leader(self, place: TopicPartition) -> Address:
        leaders = self.leaders(place.topic)
        if not 0 <= place.partition < len(leaders):
            raise UnknownTopicOrPartition(f"topic '{place.topic}' has no partition {place.partition}")
        leader = leaders[place.partition]
        if leader == NO_LEADER or leader not in self._places:
            raise LeaderNotAvailable(f"{place} has no leader now")
        return self._places[leader]

    def _broker(self, address: Address) -> SyncProducer:
        with self._lock:
            if address not in self._brokers:
                self._brokers[address] = SyncProducer(
                    *address,
                    acks=self.acks,
                    request_timeout_ms=self.request_timeout_ms,
                    client_id=self._config.client_id,
                    connect_timeout_ms=self._config.connect_timeout_ms,
                )
            return self._brokers[address]

    def _forget_old(self) -> None:
        if self._version != self._discovery.version:
            self._version = self._discovery.version
            self._topics.clear()
        interval_ms = self._config.topic_metadata_refresh_interval_ms
        if interval_ms > 0:
            late = time.monotonic() - interval_ms / 1000
            self.forget([topic for topic in self._topics if self._seen[topic] < late])

    def _ask(self, message: MetadataRequest) -> Any:
        problems: dict[Address, str] = {}
        known = [*self._places.values(), *self._discovery.addresses]
        for address in random.sample(known, len(known)):
            connection = LazyConnection(*address, self._config.client_id, self._config.connect_timeout_ms)
            try:
                return connection.call(METADATA, message, timeout_ms=self._config.request_timeout_ms)
            except (OSError, ProtocolError) as failure:
                problems[address] = _at(address, failure)
            finally:
                connection.close()
        names = ", ".join(map(str, self._discovery.addresses)) or "none is registered"
        raise NetworkException(f"no broker answers ({names}): {'; '.join(problems.values())}".removesuffix(": "))


def _at(address: Address, problem: Exception) -> str:
    """Returns the reason with the address, which most errors of connections have in them."""
    text = str(problem)
    return text if str(address) in text else f"{address}: {text}"


class DefaultEventHandler(EventHandler):
    """Encodes, chooses partitions, sends, and sends again what may pass.

    Messages without a key all go to one partition, drawn by chance among those with a leader, until
    `topic.metadata.refresh.interval.ms` is over or a send fails.
    """

    def __init__(
        self,
        config: ProducerConfig,
        partitioner: Partitioner[Any],
        key_encoder: Encoder[Any],
        failed: Callable[[int, Exception], None],
    ) -> None:
        """`failed` is told of messages that cannot be sent at all, with why."""
        self._config = config
        self._partitioner = partitioner
        self._key_encoder = key_encoder
        self._failed = failed
        self._kept: dict[str, tuple[int, float]] = {}
        self._keeps = config.topic_metadata_refresh_interval_ms > 0

    def handle(self, events: Sequence[KeyedMessage], producer: SyncProducer, encoder: Encoder[Any]) -> None:
        """Raises:
        FailedToSendMessage: some were not delivered after `message.send.max.retries`; others were.
        """
        assert isinstance(producer, LeaderProducer)
        waiting: list[_Waiting] = []
        plain = type(encoder) is DefaultEncoder and type(self._key_encoder) is DefaultEncoder
        most = self._config.max_message_size
        for event in events:
            if plain:
                # Bytes are taken as they are, without the calls: they cost more than all the rest.
                _, value, key, _ = event
                if (
                    type(value) is bytes
                    and (key is None or type(key) is bytes)
                    and len(value) + len(key or b"") <= most
                ):
                    waiting.append((event, (value, key, -1)))
                    continue
            try:
                waiting.append((event, self._encoded(event, encoder)))
            except Exception as refusal:
                self._failed(1, refusal)
        problem: Exception | None = None
        for attempt in range(self._config.message_send_max_retries + 1):
            if attempt:
                time.sleep(self._config.retry_backoff_ms / 1000)
                topics = list({event.topic for event, _ in waiting})
                producer.forget(topics)
                for topic in topics:
                    self._kept.pop(topic, None)
            waiting, problem = self._attempt(waiting, producer, problem)
            if not waiting:
                return
        count = len(waiting)
        lost = f"{count} message{'' if count == 1 else 's'}"
        attempts = self._config.message_send_max_retries + 1
        raise FailedToSendMessage(f"{lost} not delivered after {attempts} attempts: {problem}", count) from problem

    def _attempt(
        self, waiting: list[_Waiting], producer: LeaderProducer, problem: Exception | None
    ) -> tuple[list[_Waiting], Exception | None]:
        """Sends once; gives those that are to be sent again, in their order, and why."""
        groups: dict[TopicPartition, list[int]] = {}
        again: list[int] = []
        counts: dict[str, list[int]] = {}
        keyless: dict[str, list[int]] = {}
        for at, (event, _) in enumerate(waiting):
            topic, _, key, part_key = event
            if key is None and part_key is None and topic in keyless:
                keyless[topic].append(at)
                continue
            try:
                if (leaders := counts.get(topic)) is None:
                    leaders = counts[topic] = producer.leaders(topic)
                place = TopicPartition(topic, self._partition(topic, event.partition_key, leaders))
            except (OSError, ProtocolError, KafkaError) as failure:
                problem = failure
                if isinstance(failure, KafkaError) and not failure.retriable:
                    self._failed(1, failure)
                else:
                    counts.pop(topic, None)
                    again.append(at)
                continue
            except Exception as failure:  # the program's partitioner
                self._failed(1, failure)
                continue
            members = groups.setdefault(place, [])
            members.append(at)
            if event.partition_key is None and self._keeps:
                keyless[topic] = members
        pieces = [(place, piece) for place, members in groups.items() for piece in _pieces(waiting, members)]
        requests = [
            ProducerRequest(*place, [waiting[at][1] for at in piece], self._config.codec(place.topic))
            for place, piece in pieces
        ]
        if requests:
            for (_, members), result in zip(pieces, producer.multi_send(requests), strict=True):
                if result.error is None:
                    continue
                problem = result.error
                if result.error.retriable:
                    again += members
                else:
                    self._failed(len(members), result.error)
        return [waiting[at] for at in sorted(again)], problem

    def _encoded(self, event: KeyedMessage, encoder: Encoder[Any]) -> Message:
        message = encoder.to_message(event.value)
        key = message.key if event.key is None else self._key_encoder.to_bytes(event.key)
        if (size := len(message.value or b"") + len(key or b"")) > self._config.max_message_size:
            raise MessageSizeTooLarge(
                f"a message for '{event.topic}' has {size} bytes; max.message.size is {self._config.max_message_size}"
            )
        return message if key is message.key else message._replace(key=key)

    def _partition(self, topic: str, key: Any, leaders: list[int]) -> int:
        if key is not None:
            chosen = self._partitioner.partition(key, len(leaders))
            if not isinstance(chosen, int) or not 0 <= chosen < len(leaders):
                raise ValueError(f"the partitioner chose {chosen!r} of {len(leaders)} partitions of '{topic}'")
            return chosen
        kept, until = self._kept.get(topic, (-1, 0.0))
        now = time.monotonic()
        if now < until and kept < len(leaders) and leaders[kept] != NO_LEADER:
            return kept
        able = [number for number, leader in enumerate(leaders) if leader != NO_LEADER]
        if not able:
            raise LeaderNotAvailable(f"no partition of '{topic}' has a leader now")
        chosen = random.choice(able)
        interval_ms = self._config.topic_metadata_refresh_interval_ms
        self._kept[topic] = chosen, now + (interval_ms / 1000 if interval_ms > 0 else 0)
        return chosen


def _pieces(waiting: Sequence[_Waiting], members: list[int]) -> Iterator[list[int]]:
    """Members in pieces of at most BATCH_BYTES, or of one message."""
    size = 0
    piece: list[int] = []
    for at in members:
        value, key, _ = waiting[at][1]
        size += len(value or b"") + len(key or b"")
        if size > BATCH_BYTES and piece:
            yield piece
            size, piece = len(value or b"") + len(key or b""), []
        piece.append(at)
    yield piece
