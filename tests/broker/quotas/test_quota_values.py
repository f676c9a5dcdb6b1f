"""Quotas whose values make no sense: refused at the door, and left out where the tree has them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.entities import problem_of, values
from ottla.broker.quotas.limits import Quota
from ottla.broker.quotas.rates import THROTTLE_MS_MAX, Rate, TokenBucket, Window
from ottla.config import BrokerConfig
from ottla.controller.configs import set_config
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedTree
from ottla.errors import InvalidRequest
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.peers.ottla import Brokers
from tests.support.client import Client, batch, connect

SENSELESS = [1e-320, 1e-7, -1e-9, 1.7e308, 2.0**64, float("inf"), float("nan")]


def alter(client: Client, key: str, value: float, entity: tuple[str, str | None] = ("client-id", None)) -> int:
    entry = EntryData(
        entity=[EntityData(entity_type=entity[0], entity_name=entity[1])], ops=[OpData(key=key, value=value)]
    )
    (row,) = client.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry])).entries
    return row.error_code


def test_they_are_refused(brokers: Brokers) -> None:
    with connect(brokers()) as client:
        for key in ("request_percentage", "consumer_byte_rate", "producer_byte_rate", "controller_mutation_rate"):
            for value in SENSELESS:
                assert alter(client, key, value) == InvalidRequest.code, (key, value)
        for name in (".", ".."):
            assert alter(client, "request_percentage", 5.0, ("user", name)) == InvalidRequest.code


@pytest.mark.parametrize("setting", ["request_percentage", "consumer_byte_rate", "producer_byte_rate"])
def test_the_most_and_the_least_are_used(brokers: Brokers, tmp_path: Path, setting: str) -> None:
    """Each kind of request that is measured is answered under them, also by a broker that starts with them."""
    broker = brokers(settings={"quota.window.num": 2})
    with connect(broker) as client:
        client.create("t")
        for value in (2.0**63, 1e9):
            assert alter(client, setting, value) == 0
            for _ in range(5):
                assert client.produce("t", batch(b"x"), acks=-1).responses[0].partitions[0].error_code == 0
                assert client.produce("t", batch(b"x"), acks=1).responses[0].partitions[0].error_code == 0
                client.fetch("t", max_wait_ms=10, min_bytes=1)
                client.fetch("t", max_wait_ms=10, min_bytes=10_000, isolation_level=1)
            assert alter(client, setting, 2.0**63) == 0


@pytest.mark.parametrize("text", ["1e-320", "1.7e308", "inf", "nan", "-1e-300", "many"])
def test_the_tree_may_hold_them(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Others write there too. One line says that the quota is not taken."""
    assert list(values({"request_percentage": text, "consumer_byte_rate": "5"})) == [(Quota.FETCH, 5.0)]
    (record,) = caplog.records
    assert "the quota is not taken" in record.getMessage()
    assert f"request_percentage={text}" in record.getMessage()


@pytest.mark.trio
async def test_a_change_with_one_of_them_has_no_effect(tmp_path: Path) -> None:
    quotas = ClientQuotas(BrokerConfig())
    client = ("", "c")
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        await tree.ensure(znodes.CONFIG_CHANGES)

        async def change(**settings: str) -> None:
            await set_config(tree, "clients", "c", settings)
            await quotas.changed(tree, "clients", "c")

        for _ in range(2):
            await change(producer_byte_rate="1", consumer_byte_rate="many")
            assert quotas.produced(client, 1_000_000, 10_000) == 0
        await change(producer_byte_rate="1")
        assert quotas.produced(client, 1_000_000, 10_000) > 0
        await change(consumer_byte_rate="many")
        assert quotas.produced(client, 1_000_000, 10_000) > 0
        await change()
        assert not quotas


def test_what_is_sane() -> None:
    assert [problem_of(value) for value in (0.0, -1.0, 1e-6, 0.5, 2.0**63)] == [None] * 5
    assert all(problem_of(value) for value in SENSELESS)


@pytest.mark.parametrize("quota", [5e-324, 1e-6, 1.0, 2.0**63, 1.7e308])
@pytest.mark.parametrize("use", [lambda rate, now: rate.record(1e300, now), lambda rate, now: None])
def test_throttle_times_fit_into_answers(quota: float, use: Callable[[Rate, int], None]) -> None:
    window = Window(11, 1000)
    rate, bucket = Rate(window), TokenBucket(window)
    use(rate, 1000)
    bucket.take(1e300, quota, 1000)
    for throttle_ms in (rate.throttle_ms(quota, 1500), bucket.throttle_ms(quota, 1500)):
        assert 0 <= throttle_ms <= THROTTLE_MS_MAX
