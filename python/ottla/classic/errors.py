"""What the classic clients raise beside the errors of brokers (`ottla.errors`), by the names of Kafka 0.8."""

from ottla.errors import CorruptMessage


class ClassicError(Exception):
    """The errors of this package."""


class InvalidConfig(ClassicError, ValueError):
    """A setting is unknown, missing or has a value that it cannot have; the text names it."""


class MessageSizeTooLarge(ClassicError):
    """A message is larger than the fetch that should have it: ask for more bytes."""


class InvalidMessage(CorruptMessage):
    """A message is not what was written: its CRC differs, or its sizes make no sense."""


class QueueFull(ClassicError):
    """The queue of an asynchronous producer had no room in time; the message was not taken."""


class FailedToSendMessage(ClassicError):
    """Messages were not delivered. `count` says how many; the cause is the last thing that stood in the way."""

    def __init__(self, message: str, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


class ProducerClosed(ClassicError):
    """The producer was closed, or was made in the process that this one was forked from."""


class ConsumerTimeout(ClassicError):
    """No message came within `consumer.timeout.ms`; the stream may be read on."""


class ConsumerRebalanceFailed(ClassicError):
    """Partitions were not given up by their owners in time, or the group's members contradict each other."""


class ConnectorClosed(ClassicError):
    """The connector was shut down, or was made in the process that this one was forked from."""
