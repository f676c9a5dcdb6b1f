"""What ends a lease: each change that its terms depend on, brought about as an administrator does."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla._core import BatchBuilder, Hub
from ottla.broker.api.k00_produce import ADMIN_CLIENT
from ottla.errors import InvalidConfig, MessageTooLarge, NotEnoughReplicas
from ottla.replication import leases
from ottla.replication.partition import Partition
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.support.client import Client, batch, values
from tests.support.leased import One, produce, started
from tests.support.moves import move
from tests.support.settings import alter
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]


async def leased(one: One, topic: str) -> Partition:
    """A new partition with one record, and a lease."""
    partition = await one.create(topic)
    assert (await one.talk(lambda client: produce(client, topic, b"v")))[0] == 0
    assert partition.lease is not None
    return partition


async def is_asked(one: One, conversation: Callable[[Client], Any]) -> bool:
    """Whether a request comes to Python. One request grants a lease again, so each is asked about alone."""
    return await one.needed(conversation) == 1


async def test_more_replicas_wanted_by_the_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch, **{"log.flush.on.acks.all": "false"}) as one:
        partition = await leased(one, "t")
        assert partition.lease.terms.accepts_all
        await one.talk(lambda client: client.alter_topic("t", {"min.insync.replicas": "2"}))
        await comes_true("the setting", lambda: partition.min_insync_replicas == 2)
        assert partition.lease is None
        await one.talk(lambda client: produce(client, "t", b"v"))
        assert partition.lease is not None
        answers = await one.talk(lambda client: [produce(client, "t", b"v", acks=-1)[0] for _ in range(2)])
        assert answers == [NotEnoughReplicas.code] * 2
        await one.talk(lambda client: client.alter_topic("t", {"min.insync.replicas": "1"}))
        await comes_true("the setting", lambda: partition.min_insync_replicas == 1)
        assert partition.lease is None


async def test_an_answer_that_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch, **{"log.flush.on.acks.all": "false"}) as one:
        partition = await leased(one, "t")
        assert await one.talk(lambda client: alter(client, "log.flush.on.acks.all", "true")) == (0, None)
        await comes_true("the setting", lambda: partition.flush_on_acks_all)
        assert partition.lease is None
        await one.talk(lambda client: [produce(client, "t", b"v", acks=acks) for acks in (1, -1)])
        assert partition.log.flushed_offset == 3


async def test_what_the_log_looks_after_ends_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log refuses what its settings forbid, whoever appends."""
    async with started(tmp_path, monkeypatch) as one:
        partition = await leased(one, "t")
        await one.talk(lambda client: client.alter_topic("t", {"max.message.bytes": "100"}))
        large = batch(b"x" * 200)

        def refused(client: Client) -> bool:
            return client.produce("t", large, acks=1).responses[0].partitions[0].error_code == MessageTooLarge.code

        with trio.fail_after(PATIENCE_S):
            while not await one.talk(refused):
                pass
        assert partition.lease is not None


def quota(client: Client, **rates: float | None) -> None:
    """Sets quotas of the client "test"; None removes one."""
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="test")],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in rates.items()],
    )
    answer = client.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry]))
    assert [row.error_code for row in answer.entries] == [0]


async def test_quotas_throttle_what_was_served_under_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = batch(b"x" * 30_000)

    def produced(client: Client) -> int:
        return client.produce("t", records, acks=1).throttle_time_ms

    def fetched(client: Client) -> int:
        return client.fetch("t").throttle_time_ms

    async with started(tmp_path, monkeypatch) as one:
        partition = await leased(one, "t")
        assert await one.talk(lambda client: [produced(client), fetched(client)]) == [0, 0]
        for key, ask in (("producer_byte_rate", produced), ("consumer_byte_rate", fetched)):
            assert partition.lease is not None
            await one.talk(lambda client, key=key: quota(client, **{key: 20_000.0}))
            await comes_true("the quota", lambda: one.broker.serving.quotas is not None)
            assert partition.lease is None
            assert await one.talk(lambda client, ask=ask: any(ask(client) for _ in range(100)))
            assert partition.lease is None
            await one.talk(lambda client, key=key: quota(client, **{key: None}))
            await comes_true("the end of the quota", lambda: one.broker.serving.quotas is None)
            assert await one.talk(lambda client, ask=ask: [ask(client) for _ in range(3)]) == [0, 0, 0]


