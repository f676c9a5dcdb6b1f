"""DescribeAcls (key 29): the access rules that a filter finds. Without an authorizer there are none, and this says so
as Kafka does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.errors import SecurityDisabled
from ottla.slices import Slices
from ottla.wire.acls import (
    EntryFilter,
    Filter,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
    by_number,
)
from ottla.wire.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.wire.k31_delete_acls import DeleteAclsFilter
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.snapshot import Snapshot
    from ottla.broker.call import Call
    from ottla.broker.rooms import AclRooms
    from ottla.wire.acls import Entry

    DescribeAcls: TypeAlias = "Call[DescribeAclsRequest, DescribeAclsResponse]"

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker."
#: A rule in an answer, about, without its names.
ROW_BYTES: Final = 16


async def handle(call: DescribeAcls, rooms: AclRooms) -> None:
    """All rules are of one moment."""
    call.check()
    if rooms.authorizer is None:
        response = DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
        call.reply(response)
        return
    found = await _find(rooms.authorizer.store.snapshot, filter_of(call.message))
    size_bytes = rows = 0
    for pattern, entries in found.items():
        rows += 1 + len(entries)
        size_bytes += ROW_BYTES + len(pattern.name)
        size_bytes += sum(ROW_BYTES + len(entry.principal) + len(entry.host) for entry in entries)
    async with call.large_answer(rows, size_bytes):
        await call.reply_here(await _answer(found))


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    """A filter as the wire has it."""
    return Filter(
        PatternFilter(
            by_number(Resource, asked.resource_type_filter),
            asked.resource_name_filter,
            by_number(PatternType, asked.pattern_type_filter),
        ),
        EntryFilter(
            asked.principal_filter,
            asked.host_filter,
            by_number(Operation, asked.operation),
            by_number(Permission, asked.permission_type),
        ),
    )


async def _find(snapshot: Snapshot, asked: Filter) -> dict[Pattern, list[Entry]]:
    found: dict[Pattern, list[Entry]] = {}
    slices = Slices()
    for pattern in asked.pattern.named() or snapshot.patterns():
        await slices.row()
        if not asked.pattern.matches(pattern):
            continue
        for entry in snapshot.entries(pattern):
            await slices.row()
            if asked.entry.matches(entry):
                found.setdefault(pattern, []).append(entry)
    return found


async def _answer(found: dict[Pattern, list[Entry]]) -> DescribeAclsResponse:
    answer = DescribeAclsResponse(error_message=None)
    slices = Slices()
    for pattern, entries in found.items():
        row = DescribeAclsResource(pattern.resource, pattern.name, pattern.kind, [])
        answer.resources.append(row)
        for principal, host, operation, permission in entries:
            await slices.row()
            row.acls.append(AclDescription(principal, host, operation, permission))
    return answer
