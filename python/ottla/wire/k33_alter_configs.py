"""AlterConfigs: replaces all settings of a topic or broker. Older than IncrementalAlterConfigs, which changes single
ones.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class AlterableConfig(Message):
    name: str = ""
    value: Annotated[str | None, V(nullable="0+")] = ""


class AlterConfigsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


ALTER_CONFIGS = Api(
    33,
    "AlterConfigs",
    "0-1",
    flexible=2,
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    # By what is changed: brokers and loggers, or topics.
    needs="ALTER_CONFIGS on CLUSTER or ALTER_CONFIGS on TOPIC",
)
