"""Two brokers that advertise one address: clients and the controller reach one of them under both ids.

The rule is Kafka 2.7's (`KafkaServer.createBrokerInfo`): a broker looks at what the others have registered before it
registers. Two that register in the same moment do not see each other; nor are two names of one host compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.tree import Tree, children_or_none
from ottla.coordination.znodes import BrokerRegistration, Endpoint, MalformedNode


class Holder(NamedTuple):
    """Another broker, and an address that it has registered: `path` and `mzxid` are of that registration."""

    path: str
    broker_id: int
    endpoint: Endpoint
    session_id: int
    mzxid: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} advertises {self.endpoint}, in session 0x{self.session_id:x}"


async def holder(tree: Tree, broker_id: int, endpoints: Iterable[Endpoint]) -> Holder | None:
    """A broker besides `broker_id` that has registered one of these addresses. Raises SessionExpired."""
    wanted = {_address(endpoint) for endpoint in endpoints}
    if not wanted:
        return None
    names = await children_or_none(tree, znodes.BROKER_IDS) or []
    paths = [f"{znodes.BROKER_IDS}/{name}" for name in names]
    for name, path, node in zip(names, paths, await tree.get_many(paths), strict=True):
        if node is None:
            continue
        try:
            other = znodes.broker_of(name)
            registered = BrokerRegistration.decode(path, node.data).endpoints
        except MalformedNode:
            continue  # whoever it is, nobody is sent to it
        for endpoint in registered:
            if other != broker_id and _address(endpoint) in wanted:
                return Holder(path, other, endpoint, node.stat.ephemeral_owner, node.stat.mzxid)
    return None


def _address(endpoint: Endpoint) -> tuple[str, int]:
    return endpoint.host.lower(), endpoint.port
