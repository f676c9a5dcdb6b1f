"""CreateTopics.

Only the controller does it. Version 6 knows THROTTLING_QUOTA_EXCEEDED (KIP-599), with which a topic is refused; older
versions are let through and wait later.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import ASSIGNMENT_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class CreatableReplicaAssignment(Message):
    """The brokers of one partition, chosen by hand."""

    #: Together they are to go from 0 up without a gap.
    partition_index: Int32 = 0
    #: The first is the preferred leader. Each partition needs the same number.
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Message):
    """A setting of the topic's own."""

    name: str = ""
    #: Null is refused.
    value: Annotated[str | None, V(nullable="0+")] = ""


class CreatableTopic(Message):
    """A topic to make."""

    name: str = ""
    #: -1: as many as num.partitions says, or `assignments` has. Clients send it without assignments since version 4
    #: (KIP-464).
    num_partitions: Int32 = 0
    #: -1: what default.replication.factor says, or `assignments` has.
    replication_factor: Int16 = 0
    #: Empty: the controller chooses. Otherwise both numbers above have to be -1.
    assignments: list[CreatableReplicaAssignment] = []
    #: The settings that differ from the broker's.
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message):
    """Topics to make."""

    #: A topic that is named twice is refused; the others are made.
    topics: list[CreatableTopic] = []
    #: How long the answer waits until all partitions have leaders. After that it is REQUEST_TIMED_OUT, but the topic is
    #: being made nevertheless.
    timeout_ms: Int32 = 60_000
    #: True: everything is checked, and nothing made.
    validate_only: Annotated[bool, V("1+")] = False


class CreatableTopicConfigs(Message):
    """A setting that the new topic has."""

    name: Annotated[str, V("5+")] = ""
    #: Null if it is secret.
    value: Annotated[str | None, V("5+", nullable="5+")] = ""
    #: False for all settings of topics.
    read_only: Annotated[bool, V("5+")] = False
    #: Where the value comes from, by the numbers of DescribeConfigs.
    config_source: Annotated[Int8, V("5+", ignorable=True)] = -1
    #: True for passwords.
    is_sensitive: Annotated[bool, V("5+")] = False


class CreatableTopicResult(Message):
    """The result for one topic."""

    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("1+", nullable="0+", ignorable=True)] = ""
    #: Why the fields below are not told although the topic is made: TOPIC_AUTHORIZATION_FAILED for who may not describe
    #: its settings; here also POLICY_VIOLATION for too many topics.
    topic_config_error_code: Annotated[Int16, V("5+", tag=0, ignorable=True)] = 0
    #: -1 if it is not told.
    num_partitions: Annotated[Int32, V("5+", ignorable=True)] = -1
    #: -1 if it is not told.
    replication_factor: Annotated[Int16, V("5+", ignorable=True)] = -1
    #: All settings, inherited ones as well (KIP-525). Null or empty if they are not told.
    configs: Annotated[list[CreatableTopicConfigs] | None, V("5+", nullable="5+", ignorable=True)] = []


class CreateTopicsResponse(Message):
    """The results."""

    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    #: In any order, each topic once or as often as it was named.
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
