"""A row of a request that changes the coordination tree costs the same in a small request and in a large one.

Counted are nodes of the tree and their bytes (`tests.support.tree_costs`), lines of Python, and rows handed to C
(`tests.support.loop_steps`), from the request until the broker has nothing to do for it any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller import writes
from ottla.replication import replicas
from ottla.wire import api
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k33_alter_configs import ALTER_CONFIGS, AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.k37_create_partitions import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from ottla.wire.k44_incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest
from ottla.wire.k44_incremental_alter_configs import AlterableConfig as IncrementalConfig
from ottla.wire.k44_incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.wire.k57_update_features import UPDATE_FEATURES, FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.schema import Api, Message
from tests.support.client import Client
from tests.support.loop_steps import Steps, counted
from tests.support.tree_costs import TreeCosts, counted_tree
from tests.support.waiting import PATIENCE_S

SMALL, LARGE = 100, 300
#: Counting makes a request take fifty times as long.
TIMEOUT_MS = int(10 * PATIENCE_S * 1000)
NEVER_MS = 10**8
#: APIs whose requests here change nothing.
WITHOUT_CHANGES = frozenset({ELECT_LEADERS.key, UPDATE_FEATURES.key})
#: As many rows share a transaction as they do elsewhere.
TOGETHER = writes.ROWS_AT_ONCE
#: The factor by which each row of a large request may cost more.
MORE = 1.2
#: A large request and its answer are handed to Rust in pieces, which each count once more.
ONCE_MORE = 1

Names = list[str]
Request = Callable[[Names], Any]

REQUESTS: list[tuple[Api[Any, Any], Request]] = [
    (
        CREATE_TOPICS,
        lambda names: CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], TIMEOUT_MS),
    ),
    (
        ALTER_CONFIGS,
        lambda names: AlterConfigsRequest(
            [AlterConfigsResource(2, name, [AlterableConfig("retention.ms", "1")]) for name in names]
        ),
    ),
    (
        INCREMENTAL_ALTER_CONFIGS,
        lambda names: IncrementalAlterConfigsRequest(
            [IncrementalResource(2, name, [IncrementalConfig("retention.ms", 0, "2")]) for name in names]
        ),
    ),
    (
        CREATE_PARTITIONS,
        lambda names: CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None) for name in names], TIMEOUT_MS),
    ),
    (
        ELECT_LEADERS,
        lambda names: ElectLeadersRequest(0, [TopicPartitions(name, [0]) for name in names], TIMEOUT_MS),
    ),
    (
        ALTER_PARTITION_REASSIGNMENTS,
        lambda names: AlterPartitionReassignmentsRequest(
            TIMEOUT_MS, [ReassignableTopic(name, [ReassignablePartition(0, [1])]) for name in names]
        ),
    ),
    (
        ALTER_CLIENT_QUOTAS,
        lambda names: AlterClientQuotasRequest(
            [EntryData([EntityData("client-id", name)], [OpData("producer_byte_rate", 1e6, False)]) for name in names],
            False,
        ),
    ),
    (
        ALTER_USER_SCRAM_CREDENTIALS,
        lambda names: AlterUserScramCredentialsRequest(
            [], [ScramCredentialUpsertion(name, 1, 4096, b"salt", b"password") for name in names]
        ),
    ),
    (
        UPDATE_FEATURES,
        lambda names: UpdateFeaturesRequest(TIMEOUT_MS, [FeatureUpdateKey(name, 1, False) for name in names]),
    ),
    (DELETE_TOPICS, lambda names: DeleteTopicsRequest(names, TIMEOUT_MS)),
]


class Cost(NamedTuple):
    nodes: int
    bytes: int
    lines: int
    rows: int


class Counted:
    """The costs until now."""

    def __init__(self, steps: Steps, tree: TreeCosts) -> None:
        self._steps = steps
        self._tree = tree

    def now(self) -> Cost:
        return Cost(self._tree.nodes, self._tree.bytes, self._steps.lines, self._steps.rows)

    async def idle(self) -> None:
        """Returns when nothing is done any more."""
        while True:
            before = self._tree.nodes
            await self._tree.answered()
            await trio.testing.wait_all_tasks_blocked()
            if self._tree.nodes == before:
                return

    async def cost_of(self, port: int, of: Api[Any, Any], request: Any) -> Cost:
        """Of one request, on a connection of its own."""
        await self.idle()
        before = self.now()
        await trio.to_thread.run_sync(ask, port, of, request)
        await self.idle()
        return Cost(*(after - begin for after, begin in zip(self.now(), before, strict=True)))


def ask(port: int, of: Api[Any, Any], request: Any) -> None:
    with Client.connect("127.0.0.1", port, "test", timeout_ms=TIMEOUT_MS) as client:
        answer = client.call(of, request, of.versions[-1])
    assert of.key in WITHOUT_CHANGES or not any(errors_of(answer)), of.name


def errors_of(answer: Message) -> Iterator[int]:
    """The error codes of an answer and of its rows."""
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if name == "error_code":
            yield value
        for row in value if isinstance(value, list) else ():
            if isinstance(row, Message):
                yield from errors_of(row)


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Cost, Cost]]:
    """By API what a small request costs, and then a large one."""
    found: dict[int, tuple[Cost, Cost]] = {}
    settings = {
        "log.dirs": str(tmp_path_factory.mktemp("rows")),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "1",
        # All that looks at all partitions from time to time.
        "auto.leader.rebalance.enable": "false",
        "replica.lag.time.max.ms": str(NEVER_MS),
        "log.cleaner.enable": "false",
    }

    async def main() -> None:
        with counted_tree() as tree, counted() as steps:
            counts = Counted(steps, tree)
            patch.setattr(writes, "ROWS_AT_ONCE", TOGETHER)
            async with Broker.start(BrokerConfig(settings)) as broker:
                port = broker.addresses.listening[0].port
                for of, request in REQUESTS:
                    small, large = [
                        await counts.cost_of(port, of, request([f"{size}-{number:04}" for number in range(size)]))
                        for size in (SMALL, LARGE)
                    ]
                    found[of.key] = small, large

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "LOG_START_CHECK_S", NEVER_MS / 1000)
        # Pytest would keep each line.
        patch.setattr(logging.getLogger("ottla"), "propagate", False)
        patch.setattr(logging.getLogger("ottla"), "handlers", [logging.NullHandler()])
        trio.run(main)
    return found


@pytest.mark.parametrize("key", [of.key for of, _ in REQUESTS], ids=lambda key: api(key).name)
@pytest.mark.judge
def test_a_row_costs_the_same_in_a_large_request(key: int, costs: dict[int, tuple[Cost, Cost]]) -> None:
    small, large = costs[key]
    if key not in WITHOUT_CHANGES:
        assert large.nodes > LARGE
    dearer = {
        what: (few / SMALL, many / LARGE)
        for what, few, many in zip(Cost._fields, small, large, strict=True)
        if many / LARGE > few / SMALL * MORE + ONCE_MORE
    }
    assert not dearer
