"""The authorizer of a broker: what the rules that hold now allow the clients that ask.

A client that is denied something is named in the log, once a minute for the same thing.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.audit.audit import Asker
from ottla.broker.authorization.snapshot import Decision, Snapshot, Standing
from ottla.broker.authorization.store import AclStore, Changed
from ottla.broker.hosts import host_of
from ottla.config import ConfigError
from ottla.config.security import has_authorizer
from ottla.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from ottla.logging_setup import Repeated
from ottla.wire.acl_words import in_words
from ottla.wire.acls import CLUSTER_NAME, OPERATIONS
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.audit.audit import Audit
    from ottla.broker.session import Session
    from ottla.config import BrokerConfig
    from ottla.coordination.tree import Tree
    from ottla.replication.lease import Lease

logger = logging.getLogger("ottla.authorizer")

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
#: Numbers of clients that are kept. Each takes some 200 bytes.
NUMBERS_MAX: Final = 10_000
#: Settings of Kafka's authorizer for a tree of its own, which Ottla does not have.
ELSEWHERE: Final = "authorizer.zookeeper."


def standing(config: BrokerConfig) -> Standing | None:
    """The settings of the authorizer; None without one. Raises ConfigError."""
    if not has_authorizer(config):
        return None
    for other in config.static:
        if other.startswith(ELSEWHERE):
            raise ConfigError(other, f"{other}: access rules are kept in the broker's own tree, and nowhere else")
    return Standing(_super_users(config.static.get(SUPER_USERS, "")), _is_true(config.static.get(ALLOW_EVERYONE, "")))


def _super_users(text: str) -> frozenset[str]:
    users = [part.strip() for part in text.split(";")] if text.strip() else []
    while users and not users[-1]:
        users.pop()
    for user in users:
        if ":" not in user:
            raise ConfigError(SUPER_USERS, f"{SUPER_USERS}={text}: {user!r} has no type: write User:{user or 'NAME'}")
    return frozenset(users)


def _is_true(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("", "true", "false"):
        raise ConfigError(ALLOW_EVERYONE, f"{ALLOW_EVERYONE}={text}: it may be true or false")
    return word == "true"


_WORDS: Final = {kind: f"{kind.name.capitalize().replace('_', ' ')} authorization failed." for kind in OPERATIONS}
#: By the kind of resource that a client may not use.
ERRORS: Final[dict[Resource, type[KafkaError]]] = {
    Resource.TOPIC: TopicAuthorizationFailed,
    Resource.GROUP: GroupAuthorizationFailed,
    Resource.CLUSTER: ClusterAuthorizationFailed,
    Resource.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    Resource.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
}


class Authorizer:
    """All methods are for the loop's thread.

    changed: Called when other rules hold.

    audit: Is told what clients were denied, and if it wants to know what they were allowed.

    takes_prefixes: Rules for names that begin alike may be made: no broker of the cluster is too old to heed them.
    """

    def __init__(
        self,
        tree: Tree,
        standing: Standing,
        changed: Changed,
        audit: Audit | None = None,
        *,
        takes_prefixes: bool = True,
    ) -> None:
        self.store: Final = AclStore(tree, Snapshot(standing), changed)
        self.takes_prefixes: Final = takes_prefixes
        self.audit: Final = audit
        self.notes_allowed: Final = audit is not None and audit.notes_allowed
        self._standing = standing
        self._denials = Repeated(logger)
        self._numbers: dict[tuple[str, str], int] = {}
        self._next_number = itertools.count(1)

    def rights(self, session: Session, client_id: str = "", api: str = "") -> Rights:
        """The rights of a client that calls an API. Raises NoPrincipal."""
        asker = Asker(session.principal, host_of(session.address[0]), session.listener, client_id, api)
        return Rights(self, asker)

    def number(self, principal: str, host: str) -> int:
        """The number by which leases know a client. No other has it, ever; but a client may get another one."""
        who = principal, host
        number = self._numbers.get(who)
        if number is None:
            if len(self._numbers) >= NUMBERS_MAX:
                self._numbers.clear()
            number = self._numbers[who] = next(self._next_number)
        return number

    def decided(self, asker: Asker, operation: Operation, resource: Resource, name: str, decision: Decision) -> None:
        """Says what was decided: in the log what was denied, and in the audit log."""
        kind = resource.name.lower()
        if not decision.is_allowed:
            asked = (asker.principal, asker.address, operation.name, kind, name)
            because = self._because(asker.principal, decision)
            self._denials.log(logging.INFO, asked, "denied: User:%s at %s may not %s %s %s: %s", *asked, because)
        if self.audit is not None:
            self.audit.authorization(
                asker,
                operation.name,
                kind,
                name,
                is_allowed=decision.is_allowed,
                rule=lambda: self._because(asker.principal, decision),
            )

    def _because(self, principal: str, decision: Decision) -> str:
        """The rule that decided, or the reason without one."""
        if decision.rule is not None:
            return in_words(decision.rule)
        if not decision.is_allowed:
            return "no rule allows it"
        return "a super user" if f"User:{principal}" in self._standing.super_users else "no rule is about it"


class Rights:
    """The rights of one client, by the rules of the moment in which they are asked for."""

    __slots__ = ("_asker", "_authorizer")

    def __init__(self, authorizer: Authorizer, asker: Asker) -> None:
        self._authorizer = authorizer
        self._asker = asker

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """True if the client is allowed this, which it has asked for."""
        decision = self._decide(operation, resource, name)
        if not decision.is_allowed or self._authorizer.notes_allowed:
            self._authorizer.decided(self._asker, operation, resource, name, decision)
        return decision.is_allowed

    def check(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        """Raises the KafkaError of a client that is not allowed this, which it has asked for."""
        if not self.may(operation, resource, name):
            raise ERRORS[resource](_WORDS[resource])

    def might(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """The same for something that the client has not asked for: nothing is written about it."""
        return self._decide(operation, resource, name).is_allowed

    def decider(self, operation: Operation, resource: Resource) -> Callable[[str], bool]:
        """Tells of many names, by the rules of this moment, whether the client might do this."""
        asker = self._asker
        return self._authorizer.store.snapshot.decider(asker.principal, asker.address, operation, resource)

    def _decide(self, operation: Operation, resource: Resource, name: str) -> Decision:
        asker = self._asker
        return self._authorizer.store.snapshot.decide(asker.principal, asker.address, operation, resource, name)

    def tell_reader(self, lease: Lease, request: Request) -> bool:
        """Says to a lease whether the client of a request may read its topic. False if the hub may not serve it so."""
        if self._authorizer.notes_allowed or not self.might(Operation.READ, Resource.TOPIC, lease.topic):
            # What is to be written down comes to Python.
            return False
        lease.allow(request, self._number, reads=True)
        return True

    def tell_follower(self, lease: Lease, request: Request) -> bool:
        """Says to a lease whether the client of a request may follow. False if the hub may not serve it so."""
        if self._authorizer.notes_allowed or not self.might(Operation.CLUSTER_ACTION, Resource.CLUSTER):
            return False
        lease.allow(request, self._number, follows=True)
        return True

    def tell_writer(self, lease: Lease, request: Request) -> None:
        """Says to a lease whether the client of a request may write to its topic, and how."""
        if not self._authorizer.notes_allowed and self.might(Operation.WRITE, Resource.TOPIC, lease.topic):
            may_be_idempotent = self.might(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
            lease.allow(request, self._number, writes=True, writes_idempotently=may_be_idempotent)

    @property
    def _number(self) -> int:
        return self._authorizer.number(self._asker.principal, self._asker.address)

    def bits(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The operations that are allowed, as bits by their numbers (KIP-430)."""
        return bits(one for one in OPERATIONS[resource] if self.might(one, resource, name))


def bits(operations: Iterable[Operation]) -> int:
    """Operations as bits by their numbers."""
    return sum(1 << one for one in operations)


#: Where everything is allowed.
ALL_BITS: Final = {resource: bits(operations) for resource, operations in OPERATIONS.items()}
