"""IncrementalAlterConfigs (key 44): sets, deletes, appends to and subtracts from single settings of a topic or broker
(KIP-339).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.admin import check_number_of_settings
from ottla.broker.alterations import altered
from ottla.broker.replies import reply
from ottla.config.alter import Alteration
from ottla.errors import InvalidRequest
from ottla.kafka import ConfigOperation
from ottla.slices import Slices
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AdminContext

OPERATIONS = frozenset(operation.value for operation in ConfigOperation)


async def handle(broker: AdminContext, request: Request) -> None:
    version = request.api_version
    asked: IncrementalAlterConfigsRequest = INCREMENTAL_ALTER_CONFIGS.decode_request(version, request)
    host, port = request.peer_address
    slices = Slices()
    # Of a resource that is named twice the last row counts, as in Kafka.
    resources: dict[tuple[int, str], AlterConfigsResource] = {}
    for resource in asked.resources:
        await slices.row()
        resources[resource.resource_type, resource.resource_name] = resource
    alter = partial(
        broker.admin.alter_configs,
        validate_only=asked.validate_only,
        replace=False,
        asked_by=f"the client at {host}:{port} ({request.client_id!r})",
    )
    responses = await altered(list(resources.values()), _alterations, alter)
    reply(broker, request, INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsResponse(responses=responses))


def _alterations(resource: AlterConfigsResource) -> list[Alteration]:
    check_number_of_settings(resource.configs)
    seen: set[str] = set()
    for config in resource.configs:
        if config.name in seen:
            raise InvalidRequest(f"{config.name} is named twice: each setting can be altered once.")
        seen.add(config.name)
        if config.config_operation not in OPERATIONS:
            raise InvalidRequest(
                f"Operation {config.config_operation} of {config.name} is none of {sorted(OPERATIONS)}."
            )
    return [
        Alteration(config.name, ConfigOperation(config.config_operation), config.value) for config in resource.configs
    ]
