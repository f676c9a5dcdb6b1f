"""Settings of a running broker."""

from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.client import Client

BROKER, BROKER_LOGGER = 4, 8


SET, DELETE, APPEND = 0, 1, 2


def alter(
    client: Client, name: str, value: str | None, *, broker: str = "", kind: int = BROKER, operation: int | None = None
) -> tuple[int, str | None]:
    operation = (DELETE if value is None else SET) if operation is None else operation
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=broker, configs=[config])
    (row,) = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource])).responses
    return row.error_code, row.error_message
