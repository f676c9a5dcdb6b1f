"""The options of `ottla acl`: who, what, on which resources, from where; and the rules and filters that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeVar

import click

from ottla.cli._completion import groups as complete_groups
from ottla.cli._completion import topics as complete_topics
from ottla.wire.acl_words import kebab
from ottla.wire.acls import (
    ANY_HOST,
    ANY_NAME,
    CLUSTER_NAME,
    OPERATIONS,
    Binding,
    Entry,
    EntryFilter,
    Filter,
    Pattern,
    PatternFilter,
    PatternType,
    Permission,
)
from ottla.wire.needs import Operation, Resource

Function = TypeVar("Function", bound=Callable[..., Any])


_OPERATIONS: Final = {kebab(each.name): each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY)}


class OperationName(click.ParamType[Operation]):
    """An operation, also as Kafka's tools write it: `DescribeConfigs`, `DESCRIBE_CONFIGS` or `describe-configs`."""

    name = "operation"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Operation:
        """The operation."""
        if isinstance(value, Operation):
            return value
        plain = {name.replace("-", ""): operation for name, operation in _OPERATIONS.items()}
        found = plain.get(str(value).lower().replace("-", "").replace("_", ""))
        if found is None:
            from ottla.config.nearest import hint

            near = hint(str(value), _OPERATIONS)
            self.fail(f"{value!r} is no operation{near}; there are {', '.join(_OPERATIONS)}", parameter, context)
        return found


