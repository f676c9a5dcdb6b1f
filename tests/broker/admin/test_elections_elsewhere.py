"""ElectLeaders at a broker that is not the controller: each partition says so, whether it was named or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.errors import NotController
from ottla.wire.k43_elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from tests.support.leased import started

pytestmark = pytest.mark.trio


@pytest.mark.parametrize(
    "asked", [None, [TopicPartitions(topic="t", partition_id=[0, 1])]], ids=["all partitions", "named ones"]
)
async def test_each_partition_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[TopicPartitions] | None
) -> None:
    async def elect_leaders(*_: Any, **__: Any) -> Any:
        raise NotController

    async with started(tmp_path, monkeypatch) as one:
        await one.create("t", partitions=2)
        monkeypatch.setattr(one.broker.controller, "elect_leaders", elect_leaders)
        request = ElectLeadersRequest(election_type=0, topic_partitions=asked, timeout_ms=1000)
        answer = await one.talk(lambda client: client.call(ELECT_LEADERS, request, 2))
    assert answer.error_code == 0
    rows = {
        (topic.topic, row.partition_id): row.error_code
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
    # Java's AdminClient takes an answer without rows for success.
    assert rows == {("t", 0): NotController.code, ("t", 1): NotController.code}
