"""The client interfaces of Kafka before 0.9's new clients, as its documents describe them: blocking, for threads.

| class                                      | what                                                               |
|--------------------------------------------|--------------------------------------------------------------------|
| `Consumer.create`                          | a `ConsumerConnector`: a member of a group, and its streams        |
| `KafkaStream`                              | messages of the partitions that one of its threads owns            |
| `Whitelist`, `Blacklist`                   | topics by a regular expression                                     |
| `Producer`                                 | sends at once or through a queue, partitions by key                |
| `SyncProducer`                             | one broker, one request at a time                                  |
| `SimpleConsumer`                           | one broker, stateless requests; the caller keeps the offsets       |

`docs/classic.md` has the settings, by their names in 0.8 to 0.10 and in 0.7. New programs use `ottla.client`.
"""

from ottla.classic.config import ConsumerConfig, ProducerConfig
from ottla.classic.consumer import Consumer, ConsumerConnector
from ottla.classic.errors import (
    ClassicError,
    ConnectorClosed,
    ConsumerRebalanceFailed,
    ConsumerTimeout,
    FailedToSendMessage,
    InvalidConfig,
    InvalidMessage,
    MessageSizeTooLarge,
    ProducerClosed,
    QueueFull,
)
from ottla.classic.event_handler import EventHandler
from ottla.classic.messages import KeyedMessage, Message, MessageAndOffset, MessageSet, ProducerData
from ottla.classic.producer import CallbackHandler, Producer
from ottla.classic.registry import Blacklist, TopicFilter, Whitelist
from ottla.classic.serializing import (
    Decoder,
    DefaultDecoder,
    DefaultEncoder,
    DefaultPartitioner,
    Encoder,
    NullEncoder,
    Partitioner,
    StringDecoder,
    StringEncoder,
)
from ottla.classic.simple_consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, SimpleConsumer
from ottla.classic.stream import KafkaStream, MessageAndMetadata
from ottla.classic.sync_producer import Produced, ProducerRequest, SyncProducer
from ottla.kafka import TopicPartition

__all__ = [
    "EARLIEST_TIME",
    "LATEST_TIME",
    "Blacklist",
    "CallbackHandler",
    "ClassicError",
    "ConnectorClosed",
    "Consumer",
    "ConsumerConfig",
    "ConsumerConnector",
    "ConsumerRebalanceFailed",
    "ConsumerTimeout",
    "Decoder",
    "DefaultDecoder",
    "DefaultEncoder",
    "DefaultPartitioner",
    "Encoder",
    "EventHandler",
    "FailedToSendMessage",
    "FetchRequest",
    "InvalidConfig",
    "InvalidMessage",
    "KafkaStream",
    "KeyedMessage",
    "Message",
    "MessageAndMetadata",
    "MessageAndOffset",
    "MessageSet",
    "MessageSizeTooLarge",
    "NullEncoder",
    "Partitioner",
    "Produced",
    "Producer",
    "ProducerClosed",
    "ProducerConfig",
    "ProducerData",
    "ProducerRequest",
    "QueueFull",
    "SimpleConsumer",
    "StringDecoder",
    "StringEncoder",
    "SyncProducer",
    "TopicFilter",
    "TopicPartition",
    "Whitelist",
]
