"""Access rules as people read them."""

from __future__ import annotations

from ottla.wire.acls import ANY_HOST, ANY_NAME, ANY_USER, Binding, Pattern, PatternType, Permission
from ottla.wire.needs import Operation, Resource


def in_words(rule: Binding) -> str:
    """Such as "User:alice may read topic orders" or "everybody may not write topics that begin with ord"."""
    principal, host, operation, permission = rule.entry
    who = "everybody" if principal == ANY_USER else principal
    verb = {Permission.ALLOW: "may", Permission.DENY: "may not"}.get(permission, "may or may not")
    where = "" if host == ANY_HOST else f" from {host}"
    return f"{who} {verb} {operation_in_words(operation)} {pattern_in_words(rule.pattern)}{where}"


def operation_in_words(operation: Operation) -> str:
    """Such as "read" or "describe-configs"."""
    if operation is Operation.ALL:
        return "do everything with"
    return "do something unknown with" if operation is Operation.UNKNOWN else kebab(operation.name)


def pattern_in_words(pattern: Pattern) -> str:
    """Such as "topic orders", "any topic", "topics that begin with ord" or "the cluster"."""
    kind = kebab(pattern.resource.name)
    if pattern.kind is PatternType.PREFIXED:
        return f"{kind}s that begin with {pattern.name}"
    if pattern.resource is Resource.CLUSTER:
        return "the cluster"
    return f"any {kind}" if pattern.name == ANY_NAME else f"{kind} {pattern.name}"


def kebab(name: str) -> str:
    """`TRANSACTIONAL_ID` as "transactional-id"."""
    return name.lower().replace("_", "-")
