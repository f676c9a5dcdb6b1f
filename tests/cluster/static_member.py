"""A member of a group that keeps its place while it is away."""

from collections import Counter
from collections.abc import Iterable

import confluent_kafka as ck

from tests.cluster.rounds import Round
from tests.faults.broker.load import Client

#: Longer than any restart.
SESSION_MS = 45_000


class StaticMember(Client):
    """Reads what it is given and commits after each poll. `places` are those of all records that it read, in that
    order: partition and offset.
    """

    def __init__(self, instance: str, load: Round, group: str) -> None:
        super().__init__(instance, load.cluster.bootstrap, 0, prefix=load.prefix)
        self.group = group
        self.places: list[tuple[int, int]] = []
        self.assigned: list[list[int]] = []
        self.revoked = 0
        self.commits = 0
        self.refused: list[str] = []

    def live(self) -> None:
        consumer = self.consumer(
            **{"group.id": self.group, "group.instance.id": self.name, "session.timeout.ms": SESSION_MS}
        )
        consumer.subscribe([self.plain], on_assign=self.given, on_revoke=self.taken, on_lost=self.taken)
        while not self.stop.is_set():
            if messages := self.consumed(consumer):
                self.places += [(message.partition(), message.offset()) for message in messages]
                ends = {message.partition(): message.offset() + 1 for message in messages}
                self.commit(consumer, [ck.TopicPartition(self.plain, index, end) for index, end in ends.items()])
        consumer.close()

    def commit(self, consumer: ck.Consumer, offsets: list[ck.TopicPartition]) -> None:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            self.commits += 1
        except ck.KafkaException as error:  # the next one has it too
            self.refused.append(str(error))

    def given(self, _: ck.Consumer, places: list[ck.TopicPartition]) -> None:
        self.assigned.append(sorted(place.partition for place in places))

    def taken(self, _: ck.Consumer, __: list[ck.TopicPartition]) -> None:
        self.revoked += not self.stop.is_set()


def read_twice(members: Iterable[StaticMember]) -> list[tuple[int, int]]:
    """The places that were read more than once. A value may be in two: its writer may send a record anew under its next
    epoch, which is for the load to judge.
    """
    read = Counter(place for member in members for place in member.places)
    return [place for place, times in read.items() if times > 1]
