"""`Producer`: sends at once (`producer.type=sync`), or takes into a queue that a thread of its own empties (`async`).

Source: kafka/producer/Producer.scala, kafka/producer/async/ProducerSendThread.scala; callbacks are those of 0.7
(kafka/producer/async/CallbackHandler.scala).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ottla.classic import loop
from ottla.classic.config import ProducerConfig
from ottla.classic.discovery import Discovery, InZooKeeper, StaticList
from ottla.classic.errors import FailedToSendMessage, InvalidConfig, ProducerClosed, QueueFull
from ottla.classic.event_handler import DefaultEventHandler, EventHandler, LeaderProducer
from ottla.classic.messages import KeyedMessage, ProducerData
from ottla.classic.serializing import made

logger = logging.getLogger(__name__)

_CALLBACKS = (
    "init",
    "before_enqueue",
    "after_enqueue",
    "after_dequeuing_existing_data",
    "before_sending_data",
    "last_batch_before_close",
    "close",
)


class CallbackHandler:
    """Sees, and may change, what goes through the queue of an asynchronous producer. `before_enqueue` and
    `after_enqueue` are called on the program's threads, the others on the producer's own.
    """

    def init(self, props: Any) -> None:
        """Called first, with `callback.handler.props`."""

    def before_enqueue(self, data: KeyedMessage) -> KeyedMessage:
        """Gives what is to be queued."""
        return data

    def after_enqueue(self, data: KeyedMessage, added: bool) -> None:
        """`added` is false where the queue had no room."""

    def after_dequeuing_existing_data(self, data: KeyedMessage | None) -> Sequence[KeyedMessage]:
        """Gives what joins the batch; called with None where the wait for another message was over."""
        return [] if data is None else [data]

    def before_sending_data(self, data: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        """Gives what is sent in place of this batch."""
        return data

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        """Gives what is to be sent last of all."""
        return []

    def close(self) -> None:
        pass


class Producer:
    """`Producer({"metadata.broker.list": "127.0.0.1:9092"}).send(KeyedMessage("t", b"value"))`; for many threads.

    `dropped` counts messages that were taken and not delivered. An asynchronous producer raises them, with why, from
    the next `send` or from `close`; a synchronous one raises at once. `close` sends what was taken, and so does the
    interpreter's end.
    """

    def __init__(self, config: ProducerConfig | Mapping[str, Any]) -> None:
        """Raises:
        InvalidConfig: a setting is wrong. Unavailable: ZooKeeper is named, and does not answer in time.
        """
        self.config = config if isinstance(config, ProducerConfig) else ProducerConfig.of(config)
        self.dropped = 0
        self.pid = os.getpid()
        self._forks = loop.forks()
        self._encoder = made("serializer.class", self.config.serializer_class, "to_message")
        key_class = self.config.key_serializer_class or self.config.serializer_class
        key_encoder = made("key.serializer.class", key_class, "to_bytes")
        partitioner = made("partitioner.class", self.config.partitioner_class, "partition")
        self._failures: list[tuple[int, Exception]] = []
        self._failures_lock = threading.Lock()
        self._handler: EventHandler
        if self.config.event_handler is None:
            self._handler = DefaultEventHandler(self.config, partitioner, key_encoder, self._failed)
        else:
            self._handler = made("event.handler", self.config.event_handler, "init", "handle", "close")
        self._handler.init(self.config.event_handler_props)
        self._sending = threading.Lock()
        self._closed = False
        self._queue: _Queue | None = None
        callbacks = None
        if self.config.callback_handler is not None:
            if self.config.producer_type != "async":
                raise InvalidConfig("'callback.handler' is for 'producer.type=async'")
            callbacks = made("callback.handler", self.config.callback_handler, *_CALLBACKS)
        self._discovery: Discovery
        if self.config.zookeeper_connect:
            self._discovery = InZooKeeper(
                self.config.zookeeper_connect,
                self.config.zookeeper_session_timeout_ms,
                self.config.zookeeper_connection_timeout_ms,
            )
        else:
            self._discovery = StaticList(self.config.metadata_broker_list)
        self._leaders = LeaderProducer(self.config, self._discovery)
        if self.config.producer_type == "async":
            self._queue = _Queue(self, callbacks)
            loop.at_exit(self)

    def send(self, data: ProducerData | KeyedMessage | Sequence[ProducerData | KeyedMessage]) -> None:
        """Sends messages, each partitioned by its key.

        Raises:
            FailedToSendMessage: sync: some of these were not delivered; async: some earlier ones were not.
            QueueFull: async: the queue had no room within `queue.enqueue.timeout.ms`; those before were taken.
            ProducerClosed: it was closed, or made before a fork.
        """
        if self._closed or self._forks != loop.forks():
            raise ProducerClosed("the producer was closed" if self._closed else "made before a fork; make another one")
        if self._queue is not None:
            if self._failures:
                self._raise()
            if type(data) is KeyedMessage:
                self._queue.put(data)
            else:
                for message in _flat(data):
                    self._queue.put(message)
            return
        messages = _flat(data)
        with self._sending:
            self._handle(messages)
            self._raise()

    def close(self) -> None:
        """Sends what was taken, and closes the connections. May be called more than once.

        Raises:
            FailedToSendMessage: async: messages were not delivered since the last time that it was raised.
        """
        with self._sending:
            if self._closed:
                return
            self._closed = True
        if self.pid != os.getpid():
            return
        loop.closed(self)
        try:
            if self._queue is not None:
                self._queue.close()
            self._handler.close()
        finally:
            self._leaders.close()
            self._discovery.close()
        self._raise()

    def _handle(self, messages: Sequence[KeyedMessage]) -> None:
        """What cannot be delivered is counted; whoever may raise does so with `_raise`."""
        try:
            self._handler.handle(messages, self._leaders, self._encoder)
        except FailedToSendMessage as problem:
            self._failed(problem.count or len(messages), problem)
        except Exception as problem:
            self._failed(len(messages), problem)

    def _failed(self, count: int, problem: Exception) -> None:
        with self._failures_lock:
            self.dropped += count
            if len(self._failures) < 100:
                self._failures.append((count, problem))
            else:
                self._failures[-1] = self._failures[-1][0] + count, problem
        logger.warning("%d messages not delivered: %s", count, problem)

    def _raise(self) -> None:
        with self._failures_lock:
            failures, self._failures = self._failures, []
        if not failures:
            return
        count = sum(each for each, _ in failures)
        first = failures[0][1]
        if len(failures) == 1 and isinstance(first, FailedToSendMessage):
            raise first
        lost = f"{count} message{'' if count == 1 else 's'}"
        raise FailedToSendMessage(f"{lost} not delivered: {type(first).__name__}: {first}", count) from first

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Queue:
    """The queue of an asynchronous producer, and the thread that empties it in batches."""

    def __init__(self, producer: Producer, callbacks: CallbackHandler | None) -> None:
        config = producer.config
        self._producer = producer
        self._callbacks = callbacks
        self._room = config.queue_buffering_max_messages
        self._batch = config.batch_num_messages
        self._linger_s = config.queue_buffering_max_ms / 1000
        self._timeout_ms = config.queue_enqueue_timeout_ms
        self._messages: deque[KeyedMessage] = deque()
        self._lock = threading.Lock()
        self._has_batch = threading.Condition(self._lock)
        self._has_room = threading.Condition(self._lock)
        self._closing = False
        if callbacks is not None:
            callbacks.init(config.callback_handler_props)
        self._thread = threading.Thread(target=self._run, name="ottla-producer-send", daemon=True)
        self._thread.start()

    def put(self, message: KeyedMessage) -> None:
        """Raises QueueFull, ProducerClosed."""
        added = False
        if self._callbacks is None:
            added = self._offer(message)
        else:
            message = self._callbacks.before_enqueue(message)
            try:
                added = self._offer(message)
            finally:
                self._callbacks.after_enqueue(message, added)
        if not added:
            waited = "" if self._timeout_ms == 0 else f" for {self._timeout_ms} ms"
            raise QueueFull(f"the queue of {self._room} messages had no room{waited}")

    def _offer(self, message: KeyedMessage) -> bool:
        queue = self._messages
        with self._lock:
            if len(queue) >= self._room:
                if self._timeout_ms == 0:
                    return False
                limit_s = None if self._timeout_ms < 0 else self._timeout_ms / 1000
                if not self._has_room.wait_for(lambda: self._closing or len(queue) < self._room, limit_s):
                    return False
            if self._closing:
                raise ProducerClosed("the producer was closed meanwhile")
            queue.append(message)
            size = len(queue)
            if size == 1 or size == self._batch:
                self._has_batch.notify()
        return True

    def close(self) -> None:
        """Returns when the thread has sent everything."""
        with self._lock:
            self._closing = True
            self._has_batch.notify_all()
            self._has_room.notify_all()
        self._thread.join()

    def _run(self) -> None:
        closing = False
        while not closing:
            taken, closing = self._take()
            if batch := self._dequeued(taken):
                self._send(batch)
        if self._callbacks is not None:
            with self._counted(0):
                self._send(list(self._callbacks.last_batch_before_close()))
            with self._counted(0):
                self._callbacks.close()

    def _take(self) -> tuple[list[KeyedMessage], bool]:
        """Waits for a full batch, or for `queue.buffering.max.ms` since the first message came; gives what there is,
        and whether that is the last.
        """
        queue, count = self._messages, self._batch
        with self._lock:
            if not queue and not self._closing:
                self._has_batch.wait(self._linger_s if self._callbacks is not None else None)
            if queue and len(queue) < count and not self._closing:
                self._has_batch.wait_for(lambda: len(queue) >= count or self._closing, self._linger_s)
            taken = [queue.popleft() for _ in range(min(count, len(queue)))]
            self._has_room.notify(len(taken))
            return taken, self._closing and not queue

    def _dequeued(self, taken: list[KeyedMessage]) -> list[KeyedMessage]:
        if self._callbacks is None:
            return taken
        batch: list[KeyedMessage] = []
        if not taken:
            with self._counted(0):
                batch += self._callbacks.after_dequeuing_existing_data(None)
        for message in taken:
            with self._counted(1):
                batch += self._callbacks.after_dequeuing_existing_data(message)
        return batch

    def _send(self, batch: list[KeyedMessage]) -> None:
        messages: Sequence[KeyedMessage] = batch
        if self._callbacks is not None and batch:
            messages = ()
            with self._counted(len(batch)):
                messages = self._callbacks.before_sending_data(batch)
        if messages:
            self._producer._handle(messages)

    @contextlib.contextmanager
    def _counted(self, count: int) -> Iterator[None]:
        """What the program's callback raises is a drop of so many messages; the thread goes on."""
        try:
            yield
        except Exception as problem:
            self._producer._failed(count, problem)


def _flat(data: Any) -> list[KeyedMessage]:
    messages: list[KeyedMessage] = []
    for each in [data] if isinstance(data, KeyedMessage | ProducerData) else data:
        if isinstance(each, KeyedMessage):
            messages.append(each)
        elif isinstance(each, ProducerData):
            messages += each.messages()
        else:
            raise TypeError(f"a producer sends KeyedMessage or ProducerData, not {type(each).__name__}")
    return messages
