"""CreateTopics.

Version 1 can only check (`validate_only`), 4 takes -1 for the broker's own number of partitions and replicas, 5
answers with the new topic's settings (KIP-525), 6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ASSIGNMENT_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class CreatableReplicaAssignment(Message):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Message):
    name: str = ""
    value: Annotated[str | None, V(nullable="0+")] = ""


class CreatableTopic(Message):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[bool, V("1+")] = False


class CreatableTopicConfigs(Message):
    name: Annotated[str, V("5+")] = ""
    value: Annotated[str | None, V("5+", nullable="5+")] = ""
    read_only: Annotated[bool, V("5+")] = False
    config_source: Annotated[Int8, V("5+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, V("5+")] = False


class CreatableTopicResult(Message):
    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("1+", nullable="0+", ignorable=True)] = ""
    topic_config_error_code: Annotated[Int16, V("5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[Int32, V("5+", ignorable=True)] = -1
    replication_factor: Annotated[Int16, V("5+", ignorable=True)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, V("5+", nullable="5+", ignorable=True)] = []


class CreateTopicsResponse(Message):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: list[CreatableTopicResult] = []


CREATE_TOPICS = Api(
    19,
    "CreateTopics",
    "0-6",
    flexible=5,
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    items_max=ASSIGNMENT_ITEMS_MAX,
    # The settings of a new topic are told to clients with DESCRIBE_CONFIGS on TOPIC.
    needs="CREATE on CLUSTER or CREATE on TOPIC",
)
