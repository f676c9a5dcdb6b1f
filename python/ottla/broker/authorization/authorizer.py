"""The authorizer of a broker: what the rules that hold now allow the clients that ask.

A client that is denied something is named in the log, once a minute for the same thing.
"""

from __future__ import annotations

import ipaddress
import itertools
import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ottla.broker.authorization.snapshot import Snapshot, Standing
from ottla.broker.authorization.store import AclStore, Changed
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
from ottla.wire.acls import CLUSTER_NAME, OPERATIONS
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.session import Session
    from ottla.config import BrokerConfig
    from ottla.coordination.tree import Tree
    from ottla.replication.lease import Lease
    from ottla.wire.acls import Binding

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


@lru_cache(1024)
def host_of(address: str) -> str:
    """An IP address as Java writes it, and rules have it: IPv6 without `::`, and IPv4 in it as IPv4."""
    if ":" not in address:
        return address
    bare, percent, scope = address.partition("%")
    found = ipaddress.IPv6Address(bare)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in found.exploded.split(":")) + percent + scope


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

    takes_prefixes: Rules for names that begin alike may be made: no broker of the cluster is too old to heed them.
    """

    def __init__(self, tree: Tree, standing: Standing, changed: Changed, *, takes_prefixes: bool = True) -> None:
        self.store: Final = AclStore(tree, Snapshot(standing), changed)
        self.takes_prefixes: Final = takes_prefixes
        self._denials = Repeated(logger)
        self._numbers: dict[tuple[str, str], int] = {}
        self._next_number = itertools.count(1)

    def rights(self, session: Session) -> Rights:
        """The rights of a client. Raises NoPrincipal."""
        return Rights(self, session.principal, host_of(session.address[0]))

    def number(self, principal: str, host: str) -> int:
        """The number by which leases know a client. No other has it, ever; but a client may get another one."""
        who = principal, host
        number = self._numbers.get(who)
        if number is None:
            if len(self._numbers) >= NUMBERS_MAX:
                self._numbers.clear()
            number = self._numbers[who] = next(self._next_number)
        return number

    def denied(
        self, who: str, host: str, operation: Operation, resource: Resource, name: str, rule: Binding | None
    ) -> None:
        """Says so in the log."""
        asked = (who, host, operation.name, resource.name.lower(), name)
        because = "no rule allows it" if rule is None else f"{rule.entry} for {rule.pattern}"
        self._denials.log(logging.INFO, asked, "denied: User:%s at %s may not %s %s %s: %s", *asked, because)


class Rights:
    """The rights of one client, by the rules of the moment in which they are asked for."""

    __slots__ = ("_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """True if the client is allowed this, which it has asked for."""
        decision = self._authorizer.store.snapshot.decide(self._principal, self._host, operation, resource, name)
        if not decision.is_allowed:
            self._authorizer.denied(self._principal, self._host, operation, resource, name, decision.rule)
        return decision.is_allowed

    def check(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        """Raises the KafkaError of a client that is not allowed this, which it has asked for."""
        if not self.may(operation, resource, name):
            raise ERRORS[resource](_WORDS[resource])

    def might(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """The same for something that the client has not asked for: a denial is not logged."""
        return self._authorizer.store.snapshot.decide(self._principal, self._host, operation, resource, name).is_allowed

    def tell_reader(self, lease: Lease, request: Request) -> bool:
        """Says to a lease whether the client of a request may read its topic. False if it may not."""
        may_read = self.might(Operation.READ, Resource.TOPIC, lease.topic)
        if may_read:
            lease.allow(request, self._number, reads=True)
        return may_read

    def tell_writer(self, lease: Lease, request: Request) -> None:
        """Says to a lease whether the client of a request may write to its topic, and how."""
        if self.might(Operation.WRITE, Resource.TOPIC, lease.topic):
            may_be_idempotent = self.might(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
            lease.allow(request, self._number, writes=True, writes_idempotently=may_be_idempotent)

    @property
    def _number(self) -> int:
        return self._authorizer.number(self._principal, self._host)

    def bits(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The operations that are allowed, as bits by their numbers (KIP-430)."""
        return bits(one for one in OPERATIONS[resource] if self.might(one, resource, name))


def bits(operations: Iterable[Operation]) -> int:
    """Operations as bits by their numbers."""
    return sum(1 << one for one in operations)


#: Where everything is allowed.
ALL_BITS: Final = {resource: bits(operations) for resource, operations in OPERATIONS.items()}
