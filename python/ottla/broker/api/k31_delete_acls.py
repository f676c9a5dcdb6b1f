"""DeleteAcls (key 31): deletes the access rules that filters find. Without an authorizer each filter is refused.

A rule that several filters find is told with the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER, filter_of
from ottla.errors import KafkaError, SecurityDisabled
from ottla.slices import Slices
from ottla.wire.k31_delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.authorization.snapshot import Snapshot
    from ottla.broker.authorization.store import AclStore
    from ottla.broker.call import Call
    from ottla.broker.rooms import AclRooms
    from ottla.wire.acls import Entry, EntryFilter, Filter, Pattern

    DeleteAcls: TypeAlias = "Call[DeleteAclsRequest, DeleteAclsResponse]"


async def handle(call: DeleteAcls, rooms: AclRooms) -> None:
    asked = call.message
    if rooms.authorizer is None:
        refused = DeleteAclsFilterResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
        return call.reply(DeleteAclsResponse(filter_results=[refused] * len(asked.filters)))
    store = rooms.authorizer.store
    filters = [filter_of(one) for one in asked.filters]
    answer = DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error_message=None) for _ in filters])
    for pattern, numbers in (await _patterns(store.snapshot, filters)).items():
        deleted, error = await _delete(store, pattern, {number: filters[number].entry for number in numbers})
        for entry, number in deleted.items():
            answer.filter_results[number].matching_acls.append(_row(pattern, entry, error))
    return call.reply(answer)


async def _patterns(snapshot: Snapshot, filters: list[Filter]) -> dict[Pattern, list[int]]:
    """The patterns that may have rules to delete, and the numbers of the filters that find them. Those that a filter
    names are looked at in any case: their rules may not have been heard of yet.
    """
    found: dict[Pattern, list[int]] = {}
    slices = Slices()
    for number, one in enumerate(filters):
        for pattern in one.pattern.named() or snapshot.patterns():
            await slices.row()
            if one.pattern.matches(pattern):
                found.setdefault(pattern, []).append(number)
    return found


async def _delete(
    store: AclStore, pattern: Pattern, filters: dict[int, EntryFilter]
) -> tuple[dict[Entry, int], KafkaError | None]:
    """Returns the entries that filters find, each with the number of the first of these, and why they are not deleted;
    None if they are.
    """
    found: dict[Entry, int] = {}

    def rest(before: frozenset[Entry]) -> frozenset[Entry]:
        found.clear()
        for entry in sorted(before):
            number = next((number for number, one in filters.items() if one.matches(entry)), None)
            if number is not None:
                found[entry] = number
        return before - found.keys()

    try:
        await store.alter(pattern, rest)
    except KafkaError as error:
        return found, error
    return found, None


def _row(pattern: Pattern, entry: Entry, error: KafkaError | None) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0 if error is None else error.code,
        error_message=None if error is None else str(error),
        resource_type=pattern.resource,
        resource_name=pattern.name,
        pattern_type=pattern.kind,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
