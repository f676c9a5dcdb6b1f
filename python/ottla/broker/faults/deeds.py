"""A request as it is asked about while somebody watches, and what may be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.broker.faults.names import ANY, Names, asks_for_all, named
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH

if TYPE_CHECKING:
    from ottla import _core
    from ottla.broker.call import AnyCall
    from ottla.kafka import PartitionKey
    from ottla.wire.schema import Api, Message


class Deed(NamedTuple):
    """The fate of a request: first it is delayed, then the work is done or not, then it is answered or not.

    error: The code of the error that is answered; None for the handler's own answer.
    about: What of the request has the error.
    after: The work is done first.
    delay_s: It is delayed by so much; with `after` its answer is.
    answers: False if nothing is answered, ever.
    closes: The connection is closed instead.
    """

    error: int | None = None
    about: Names = ANY
    after: bool = False
    delay_s: float = 0.0
    answers: bool = True
    closes: bool = False


class Asked:
    """A request that has come, before its handler is called.

    message: What it says, decoded.
    produce: The hub's own form of a Produce, which is made once; None for others.
    session: Partitions that a Fetch may read without naming them, since its session knows them.
    """

    __slots__ = ("api", "client_id", "message", "produce", "session", "version")

    def __init__(self, call: AnyCall) -> None:
        """Raises RemoteProtocolError for bytes that are no message."""
        self.api: Api[Any, Any] = call.api
        self.version: int = call.version
        self.client_id: str = call.client_id
        self.session: frozenset[PartitionKey] = frozenset()
        self.produce: _core.ProduceRequest | None = None
        if self.api.key == PRODUCE.key:
            self.produce = call.request.produce()
            self.message: Message = _message(self.produce)
        elif self.api.key == FETCH.key:
            self.message = FETCH.decode_request(self.version, call.request)
        else:
            self.message = call.message

    @property
    def is_of_broker(self) -> bool:
        """True if brokers send it to each other."""
        return self.api.is_between_brokers or getattr(self.message, "replica_id", -1) >= 0

    def is_about(self, wanted: Names) -> bool:
        """True if the request names what `wanted` says, or asks for everything of that kind."""
        if any(wanted.covers(each) for each in named(self.message)):
            return True
        if any(wanted.covers(Names(*key)) for key in self.session):
            return True
        return asks_for_all(self.message) and any(Names(group=wanted.group).covers(one) for one in named(self.message))


class Plan(Protocol):
    """Says what becomes of requests. All methods are called in the broker's thread, between two requests of a
    connection.
    """

    def is_used(self) -> bool:
        """False while nobody has to be asked."""

    def decide(self, asked: Asked) -> Deed | None:
        """The fate of this request; None: its handler decides."""


def _message(produce: _core.ProduceRequest) -> ProduceRequest:
    """A Produce as it is declared."""
    topics: dict[str, TopicProduceData] = {}
    for place, (topic, partition, _) in enumerate(produce.partitions):
        rows = topics.setdefault(topic, TopicProduceData(name=topic)).partitions
        rows.append(PartitionProduceData(partition_index=partition, records=produce.records_bytes(place)))
    return ProduceRequest(
        transactional_id=produce.transactional_id,
        acks=produce.acks,
        timeout_ms=produce.timeout_ms,
        topics=list(topics.values()),
    )
