"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single settings (KIP-339)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.k33_alter_configs import AlterConfigsResourceResponse
from ottla.wire.schema import Api, Int8, Int32, Message, V


class AlterableConfig(Message):
    """A setting, and what to do with it."""

    name: str = ""
    #: 0 set, 1 delete, 2 append, 3 subtract. The last two are for lists alone.
    config_operation: Int8 = 0
    #: For 2 and 3 the items, with commas between them. Null is for 1 alone.
    value: Annotated[str | None, V(nullable="0+")] = ""


class AlterConfigsResource(Message):
    """A topic or a broker with its changes."""

    #: 2 topic, 4 broker, 8 the log levels of a broker (KIP-412).
    resource_type: Int8 = 0
    #: The topic, or the id of the broker that is asked; "" for all brokers.
    resource_name: str = ""
    #: A setting that is named twice is refused. Those that are not named stay as they are.
    configs: list[AlterableConfig] = []


class IncrementalAlterConfigsRequest(Message):
    """Topics and brokers to change."""

    #: Each by itself: one may be changed and the next refused.
    resources: list[AlterConfigsResource] = []
    #: True: everything is checked, and nothing changed.
    validate_only: bool = False


class IncrementalAlterConfigsResponse(Message):
    """The results."""

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
