"""IncrementalAlterConfigs (key 44): sets, deletes, appends to and subtracts from single settings of a topic or broker
(KIP-339).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.admin import check_number_of_settings
from ottla.broker.alterations import altered
from ottla.config.alter import Alteration
from ottla.errors import InvalidRequest
from ottla.kafka import ConfigOperation
from ottla.slices import Slices
from ottla.wire.k44_incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    IncrementalAlterConfigs: TypeAlias = "Call[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]"

OPERATIONS = frozenset(operation.value for operation in ConfigOperation)


async def handle(call: IncrementalAlterConfigs, rooms: AdminRooms) -> None:
    asked = call.message
    host, port = call.session.address
    slices = Slices()
    # Of a resource that is named twice the last row counts, as in Kafka.
    resources: dict[tuple[int, str], AlterConfigsResource] = {}
    for resource in asked.resources:
        await slices.row()
        resources[resource.resource_type, resource.resource_name] = resource
    alter = partial(
        rooms.admin.alter_configs,
        validate_only=asked.validate_only,
        replace=False,
        asked_by=f"the client at {host}:{port} ({call.request.client_id!r})",
    )
    responses = await altered(list(resources.values()), _alterations, alter, call.rights)
    call.reply(IncrementalAlterConfigsResponse(responses=responses))


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
