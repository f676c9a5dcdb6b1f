"""Replicas that move between log directories."""

from pathlib import Path

from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k34_alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.client import Client
from tests.support.directories import described
from tests.support.waiting import eventually

BROKER = 4


RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def move(client: Client, topic: str, partition: int, path: Path | str) -> int:
    row = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[row])])
    ((answer,),) = [result.partitions for result in client.call(ALTER_REPLICA_LOG_DIRS, request).results]
    return answer.error_code


def places(client: Client, topic: str) -> dict[tuple[int, bool], str]:
    """The directory of each (partition, is future)."""
    return {
        (part.partition_index, part.is_future_key): path
        for path, row in described(client).items()
        for listed in row.topics
        if listed.name == topic
        for part in listed.partitions
    }


def throttle(client: Client, rate: int, broker: str = "") -> None:
    """Returns when it holds."""
    config = AlterableConfig(name=RATE, config_operation=0, value=str(rate))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource]))
    assert [row.error_code for row in answer.responses] == [0]
    described = DescribeConfigsResource(resource_type=BROKER, resource_name=broker, configuration_keys=[RATE])
    request = DescribeConfigsRequest(resources=[described])
    eventually(
        "the rate",
        lambda: [row.value for row in client.call(DESCRIBE_CONFIGS, request).results[0].configs] == [str(rate)],
    )