async def test_a_move_to_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with started(tmp_path, monkeypatch, **{"log.dirs": f"{a},{b}"}) as one:
        partition = await leased(one, "t")
        old = partition.log
        target = b if (a / "t-0").is_dir() else a
        assert await one.talk(lambda client: move(client, "t", 0, target)) == 0
        await comes_true("the move", lambda: partition.log is not old)
        assert partition.lease is None
        answers = await one.talk(lambda client: [produce(client, "t", b"%d" % at) for at in range(3)])
        assert answers == [(0, 1), (0, 2), (0, 3)]
        assert partition.lease is not None
        assert (old.end_offset, partition.log.end_offset) == (1, 4)
        assert await one.talk(lambda client: values(client.fetch("t"))) == [b"v", b"0", b"1", b"2"]


async def test_internal_topics_have_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    async with started(tmp_path, monkeypatch, **settings) as one:
        topic = "__consumer_offsets"
        builder = BatchBuilder()
        builder.append(1_700_000_000_000, b"a key, as compaction wants one", b"v")
        records = builder.finish()
        partition = await one.create(topic)
        port = one.broker.addresses.listening[0].port

        def write() -> list[int]:
            with Client.connect("127.0.0.1", port, ADMIN_CLIENT) as admin:
                answers = [admin.produce(topic, records, acks=1) for _ in range(3)]
                return [answer.responses[0].partitions[0].error_code for answer in answers]

        before = one.asked
        assert await trio.to_thread.run_sync(write) == [0, 0, 0]
        assert one.asked == before + 3
        assert await one.needed(lambda client: [client.fetch(topic) for _ in range(3)]) == 3
        assert partition.lease is None
        terms = partition.terms()
        assert terms is not None
        assert (terms.is_internal, terms.followers) == (True, {})


async def test_terms_that_are_the_same_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await leased(one, "t")
        lease = partition.lease
        partition.change(min_insync_replicas=2)
        one.broker.replicas.topic_config_changed("t")
        one.broker.replicas.settings_changed()
        assert partition.lease is lease


async def test_what_terms_depend_on_changes_in_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch) as one:
        partition = await leased(one, "t")
        for name in Partition.GUARDED:
            with pytest.raises(AttributeError, match=r"Partition\.change"):
                setattr(partition, name, getattr(partition, name))
        with pytest.raises(AttributeError, match="no lease depends on it"):
            partition.change(may_delete=False)


async def test_all_that_terms_depend_on_is_guarded() -> None:
    """A term that reads another attribute fails this test until that is guarded, or is named here as a constant."""
    constants = {"is_internal"}
    derived = {name for name, value in vars(Partition).items() if isinstance(value, property)}
    seen, read = set(), {"terms"}
    while new := read - seen:
        seen |= new
        for name in new & (derived | {"terms"}):
            found = getattr(Partition, name)
            source = inspect.getsource(found.fget if isinstance(found, property) else found)
            read |= {
                node.attr
                for node in ast.walk(ast.parse(textwrap.dedent(source)))
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            }
    assert read - derived - {"terms"} - constants <= Partition.GUARDED


@pytest.mark.parametrize(("value", "expected"), [("off", False), ("on", True)])
async def test_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv(leases.SWITCH, value)
    async with started(tmp_path, monkeypatch) as one:
        partition = await one.create("t")
        asked = await one.needed(lambda client: [produce(client, "t", b"v") for _ in range(3)])
        assert (partition.lease is not None, asked < 3) == (expected, expected)


async def test_a_switch_that_is_neither_on_nor_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leases.SWITCH, "0")
    with pytest.raises(InvalidConfig, match=r"OTTLA_LEASES is '0': it may be on .* or off"):
        leases.Leases(Hub(supported={}), 1)
