"""Access rules, asked of and changed in a cluster (KIP-140). What they mean is in `ottla.wire.acls`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ottla.client.cluster import Cluster
from ottla.errors import RemoteProtocolError, check, error
from ottla.wire.acl_words import in_words
from ottla.wire.acls import (
    Binding,
    Entry,
    EntryFilter,
    Filter,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
    by_number,
)
from ottla.wire.k29_describe_acls import DESCRIBE_ACLS, DescribeAclsRequest
from ottla.wire.k30_create_acls import CREATE_ACLS, AclCreation, CreateAclsRequest
from ottla.wire.k31_delete_acls import DELETE_ACLS, DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from ottla.wire.needs import Operation, Resource

#: Finds all rules.
ALL_RULES: Final = Filter()
#: Rules or filters of one request.
ROWS_MAX: Final = 1000

T = TypeVar("T")


class AclAdmin:
    """The questions and orders of an administrator about access rules. A cluster without an authorizer answers each
    with SecurityDisabled.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def rules(self, asked: Filter = ALL_RULES) -> list[Binding]:
        """Returns the rules that a filter finds, in order. Words that Kafka 2.7 does not know are `UNKNOWN`."""
        (resource, name, kind), (principal, host, operation, permission) = asked
        request = DescribeAclsRequest(resource, name, kind, principal, host, operation, permission)
        answer = await self.cluster.call_any(DESCRIBE_ACLS, request)
        check(answer.error_code, answer.error_message)
        return sorted(
            Binding(
                Pattern(by_number(Resource, row.resource_type), row.resource_name, _kind(row.pattern_type)),
                _entry(each.principal, each.host, each.operation, each.permission_type),
            )
            for row in answer.resources
            for each in row.acls
        )

    async def add(self, rules: Iterable[Binding]) -> None:
        """Adds rules. One that is there already stays, and is no error. If the cluster refuses some, the others are
        added, and the first refusal is raised.

        Raises:
            InvalidRequest: a rule that cannot be, such as one about a cluster of another name.
        """
        refused = None
        for some in _chunks(list(rules)):
            answer = await self.cluster.call_any(CREATE_ACLS, CreateAclsRequest([_creation(rule) for rule in some]))
            _same_length(some, answer.results)
            for rule, result in zip(some, answer.results, strict=True):
                if result.error_code and refused is None:
                    refused = error(result.error_code, f"{in_words(rule)}: {result.error_message}")
        if refused is not None:
            raise refused

    async def remove(self, filters: Iterable[Filter]) -> list[Binding]:
        """Removes the rules that filters find, and returns those that are gone, in order. Filters that find nothing are
        no error. If the cluster refuses to remove some, the first refusal is raised, with the others removed.
        """
        gone: set[Binding] = set()
        refused = None
        for some in _chunks(list(filters)):
            answer = await self.cluster.call_any(DELETE_ACLS, DeleteAclsRequest([_deletion(each) for each in some]))
            _same_length(some, answer.filter_results)
            for result in answer.filter_results:
                if result.error_code and refused is None:
                    refused = error(result.error_code, result.error_message or "")
                for row in result.matching_acls:
                    if not row.error_code:
                        gone.add(_deleted(row))
                    elif refused is None:
                        refused = error(row.error_code, f"{in_words(_deleted(row))}: {row.error_message}")
        if refused is not None:
            raise refused
        return sorted(gone)


def exactly(rule: Binding) -> Filter:
    """The filter that finds this rule alone."""
    return Filter(PatternFilter(*rule.pattern), EntryFilter(*rule.entry))


def _chunks(rows: list[T]) -> Iterator[list[T]]:
    for first in range(0, len(rows), ROWS_MAX):
        yield rows[first : first + ROWS_MAX]


def _same_length(asked: Sequence[object], answered: Sequence[object]) -> None:
    if len(asked) != len(answered):
        raise RemoteProtocolError(f"{len(answered)} results for {len(asked)} access rules")


def _kind(number: int) -> PatternType:
    return by_number(PatternType, number)


def _entry(principal: str, host: str, operation: int, permission: int) -> Entry:
    return Entry(principal, host, by_number(Operation, operation), by_number(Permission, permission))


def _creation(rule: Binding) -> AclCreation:
    (resource, name, kind), (principal, host, operation, permission) = rule
    return AclCreation(resource, name, kind, principal, host, operation, permission)


def _deletion(asked: Filter) -> DeleteAclsFilter:
    (resource, name, kind), (principal, host, operation, permission) = asked
    return DeleteAclsFilter(resource, name, kind, principal, host, operation, permission)


def _deleted(row: DeleteAclsMatchingAcl) -> Binding:
    return Binding(
        Pattern(by_number(Resource, row.resource_type), row.resource_name, _kind(row.pattern_type)),
        _entry(row.principal, row.host, row.operation, row.permission_type),
    )


__all__ = [
    "ALL_RULES",
    "AclAdmin",
    "Binding",
    "Entry",
    "EntryFilter",
    "Filter",
    "Operation",
    "Pattern",
    "PatternFilter",
    "PatternType",
    "Permission",
    "Resource",
    "exactly",
    "in_words",
]
