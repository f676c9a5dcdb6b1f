"""AlterConfigs: replaces all settings of a topic or broker. Older than IncrementalAlterConfigs, which changes single
ones (KIP-339), and whose users do not undo each other's changes.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class AlterableConfig(Message):
    """A setting."""

    name: str = ""
    #: Null is refused.
    value: Annotated[str | None, V(nullable="0+")] = ""


class AlterConfigsResource(Message):
    """A topic or a broker with its settings."""

    #: 2 topic, 4 broker. For log levels there is IncrementalAlterConfigs.
    resource_type: Int8 = 0
    #: The topic, or the id of the broker that is asked; "" for all brokers.
    resource_name: str = ""
    #: All settings that it is to have. Those that are not named go back to their defaults.
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Message):
    """Topics and brokers to change."""

    #: Each by itself: one may be changed and the next refused.
    resources: list[AlterConfigsResource] = []
    #: True: everything is checked, and nothing changed.
    validate_only: bool = False


class AlterConfigsResourceResponse(Message):
    """The result for one topic or broker."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: As in the request.
    resource_type: Int8 = 0
    #: As in the request.
    resource_name: str = ""


class AlterConfigsResponse(Message):
    """The results."""

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
