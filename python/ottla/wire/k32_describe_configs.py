"""DescribeConfigs: the settings of topics and brokers, and where each value comes from.

Version 1 brings sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class DescribeConfigsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: Annotated[list[str] | None, V(nullable="0+")] = []


class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[bool, V("1+")] = False
    include_documentation: Annotated[bool, V("3+")] = False


class DescribeConfigsSynonym(Message):
    name: Annotated[str, V("1+")] = ""
    value: Annotated[str | None, V("1+", nullable="0+")] = ""
    source: Annotated[Int8, V("1+")] = 0


class DescribeConfigsResourceResult(Message):
    name: str = ""
    value: Annotated[str | None, V(nullable="0+")] = ""
    read_only: bool = False
    is_default: Annotated[bool, V("0")] = False
    config_source: Annotated[Int8, V("1+", ignorable=True)] = -1
    is_sensitive: bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], V("1+", ignorable=True)] = []
    config_type: Annotated[Int8, V("3+", ignorable=True)] = 0
    documentation: Annotated[str | None, V("3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsResult(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []


DESCRIBE_CONFIGS = Api(
    32,
    "DescribeConfigs",
    "0-3",
    flexible=4,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    # By what is described: brokers and loggers, or topics.
    needs="DESCRIBE_CONFIGS on CLUSTER or DESCRIBE_CONFIGS on TOPIC",
)
