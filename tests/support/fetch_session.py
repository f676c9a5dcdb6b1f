"""A client's half of a fetch session (KIP-227)."""

from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.support.client import Client


class Session:
    """A client's session on `topic`; `ask` says the next request of it and gives what the answer names."""

    def __init__(self, client: Client, topic: str, version: int = 12) -> None:
        self.client, self.topic, self.version = client, topic, version
        self.id = self.epoch = 0

    def ask(
        self, offsets: dict[int, int] | None = None, *, forget: tuple[int, ...] = (), **options: int
    ) -> dict[int, int]:
        """partition to bytes of records"""
        answer = self.fetch(offsets or {}, forget, **options)
        assert answer.error_code == 0
        self.id, self.epoch = answer.session_id, self.epoch + 1
        return {
            row.partition: len(row.record_set or b"") for topic in answer.responses for row in topic.partition_responses
        }

    def fetch(self, offsets: dict[int, int], forget: tuple[int, ...] = (), **options: int) -> FetchResponse:
        rows = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1)
            for index, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_id=-1,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=self.topic, partitions=rows)] if rows else [],
            forgotten_topics_data=[ForgottenTopic(topic=self.topic, partitions=list(forget))] if forget else [],
            **{"max_wait_ms": 0, **options},
        )
        return self.client.call(FETCH, request, self.version)