def principal(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A callback of options and arguments, also of those that are given several times: TYPE:NAME."""
    for text in value if isinstance(value, tuple) else [] if value is None else [value]:
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise click.BadParameter(f"{text!r} is no TYPE:NAME, such as User:alice", context, parameter)
        if kind != "User" and kind.lower() == "user":
            raise click.BadParameter(f"{text!r} would be nobody: write User:{name}", context, parameter)
    return value


def addresses(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """A callback of options: IP addresses as brokers compare them, or "*"."""
    return tuple(text if text == ANY_HOST else _address(context, parameter, text) for text in values)


def address(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A callback of an option: one IP address as brokers compare it."""
    return None if value is None else _address(context, parameter, value)


def _address(context: click.Context, parameter: click.Parameter, text: str) -> str:
    from ipaddress import ip_address

    from ottla.broker.hosts import host_of

    try:
        ip_address(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no IP address: rules have no names of hosts and no networks", context, parameter
        ) from None
    return host_of(text)


def _names(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if "" in values:
        raise click.BadParameter("it is empty", context, parameter)
    return values


_NAMED: Final = (
    ("--topic", "topics", "TOPIC", "A topic", complete_topics),
    ("--group", "groups", "GROUP", "A consumer group", complete_groups),
    ("--transactional-id", "transactional_ids", "ID", "A transactional id", None),
    ("--delegation-token", "delegation_tokens", "TOKEN", "A delegation token, of Kafka's brokers", None),
)


def resource_options(function: Function) -> Function:
    """Adds the options of resources to a command, which makes `Resources` of them."""
    function = click.option("--prefixed", is_flag=True, help="The names are the beginnings of names.")(function)
    function = click.option("--cluster", is_flag=True, help="The cluster itself.")(function)
    for flag, name, shown, words, complete in reversed(_NAMED):
        add = click.option(
            flag,
            name,
            multiple=True,
            callback=_names,
            metavar=shown,
            help=f"{words}. May be given again.",
            shell_complete=complete,
        )
        function = add(function)
    return function


def role_options(function: Function) -> Function:
    """Adds `--producer`, `--consumer` and `--idempotent` to a command, which makes `Roles` of them."""
    function = click.option(
        "--idempotent", is_flag=True, help="With --producer: also idempotent-write on the cluster, up to Kafka 2.7."
    )(function)
    function = click.option(
        "--consumer", is_flag=True, help="All that a consumer needs of --topic and --group, in place of --operation."
    )(function)
    return click.option(
        "--producer",
        is_flag=True,
        help="All that a producer needs of --topic, and of --transactional-id, in place of --operation.",
    )(function)


@dataclass(frozen=True)
class Resources:
    """The resources that options name."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    delegation_tokens: tuple[str, ...]
    cluster: bool
    prefixed: bool

    def patterns(self) -> list[Pattern]:
        """Patterns that rules may have. Raises click.UsageError."""
        if self.prefixed and self.cluster:
            raise click.UsageError("--cluster and --prefixed contradict each other: there is one cluster")
        found = [Pattern(resource, name, self.kind) for resource, name in self._named()]
        if self.prefixed and any(pattern.name == ANY_NAME for pattern in found):
            raise click.UsageError("* with --prefixed would be names that begin with a *: leave --prefixed out for all")
        return found

    def filters(self, kind: PatternType) -> list[PatternFilter]:
        """The filters of patterns with the resources' names, or of any patterns if no resource is named."""
        named = [PatternFilter(resource, name, kind) for resource, name in self._named()]
        return named or [PatternFilter(kind=PatternType.PREFIXED if self.prefixed else PatternType.ANY)]

    @property
    def kind(self) -> PatternType:
        """How the names are meant."""
        return PatternType.PREFIXED if self.prefixed else PatternType.LITERAL

    @property
    def are_given(self) -> bool:
        """True if any option says something about resources."""
        return self.prefixed or any(True for _ in self._named())

    def _named(self) -> Iterator[tuple[Resource, str]]:
        yield from ((Resource.TOPIC, name) for name in self.topics)
        yield from ((Resource.GROUP, name) for name in self.groups)
        yield from ((Resource.TRANSACTIONAL_ID, name) for name in self.transactional_ids)
        yield from ((Resource.DELEGATION_TOKEN, name) for name in self.delegation_tokens)
        if self.cluster:
            yield Resource.CLUSTER, CLUSTER_NAME


@dataclass(frozen=True)
class Roles:
    """The roles for which options ask. Each needs several operations, by kinds of resources."""

    producer: bool
    consumer: bool
    idempotent: bool

    @property
    def are_given(self) -> bool:
        """True if there is one."""
        return self.producer or self.consumer

    def check(self, resources: Resources, operations: tuple[Operation, ...], denied: tuple[str, ...]) -> None:
        """Raises click.UsageError if other options do not go with the roles."""
        if self.idempotent and not self.producer:
            raise click.UsageError("--idempotent needs --producer")
        if not self.are_given:
            return
        role = "--producer" if self.producer else "--consumer"
        if operations or denied:
            other = "--operation" if operations else "--deny"
            raise click.UsageError(f"{other} and {role} contradict each other: leave one out")
        if not resources.topics or (self.consumer and not resources.groups):
            needed = "--consumer needs --topic and --group" if self.consumer else "--producer needs --topic"
            raise click.UsageError(needed)
        if resources.cluster or resources.delegation_tokens:
            raise click.UsageError(f"{role} is about no cluster or token: leave that out")
        if resources.groups and not self.consumer:
            raise click.UsageError("--group is for --consumer: leave it out, or give that as well")
        if resources.transactional_ids and not self.producer:
            raise click.UsageError("--transactional-id is for --producer: leave it out, or give that as well")

    def needs(self, pattern: Pattern) -> tuple[Operation, ...]:
        """The operations of the roles on resources of this kind, as Kafka's tool has them."""
        found: list[Operation] = []
        if self.producer:
            found += _OF_PRODUCERS.get(pattern.resource, ())
        if self.consumer:
            found += _OF_CONSUMERS.get(pattern.resource, ())
        return tuple(dict.fromkeys(found))


_OF_PRODUCERS: Final = {
    Resource.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_OF_CONSUMERS: Final = {Resource.TOPIC: (Operation.READ, Operation.DESCRIBE), Resource.GROUP: (Operation.READ,)}
_CLUSTER: Final = Pattern(Resource.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True)
class Rights:
    """Operations on resources, by roles or one by one."""

    resources: Resources
    roles: Roles
    operations: tuple[Operation, ...]

    def pairs(self) -> list[tuple[Pattern, Operation]]:
        """Each pattern with each of its operations. Raises click.UsageError if rules cannot be so."""
        patterns = self.resources.patterns()
        if self.roles.are_given:
            found = [(pattern, operation) for pattern in patterns for operation in self.roles.needs(pattern)]
            return [*found, (_CLUSTER, Operation.IDEMPOTENT_WRITE)] if self.roles.idempotent else found
        if not patterns:
            raise click.UsageError("for which resource? Give --topic, --group, --transactional-id or --cluster")
        if not self.operations:
            raise click.UsageError("which operation? Give --operation, --producer or --consumer")
        for pattern, operation in product(patterns, self.operations):
            check_operation(pattern.resource, operation)
        return list(product(patterns, self.operations))

    def rules(self, allow: tuple[str, ...], deny: tuple[str, ...], hosts: tuple[str, ...]) -> list[Binding]:
        """The rules that allow these to some principals and deny them to others. Raises click.UsageError."""
        who = [*((one, Permission.ALLOW) for one in allow), *((one, Permission.DENY) for one in deny)]
        if not who:
            raise click.UsageError("to whom? Give --allow or --deny")
        return [
            Binding(pattern, Entry(one, host, operation, permission))
            for (pattern, operation), (one, permission), host in product(self.pairs(), who, hosts or (ANY_HOST,))
        ]

    def filters(self, who: list[tuple[str | None, Permission]], hosts: tuple[str, ...]) -> list[Filter]:
        """The filters of the rules about these for some principals: for any where none is. Raises click.UsageError."""
        pairs: list[tuple[PatternFilter, Operation]]
        if self.roles.are_given:
            pairs = [(PatternFilter(*pattern), operation) for pattern, operation in self.pairs()]
            who = who or [(None, Permission.ALLOW)]
        else:
            pairs = list(product(self.resources.filters(self.resources.kind), self.operations or (Operation.ANY,)))
        return [
            Filter(pattern, EntryFilter(one, host, operation, permission))
            for (pattern, operation), (one, permission), host in product(
                pairs, who or [(None, Permission.ANY)], hosts or (None,)
            )
        ]


def check_operation(resource: Resource, operation: Operation) -> None:
    """Raises click.UsageError if there is no such operation on resources of this kind."""
    if operation is not Operation.ALL and operation not in OPERATIONS[resource]:
        possible = ", ".join(kebab(each.name) for each in OPERATIONS[resource])
        raise click.UsageError(
            f"{kebab(operation.name)} is no operation on a {kebab(resource.name)}; there are {possible}, and all"
        )
