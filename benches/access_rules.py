"""The cost of access rules: of a decision, of Metadata under many rules, of a small Produce, and of reading them.

Beside each other in one run: a broker whose users may do everything, and one with an authorizer, 504 topics and 7,000
rules about them. Both have users by SASL without TLS. Told are microseconds of CPU of the broker's main thread for a
request, of blocks that take turns; and for decisions and the reading of 10,000 rules, the CPU and memory it takes in
this process.

    python benches/access_rules.py [--blocks 20]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

from ottla.broker.authorization.nodes import PERSISTENT_PATHS, encode_entries, path_of
from ottla.broker.authorization.snapshot import Snapshot, Standing
from ottla.broker.authorization.store import AclStore
from ottla.client import BlockingConnection
from ottla.coordination.embedded import EmbeddedStore
from ottla.wire.acls import Entry, Pattern, Permission
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k30_create_acls import CREATE_ACLS, CreateAclsRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import Ruled, creation, rule, settings
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import Client, batch

TOPICS = 504
RULES = 7000
MANY_RULES = 10_000
DECISIONS = 200_000
REQUESTS = {"Metadata": 5, "Produce": 300}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20)
    blocks = parser.parse_args().blocks
    decisions()
    trio.run(reading)
    with tempfile.TemporaryDirectory() as folder:
        requests(Path(folder), blocks)


def decisions() -> None:
    snapshot = Snapshot(Standing()).changed(rules_of_topics())
    name = "topic-3"
    began = time.process_time()
    for _ in range(DECISIONS):
        snapshot.decide("u3", "10.0.0.1", Operation.READ, Resource.TOPIC, name)
    print(f"a decision that was made before, in Python: {(time.process_time() - began) / DECISIONS * 1e9:.0f} ns")
    fresh = Snapshot(Standing()).changed(rules_of_topics())
    began = time.process_time()
    for number in range(TOPICS):
        fresh.decide("u3", "10.0.0.1", Operation.READ, Resource.TOPIC, f"topic-{number}")
    print(f"a decision that is made: {(time.process_time() - began) / TOPICS * 1e9:.0f} ns")


def rules_of_topics() -> dict[Pattern, list[Entry]]:
    found: dict[Pattern, list[Entry]] = {}
    for number in range(RULES):
        entry = Entry(f"User:u{number // TOPICS}", "*", Operation.READ, Permission.ALLOW)
        found.setdefault(Pattern(Resource.TOPIC, f"topic-{number % TOPICS}"), []).append(entry)
    return found


async def reading() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = await EmbeddedStore.open(f"{folder}/tree")
        tree = await store.session()
        await tree.ensure(*PERSISTENT_PATHS, "/kafka-acl/Topic")
        for number in range(MANY_RULES):
            entry = Entry(f"User:u{number % 100}", "*", Operation.READ, Permission.ALLOW)
            await tree.create(path_of(Pattern(Resource.TOPIC, f"topic-{number}")), encode_entries([entry]))
        rules = AclStore(tree, Snapshot(Standing()), lambda pattern: None)
        began = time.process_time()
        await rules.load()
        took = time.process_time() - began
        assert len(rules.snapshot.patterns()) == MANY_RULES
        again = AclStore(tree, Snapshot(Standing()), lambda pattern: None)
        tracemalloc.start()
        await again.load()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        await tree.aclose()
        await store.aclose()
    print(f"{MANY_RULES:,} rules, one a topic: read in {took:.2f} s, {size / 1e6:.1f} MB")


def requests(folder: Path, blocks: int) -> None:
    with Brokers(folder) as brokers:
        sides = [Side(brokers, has_rules=False), Side(brokers, has_rules=True)]
        for name, conversation in (("Metadata", Side.metadata), ("Produce", Side.produce)):
            costs = [[side.cost(REQUESTS[name], conversation) for side in sides] for _ in range(blocks)]
            for side, values in zip(sides, zip(*costs, strict=True), strict=True):
                ranked = sorted(values)
                which = "with rules" if side.has_rules else "without rules"
                print(f"{name} {which}: least {ranked[0]:.1f} us, median {ranked[len(ranked) // 2]:.1f} us")


class Side:
    """A broker, and the connection of a user, who may read and write all topics."""

    def __init__(self, brokers: Brokers, *, has_rules: bool) -> None:
        self.has_rules = has_rules
        ports = free_port(), free_port()
        given = settings(*ports, ("u3",))
        if not has_rules:
            given = {
                name: value for name, value in given.items() if name not in ("authorizer.class.name", "super.users")
            }
        self._broker: Broker = brokers(port=ports[0], settings=given)
        ruled = Ruled(*ports)
        topics = [CreatableTopic(f"topic-{number}", 1, 1) for number in range(TOPICS)]
        ruled.ask(None, CREATE_TOPICS, CreateTopicsRequest(topics=topics, timeout_ms=60_000))
        if has_rules:
            writing = rule("u3", Operation.WRITE, Resource.TOPIC, "*")
            made = [
                creation(rule(entry.principal[5:], entry.operation, *pattern[:2]))
                for pattern, some in rules_of_topics().items()
                for entry in some
            ]
            for start in range(0, RULES, 500):
                asked = CreateAclsRequest(made[start : start + 500])
                with Client.connect("127.0.0.1", ports[0]) as client:
                    client.call(CREATE_ACLS, asked)
            ruled.create(writing)
        self._connection: BlockingConnection = ruled.enter("u3")
        self._schedstat = Path(f"/proc/{self._broker.pid}/task/{self._broker.pid}/schedstat")

    def cost(self, count: int, conversation: Callable[[Side], Any]) -> float:
        before = self._cpu_ns()
        for _ in range(count):
            conversation(self)
        return (self._cpu_ns() - before) / count / 1000

    def metadata(self) -> None:
        answer = self._connection.call(METADATA, MetadataRequest(topics=None))
        assert len(answer.topics) == TOPICS

    def produce(self) -> None:
        answer = Client.produce(self._connection, "topic-3", RECORDS, acks=1)  # type: ignore[arg-type]
        assert answer.responses[0].partitions[0].error_code == 0

    def _cpu_ns(self) -> int:
        return int(self._schedstat.read_text().split()[0])


RECORDS = batch(b"x" * 100)

if __name__ == "__main__":
    main()
