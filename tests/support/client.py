"""A client that says exactly what a test wants said."""

from pathlib import Path
from typing import TYPE_CHECKING, Self

from ottla import _core
from ottla.client.blocking import BlockingConnection
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.schema import Api
from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from ottla.client.security import Security


def connect(broker: Broker) -> "Client":
    return Client.connect("127.0.0.1", broker.port, "test")


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **options: object) -> bytes:
    """One record batch without keys."""
    builder = _core.BatchBuilder(**options)  # type: ignore[arg-type]
    for value in values:
        builder.append(timestamp_ms, None, value)
    return builder.finish()


class Client(BlockingConnection):
    """A connection with short forms of what many tests say. It waits for an answer as long as any test does."""

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        client_id: str | None = "ottla",
        *,
        timeout_ms: float = PATIENCE_S * 1000,
        security: "Security | None" = None,
    ) -> Self:
        return super().connect(host, port, client_id, timeout_ms=timeout_ms, security=security)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
        row = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=configs)
        answer = self.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=60_000))
        assert [(row.name, row.error_code) for row in answer.topics] == [(topic, 0)]

    def create_on(self, topic: str, replicas: dict[int, list[int]]) -> None:
        """With these brokers for each partition."""
        rows = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in replicas.items()]
        row = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=rows)
        answer = self.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=60_000))
        assert [(row.name, row.error_code) for row in answer.topics] == [(topic, 0)]

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 8,
        transactional_id: str | None = None,
        timeout_ms: int = 60_000,
    ) -> ProduceResponse:
        row = TopicProduceData(
            name=topic, partitions=[PartitionProduceData(partition_index=partition, records=records)]
        )
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topics=[row])
        if version >= 3:
            request.transactional_id = transactional_id
        return self.call(PRODUCE, request, version)

    def alter(self, kind: int, name: str, settings: dict[str, str]) -> None:
        changes = [
            AlterableConfig(name=setting, config_operation=0, value=value) for setting, value in settings.items()
        ]
        row = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        answer = self.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[row]))
        assert [(row.error_code, row.error_message) for row in answer.responses] == [(0, None)]

    def alter_topic(self, topic: str, settings: dict[str, str]) -> None:
        self.alter(2, topic, settings)

    def alter_broker(self, broker: str, settings: dict[str, str]) -> None:
        """Of all brokers if `broker` is empty."""
        self.alter(4, broker, settings)

    def delete_topic(self, topic: str) -> None:
        answer = self.call(DELETE_TOPICS, DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000))
        assert [(row.name, row.error_code) for row in answer.responses] == [(topic, 0)]

    def produce_silently(self, topic: str, records: bytes) -> None:
        """With acks=0, to which there is no answer."""
        row = TopicProduceData(name=topic, partitions=[PartitionProduceData(records=records)])
        request = ProduceRequest(transactional_id=None, acks=0, timeout_ms=60_000, topics=[row])
        self.send_only(PRODUCE, 8, request)

    def send_only(self, api: Api, version: int, request: object) -> None:
        """A request whose answer nobody waits for."""
        self._socket.sendall(request_frame(api.key, version, 0, "test", api.encode_request(version, request)))

    def fetch(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        version: int = 11,
        max_wait_ms: int = 0,
        **options: int,
    ) -> FetchResponse:
        epoch = options.pop("current_leader_epoch", -1)
        rows = [
            FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
            )
        ]
        request = FetchRequest(
            replica_id=-1, max_wait_ms=max_wait_ms, topics=[FetchTopic(topic=topic, partitions=rows)], **options
        )
        return self.call(FETCH, request, version)


def values(response: FetchResponse) -> list[bytes | None]:
    """The values in a fetch of one partition."""
    ((row,),) = [topic.partition_responses for topic in response.responses]
    assert row.error_code == 0
    return [record.value for record in _core.RecordReader(row.record_set or b"")]


def data(path: Path, topic: str, partition: int = 0) -> Path:
    return path / f"{topic}-{partition}" / "00000000000000000000.log"
