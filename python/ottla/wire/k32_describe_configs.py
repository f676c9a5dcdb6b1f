"""DescribeConfigs: the settings of topics and brokers, and where each value comes from."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class DescribeConfigsResource(Message):
    """A topic or a broker."""

    #: 2 topic, 4 broker, 8 the log levels of a broker (KIP-412).
    resource_type: Int8 = 0
    #: The topic, or the broker's id. "" stands for what holds for all brokers. A broker describes none but itself.
    resource_name: str = ""
    #: The names that are asked for. Null, and here an empty list, too, asks for all.
    configuration_keys: Annotated[list[str] | None, V(nullable="0+")] = []


class DescribeConfigsRequest(Message):
    """Topics and brokers that are asked about."""

    #: One that is named twice is answered twice.
    resources: list[DescribeConfigsResource] = []
    #: Asks for `synonyms` (KIP-226).
    include_synonyms: Annotated[bool, V("1+")] = False
    #: Asks for `documentation` (KIP-569).
    include_documentation: Annotated[bool, V("3+")] = False


class DescribeConfigsSynonym(Message):
    """A place where the value may come from."""

    #: There the setting may have another name: log.cleanup.policy of the broker for cleanup.policy of a topic.
    name: Annotated[str, V("1+")] = ""
    #: The value there; null if it is secret.
    value: Annotated[str | None, V("1+", nullable="0+")] = ""
    #: By the numbers of `config_source`.
    source: Annotated[Int8, V("1+")] = 0


class DescribeConfigsResourceResult(Message):
    """A setting."""

    name: str = ""
    #: The one that holds; null if it is secret or if there is none.
    value: Annotated[str | None, V(nullable="0+")] = ""
    #: True: it is changed in the broker's file alone, and holds after a restart.
    read_only: bool = False
    #: Version 0 only; then `config_source` tells more (KIP-226).
    is_default: Annotated[bool, V("0")] = False
    #: 1 the topic, 2 this broker, changed while it runs, 3 the same for all brokers, 4 the broker's file, 5 the
    #: default, 6 its log levels (KIP-226). 0 is unknown.
    config_source: Annotated[Int8, V("1+", ignorable=True)] = -1
    #: True for passwords.
    is_sensitive: bool = False
    #: All places with a value, the one that holds first. Empty unless asked for.
    synonyms: Annotated[list[DescribeConfigsSynonym], V("1+", ignorable=True)] = []
    #: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password (KIP-569). 0 is unknown.
    config_type: Annotated[Int8, V("3+", ignorable=True)] = 0
    #: Null unless asked for.
    documentation: Annotated[str | None, V("3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsResult(Message):
    """The settings of one topic or broker."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: As in the request.
    resource_type: Int8 = 0
    #: As in the request.
    resource_name: str = ""
    #: The settings, in any order.
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message):
    """The results."""

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
