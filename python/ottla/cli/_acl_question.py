"""The question of `ottla acl why`, which the broker's own code decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ottla.cli._acl_options import check_operation
from ottla.cli._output import counted
from ottla.wire.acl_words import in_words, kebab, pattern_in_words
from ottla.wire.acls import ANY_HOST, ANY_USER, Binding, Entry, Pattern, Permission
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.snapshot import Decision

_USER = "User:"


@dataclass(frozen=True)
class Question:
    """May somebody do something? `host` is the address from which; "*" is one that no rule names."""

    principal: str
    operation: Operation
    resource: Resource
    name: str
    host: str

    def check(self) -> None:
        """Raises click.UsageError if no broker would ask this."""
        if not self.principal.startswith(_USER):
            raise click.UsageError(f"{self.principal!r}: brokers know their clients as User:NAME")
        check_operation(self.resource, self.operation)
        if self.operation is Operation.ALL:
            raise click.UsageError("brokers ask for one operation at a time: say which one instead of all")

    def decide(self, rules: list[Binding]) -> Decision:
        """Decides as a broker with these rules about the resource, for which the principal is no super user."""
        from ottla.broker.authorization.snapshot import Snapshot, Standing

        by_pattern: dict[Pattern, list[Entry]] = {}
        for pattern, entry in rules:
            by_pattern.setdefault(pattern, []).append(entry)
        user = self.principal.removeprefix(_USER)
        return (
            Snapshot(Standing()).changed(by_pattern).decide(user, self.host, self.operation, self.resource, self.name)
        )

    def fields(self) -> dict[str, str]:
        """The question as JSON has it."""
        return {
            "principal": self.principal,
            "operation": kebab(self.operation.name),
            "resource": kebab(self.resource.name),
            "name": self.name,
            "host": self.host,
        }

    def answer(self, decision: Decision, rules: list[Binding]) -> Iterator[str]:
        """The lines for people."""
        about = pattern_in_words(Pattern(self.resource, self.name))
        permission = Permission.ALLOW if decision.is_allowed else Permission.DENY
        told = Binding(Pattern(self.resource, self.name), Entry(self.principal, self.host, self.operation, permission))
        yield f"{'allowed' if decision.is_allowed else 'denied'}: {in_words(told)}"
        if decision.rule is not None:
            yield f"because: {in_words(decision.rule)}{self._implied(decision.rule)}"
        elif rules:
            yield f"because: {counted(len(rules), 'rule')} about {about}, and none allows it"
        else:
            yield f"because: no rule is about {about}; allow.everyone.if.no.acl.found=true in brokers' files allows it"
        if left_out := self._left_out(rules):
            yield f"left out: {counted(left_out, 'rule')} for single addresses, which --host looks at"
        yield "not seen: super.users of the brokers' files, who may do everything"

    def _implied(self, rule: Binding) -> str:
        operation = rule.entry.operation
        if operation in (self.operation, Operation.ALL):
            return ""
        return f", and {kebab(operation.name)} implies {kebab(self.operation.name)}"

    def _left_out(self, rules: list[Binding]) -> int:
        """Rules for this principal that another address than the one that was asked for would bring in."""
        if self.host != ANY_HOST:
            return 0
        return sum(each.host != ANY_HOST and each.principal in (self.principal, ANY_USER) for _, each in rules)
