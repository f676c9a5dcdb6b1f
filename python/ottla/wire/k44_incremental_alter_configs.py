"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single settings (KIP-339)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.k33_alter_configs import AlterConfigsResourceResponse
from ottla.wire.schema import Api, Int8, Int32, Message, V


class AlterableConfig(Message):
    name: str = ""
    config_operation: Int8 = 0
    """0 set, 1 delete, 2 append, 3 subtract."""
    value: Annotated[str | None, V(nullable="0+")] = ""


class AlterConfigsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "IncrementalAlterConfigs",
    "0-1",
    flexible=1,
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    # By what is changed: brokers and loggers, or topics.
    needs="ALTER_CONFIGS on CLUSTER or ALTER_CONFIGS on TOPIC",
)
