"""CreateAcls (key 30): adds access rules. Without an authorizer, which would heed them, each is refused.

All rules of a request for one pattern are added, or none. As in Kafka, a request with a rule for "any" of something
fails as a whole, since nobody can make such a rule. A number that Kafka 2.7 does not know ends the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER
from ottla.errors import InvalidRequest, KafkaError, RemoteProtocolError, SecurityDisabled, UnknownServerError
from ottla.slices import Slices
from ottla.wire.acls import (
    CLUSTER_NAME,
    Binding,
    Entry,
    Pattern,
    PatternType,
    Permission,
    by_number,
    is_principal,
)
from ottla.wire.k30_create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.store import AclStore
    from ottla.broker.call import Call
    from ottla.broker.rooms import AclRooms

    CreateAcls: TypeAlias = "Call[CreateAclsRequest, CreateAclsResponse]"


async def handle(call: CreateAcls, rooms: AclRooms) -> None:
    asked = call.message
    if rooms.authorizer is None:
        return call.reply(_all_refused(asked, SecurityDisabled(NO_AUTHORIZER)))
    try:
        bindings = await _bindings(asked)
    except UnknownServerError as error:
        return call.reply(_all_refused(asked, error))
    results: dict[Binding, KafkaError | None] = {}
    wanted: dict[Pattern, set[Entry]] = {}
    takes_prefixes = rooms.authorizer.takes_prefixes
    slices = Slices()
    for binding in bindings:
        await slices.row()
        results[binding] = refused = _refusal(binding, takes_prefixes=takes_prefixes)
        if refused is None:
            wanted.setdefault(binding.pattern, set()).add(binding.entry)
    for pattern, entries in wanted.items():
        await slices.row()
        failure = await _add(rooms.authorizer.store, pattern, entries)
        results.update((Binding(pattern, entry), failure) for entry in entries)
    return call.reply(CreateAclsResponse(results=[_result(results[binding]) for binding in bindings]))


def _all_refused(asked: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(error)] * len(asked.creations))


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=error.code, error_message=str(error))


async def _bindings(asked: CreateAclsRequest) -> list[Binding]:
    """Raises UnknownServerError, RemoteProtocolError."""
    slices = Slices()
    found = []
    for row in asked.creations:
        await slices.row()
        found.append(_binding(row))
    return found


def _binding(row: AclCreation) -> Binding:
    resource = by_number(Resource, row.resource_type)
    kind = by_number(PatternType, row.resource_pattern_type)
    operation = by_number(Operation, row.operation)
    permission = by_number(Permission, row.permission_type)
    for value in (resource, kind, operation, permission):
        if not value:
            raise RemoteProtocolError("an access rule has a number that Kafka 2.7 does not know")
        if value.name in ("ANY", "MATCH"):
            raise UnknownServerError(f"A rule cannot be for {value.name} of {type(value).__name__}: a filter can.")
    return Binding(Pattern(resource, row.resource_name, kind), Entry(row.principal, row.host, operation, permission))


def _refusal(binding: Binding, *, takes_prefixes: bool) -> InvalidRequest | None:
    resource, name, kind = binding.pattern
    if resource is Resource.CLUSTER and name != CLUSTER_NAME:
        return InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        return InvalidRequest("Invalid empty resource name")
    if kind is PatternType.PREFIXED and not takes_prefixes:
        return InvalidRequest("Rules for prefixes need inter.broker.protocol.version=2.0-IV1 or newer.")
    return None


async def _add(store: AclStore, pattern: Pattern, entries: set[Entry]) -> KafkaError | None:
    for entry in entries:
        if not is_principal(entry.principal):
            text = "expected a string in format principalType:principalName but got"
            return UnknownServerError(f"{text} {entry.principal}")
    try:
        await store.alter(pattern, lambda before: before | entries)
    except KafkaError as error:
        return error
    return None
