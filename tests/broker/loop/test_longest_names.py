"""A name of as many characters as a string has is refused like any other: its row has an error, and the connection
stays.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import (
    MESSAGE_MAX,
    DuplicateResource,
    InvalidConfig,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    ResourceNotFound,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k33_alter_configs import ALTER_CONFIGS, AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.k37_create_partitions import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.k44_incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest
from ottla.wire.k44_incremental_alter_configs import AlterableConfig as IncrementalConfig
from ottla.wire.k44_incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.wire.k48_describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    ComponentData,
    DescribeClientQuotasRequest,
)
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.k50_describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.wire.k57_update_features import UPDATE_FEATURES, FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersRequest, TopicRequest
from ottla.wire.schema import Api
from tests.support.client import Client

LONGEST = 32_767
#: Of one byte each, and as many of three bytes as fit.
NAMES = ["x" * LONGEST, "\u2603" * (LONGEST // 3)]


def requests(name: str) -> list[tuple[Api[Any, Any], Any, str, type[KafkaError]]]:
    """API, request, the field of the answer with its rows, and the error of each row."""
    return [
        (CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1000), "topics", InvalidTopic),
        (
            CREATE_TOPICS,
            CreateTopicsRequest([CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig(name, "1")])], 1000),
            "topics",
            InvalidConfig,
        ),
        (DELETE_TOPICS, DeleteTopicsRequest([name], 1000), "responses", UnknownTopicOrPartition),
        (
            DESCRIBE_CONFIGS,
            DescribeConfigsRequest([DescribeConfigsResource(2, name, None)]),
            "results",
            InvalidTopic,
        ),
        (
            DESCRIBE_CONFIGS,
            DescribeConfigsRequest([DescribeConfigsResource(4, name, None)]),
            "results",
            InvalidRequest,
        ),
        (
            ALTER_CONFIGS,
            AlterConfigsRequest([AlterConfigsResource(2, name, [AlterableConfig("retention.ms", "1")])]),
            "responses",
            UnknownTopicOrPartition,
        ),
        (
            INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest([IncrementalResource(4, name, [IncrementalConfig("a", 0, name)])]),
            "responses",
            InvalidRequest,
        ),
        (
            CREATE_PARTITIONS,
            CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None)], 1000),
            "results",
            UnknownTopicOrPartition,
        ),
        (
            ALTER_CLIENT_QUOTAS,
            AlterClientQuotasRequest([EntryData([EntityData("user", "u")], [OpData(name, 1.0, False)])], False),
            "entries",
            InvalidRequest,
        ),
        (
            DESCRIBE_USER_SCRAM_CREDENTIALS,
            DescribeUserScramCredentialsRequest([UserName(name)]),
            "results",
            ResourceNotFound,
        ),
        (
            DESCRIBE_USER_SCRAM_CREDENTIALS,
            DescribeUserScramCredentialsRequest([UserName(name), UserName(name)]),
            "results",
            DuplicateResource,
        ),
        (UPDATE_FEATURES, UpdateFeaturesRequest(1000, [FeatureUpdateKey(name, 1, False)]), "results", InvalidRequest),
    ]


@pytest.mark.parametrize("name", NAMES, ids=["one byte", "three bytes"])
def test_a_row_has_its_error(client: Client, name: str) -> None:
    for api, request, field, error in requests(name):
        rows = getattr(client.call(api, request, api.versions[-1]), field)
        assert [row.error_code for row in rows] == [error.code], api.name


@pytest.mark.parametrize("name", NAMES, ids=["one byte", "three bytes"])
def test_a_request_and_a_partition_have_theirs(client: Client, name: str) -> None:
    asked = DescribeClientQuotasRequest([ComponentData(name, 0, name)], False)
    assert client.call(DESCRIBE_CLIENT_QUOTAS, asked, 0).error_code == UnsupportedVersion.code
    topics = client.call(DESCRIBE_PRODUCERS, DescribeProducersRequest([TopicRequest(name, [0])]), 0).topics
    assert [row.error_code for row in topics[0].partitions] == [InvalidTopic.code]


def test_a_message_is_cut() -> None:
    assert len(str(InvalidTopic("x" * LONGEST))) == MESSAGE_MAX
    assert str(InvalidTopic("x" * MESSAGE_MAX)) == "x" * MESSAGE_MAX
