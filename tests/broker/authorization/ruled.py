"""A broker with an authorizer, Ottla's or Apache Kafka's with the same settings, and clients of many names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.client import BlockingConnection, Security
from ottla.wire.acls import Binding, Entry, Pattern, PatternType, Permission
from ottla.wire.k29_describe_acls import DESCRIBE_ACLS, AclDescription, DescribeAclsRequest
from ottla.wire.k30_create_acls import CREATE_ACLS, AclCreation, CreateAclsRequest
from ottla.wire.k31_delete_acls import DELETE_ACLS, DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from ottla.wire.needs import Operation, Resource
from ottla.wire.schema import Api
from tests.support.waiting import eventually

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def settings(plaintext: int, sasl: int, users: Iterable[str], **others: object) -> dict[str, object]:
    """Those who come to PLAINTEXT are super users, as brokers have to be. The others say who they are."""
    known = " ".join(f'user_{user}="p"' for user in users)
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plaintext},SASL://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN} required {known};",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:root;User:ANONYMOUS",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.min.isr": 1,
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def rule(
    who: str,
    operation: Operation,
    resource: Resource,
    name: str,
    permission: Permission = Permission.ALLOW,
    kind: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> Binding:
    return Binding(Pattern(resource, name, kind), Entry(f"User:{who}", host, operation, permission))


def creation(one: Binding) -> AclCreation:
    (resource, name, kind), (principal, host, operation, permission) = one
    return AclCreation(resource, name, kind, principal, host, operation, permission)


def of_filter(one: Binding) -> DeleteAclsFilter:
    (resource, name, kind), (principal, host, operation, permission) = one
    return DeleteAclsFilter(resource, name, kind, principal, host, operation, permission)


@dataclass
class Ruled:
    """The ports of its listeners."""

    plaintext: int
    sasl: int

    def enter(self, user: str | None = None) -> BlockingConnection:
        """A connection of a user; without a name, of a super user."""
        if user is None:
            return BlockingConnection.connect("127.0.0.1", self.plaintext)
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{user}" password="p";',
        }
        return BlockingConnection.connect("127.0.0.1", self.sasl, security=Security.of(given))

    def ask(self, user: str | None, api: Api[Any, Any], message: Any, version: int | None = None) -> Any:
        with self.enter(user) as connection:
            return connection.call(api, message, version)

    def create(self, *rules: Binding, user: str | None = None) -> list[int]:
        """The error codes."""
        answer = self.ask(user, CREATE_ACLS, CreateAclsRequest([creation(one) for one in rules]))
        return [row.error_code for row in answer.results]

    def delete(self, *rules: Binding, user: str | None = None) -> list[tuple[int, list[int]]]:
        """The error codes of filters, and those of what they found."""
        answer = self.ask(user, DELETE_ACLS, DeleteAclsRequest([of_filter(one) for one in rules]))
        return [(row.error_code, [one.error_code for one in row.matching_acls]) for row in answer.filter_results]

    def found(self, asked: DescribeAclsRequest, user: str | None = None) -> set[tuple[object, ...]] | int:
        """The rules that a filter finds, or the error code."""
        answer = self.ask(user, DESCRIBE_ACLS, asked)
        if answer.error_code:
            return int(answer.error_code)
        return {
            (row.resource_type, row.resource_name, row.pattern_type, *_entry(one))
            for row in answer.resources
            for one in row.acls
        }

    def settle(self) -> None:
        """Waits until it takes connections of users."""
        eventually("users are let in", lambda: self.enter("root").close() is None)


ANYTHING = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def told(row: DeleteAclsMatchingAcl) -> tuple[object, ...]:
    """The rule of a row, as `flat` has it."""
    return (row.resource_type, row.resource_name, row.pattern_type, *_entry(row))


def _entry(row: AclDescription | DeleteAclsMatchingAcl) -> tuple[object, ...]:
    return row.principal, row.host, row.operation, row.permission_type


def flat(one: Binding) -> tuple[object, ...]:
    """As `Ruled.found` has it."""
    return (*one.pattern, *one.entry)
