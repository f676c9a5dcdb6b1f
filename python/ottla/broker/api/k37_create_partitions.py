"""CreatePartitions (key 37): adds partitions to topics, and answers when this broker's own metadata shows them. Only
the controller does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.new_leaders import without_leaders
from ottla.controller.topic_changes import NEW_PARTITIONS_MAX, Grown, MorePartitions, NewPartitions
from ottla.controller.writes import pieces_of
from ottla.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    NotController,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.slices import Slices
from ottla.wire.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    CreatePartitions: TypeAlias = "Call[CreatePartitionsRequest, CreatePartitionsResponse]"

THROTTLING_ERRORS_SINCE = 3


async def handle(call: CreatePartitions, rooms: AdminRooms) -> None:
    growing = _Growing(call, rooms)
    await growing.count_names()
    for some in pieces_of(call.message.topics):
        await growing.grow(some)
    await growing.wait_for_leaders()
    growing.mutations.settle()
    call.reply(growing.answer())


class _Growing:
    """The topics of one request, until they are answered."""

    def __init__(self, call: CreatePartitions, rooms: AdminRooms) -> None:
        self._rooms = rooms
        self._asked = call.message
        self._slices = Slices()
        self._rights = call.rights
        self._growth = rooms.admin.growth()
        self._new = NewPartitions()
        self.mutations = call.mutations(THROTTLING_ERRORS_SINCE)
        self._counts: Counter[str] = Counter()
        self._results: dict[str, CreatePartitionsTopicResult] = {}
        #: How many partitions each has now.
        self._grown: dict[str, int] = {}

    async def count_names(self) -> None:
        """A name that comes twice is refused each time."""
        for topic in self._asked.topics:
            await self._slices.row()
            self._counts[topic.name] += 1

    async def grow(self, some: Sequence[CreatePartitionsTopic]) -> None:
        """Writes those that can grow to the tree, unless all are only to be looked at."""
        wanted: list[MorePartitions] = []
        for topic in some:
            await self._slices.row()
            self._results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
            try:
                wanted.append(self._wanted(topic))
            except KafkaError as error:
                self._refuse(topic.name, error)
        checked: list[Grown] = []
        for each, plan in zip(wanted, await self._growth.check(wanted), strict=True):
            await self._slices.row()
            try:
                checked.append(self._take(plan))
            except KafkaError as error:
                self._refuse(each.topic, error)
        if self._asked.validate_only:
            return
        for plan, refused in zip(checked, await self._growth.write(checked), strict=True):
            await self._slices.row()
            if refused is None:
                self._grown[plan.wanted.topic] = plan.wanted.total
            else:
                self._refuse(plan.wanted.topic, refused)

    def _wanted(self, topic: CreatePartitionsTopic) -> MorePartitions:
        if not self._rooms.controller.is_active:
            raise NotController
        if self._counts[topic.name] > 1:
            raise InvalidRequest("Duplicate topic in request.")
        if self._rights is not None:
            self._rights.check(Operation.ALTER, Resource.TOPIC, topic.name)
        if topic.name not in self._rooms.metadata.topics:
            raise UnknownTopicOrPartition(f"The topic '{topic.name}' does not exist.")
        if topic.assignments is not None and len(topic.assignments) > NEW_PARTITIONS_MAX:
            raise InvalidReplicaAssignment(
                f"{len(topic.assignments)} assignments are more than {NEW_PARTITIONS_MAX}, the most per request."
            )
        assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
        return MorePartitions(topic.name, topic.count, assignments)

    def _take(self, plan: Grown | KafkaError) -> Grown:
        """Counts the partitions of a plan, unless it is only to be looked at."""
        if isinstance(plan, KafkaError):
            raise plan
        if not self._asked.validate_only:
            self._new.check(len(plan.placed))
            self.mutations.take(len(plan.placed))
            self._new.made += len(plan.placed)
        return plan

    def _refuse(self, name: str, error: KafkaError) -> None:
        self._results[name].error_code, self._results[name].error_message = error.code, str(error)

    async def wait_for_leaders(self) -> None:
        """Clients that are answered find the new partitions led."""
        late = RequestTimedOut("The partitions are being created, but were not ready in time.")
        for name in await without_leaders(self._rooms.metadata, self._grown, self._asked.timeout_ms):
            await self._slices.row()
            self._refuse(name, late)

    def answer(self) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=list(self._results.values()))
