"""Large answers that nobody reads, asked for by many at once: they have one sum, and take it before they are made."""

import contextlib
from collections.abc import Iterator

import pytest

from ottla.wire.headers import request_frame
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from tests.peers.ottla import Broker, Brokers
from tests.support.client import connect as client_of
from tests.support.hostile import Honest, closing, connect, send
from tests.support.waiting import eventually

MIB = 1 << 20
QUEUED_BYTES = 256 * MIB
#: `queued.max.request.bytes`, the answers' quarter of it, and what the broker is beside both.
RSS_MAX = QUEUED_BYTES + QUEUED_BYTES // 4 + 64 * MIB
CLIENTS = 50
BROKER = 4
NEVER_S = 1.0


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    return brokers(settings={"queued.max.request.bytes": QUEUED_BYTES})


@contextlib.contextmanager
def honest_beside(broker: Broker) -> Iterator[Honest]:
    with Honest(broker.port, broker.pid) as honest:
        yield honest
        eventually("the honest client was served", lambda: len(honest.waits_s) > 60 or honest.error)
    assert honest.longest_s < NEVER_S, sorted(honest.waits_s)[-5:]
    assert honest.rss_max < RSS_MAX, honest.rss_max // MIB


def describe_configs(rows: int) -> bytes:
    row = DescribeConfigsResource(resource_type=BROKER, resource_name="1001", configuration_keys=None)
    asked = DescribeConfigsRequest(resources=[row] * rows, include_synonyms=True, include_documentation=True)
    return request_frame(DESCRIBE_CONFIGS.key, 3, 1, "greedy", DESCRIBE_CONFIGS.encode_request(3, asked))


@pytest.mark.parametrize("rows", [300, 2500])
def test_answers_that_nobody_reads_stay_below_their_bound(broker: Broker, rows: int) -> None:
    """An answer has 11 or 91 MB: a few fit into the bound, or none does."""
    frame = describe_configs(rows)
    with honest_beside(broker):
        attackers = [connect(broker.port) for _ in range(CLIENTS)]
        with closing(attackers):
            for one in attackers:
                send(one, frame)
            with client_of(broker) as client:
                asked = DescribeConfigsRequest(
                    resources=[DescribeConfigsResource(resource_type=BROKER, resource_name="1001")],
                )
                assert client.call(DESCRIBE_CONFIGS, asked, 3).results[0].configs
            eventually("those who do not read are closed", lambda: "answers are not read" in broker.output(), 60)
