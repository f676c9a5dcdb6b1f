"""AlterConfigs (key 33): replaces all of a topic's or broker's own settings. Superseded by IncrementalAlterConfigs.

Of a setting that is named twice the last value counts. A resource that is named twice is refused, since one row would
undo the other, and those beside it are altered: so answers Kafka since 3.2 (ConfigAdminManager.preprocess). Kafka 2.7
refuses the whole request with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.admin import check_number_of_settings
from ottla.broker.alterations import altered
from ottla.config.alter import Alteration
from ottla.errors import InvalidRequest
from ottla.kafka import ConfigOperation
from ottla.slices import Slices
from ottla.wire.k33_alter_configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    AlterConfigs: TypeAlias = "Call[AlterConfigsRequest, AlterConfigsResponse]"


async def handle(call: AlterConfigs, rooms: AdminRooms) -> None:
    asked = call.message
    times: Counter[tuple[int, str]] = Counter()
    slices = Slices()
    for resource in asked.resources:
        await slices.row()
        times[resource.resource_type, resource.resource_name] += 1

    def check(resource: AlterConfigsResource) -> list[Alteration]:
        check_number_of_settings(resource.configs)
        if times[resource.resource_type, resource.resource_name] > 1:
            raise InvalidRequest("Each resource must appear at most once.")
        return [Alteration(config.name, ConfigOperation.SET, config.value) for config in resource.configs]

    alter = partial(rooms.admin.alter_configs, validate_only=asked.validate_only, replace=True)
    responses = await altered(asked.resources, check, alter, call.rights)
    call.reply(AlterConfigsResponse(responses=responses))
