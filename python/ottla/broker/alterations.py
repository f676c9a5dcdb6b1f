"""The common part of AlterConfigs and IncrementalAlterConfigs: resources of any number, and an answer for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.admin import Resource
from ottla.broker.resources import resource_of
from ottla.config.alter import Alteration
from ottla.controller.writes import pieces_of
from ottla.errors import KafkaError
from ottla.slices import Slices
from ottla.wire.k33_alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from ottla.wire.k44_incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.wire.needs import Operation

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights

AnyResource = TypeVar("AnyResource", AlterConfigsResource, IncrementalResource)


async def altered(
    resources: Sequence[AnyResource],
    check: Callable[[AnyResource], Sequence[Alteration]],
    alter: Callable[[Sequence[Resource]], Awaitable[list[KafkaError | None]]],
    rights: Rights | None,
) -> list[AlterConfigsResourceResponse]:
    """Has each resource altered as `check` says, which raises KafkaError for one that is refused. `rights`: of the
    client, as of a call.
    """
    responses: list[AlterConfigsResourceResponse] = []
    slices = Slices()
    for some in pieces_of(resources):
        wanted: list[tuple[AlterConfigsResourceResponse, Resource]] = []
        for resource in some:
            await slices.row()
            kind, name = resource.resource_type, resource.resource_name
            response = AlterConfigsResourceResponse(error_message=None, resource_type=kind, resource_name=name)
            responses.append(response)
            try:
                if rights is not None:
                    rights.check(Operation.ALTER_CONFIGS, *resource_of(resource))
                wanted.append((response, Resource(kind, name, check(resource))))
            except KafkaError as error:
                response.error_code, response.error_message = error.code, str(error)
        errors = await alter([resource for _, resource in wanted])
        for (response, _), refused in zip(wanted, errors, strict=True):
            if refused is not None:
                response.error_code, response.error_message = refused.code, str(refused)
    return responses
