"""A log directory that fails while its partitions get their roles."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.errors import StorageError
from ottla.kafka import PartitionKey
from ottla.replication.roles import PartitionState
from tests.replication.internal import ME, opened

pytestmark = pytest.mark.trio


@pytest.mark.parametrize("is_known", [False, True])
async def test_nobody_leads_a_partition_whose_directory_failed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    async with opened(tmp_path) as here:
        replicas, logs = here.replicas, here.replicas._logs
        states = {0: PartitionState(1, ME, 7, (ME,), (ME,), 0)}
        if is_known:
            assert await replicas.apply("t", {0: PartitionState(1, ME, 6, (ME,), (ME,), 0)}) == {}

        async def fails(epochs: Mapping[PartitionKey, int]) -> dict[PartitionKey, StorageError]:
            for key in logs.take_offline(logs.directories.online[0], "it failed"):
                replicas.mark_offline(*key)
            return {}

        monkeypatch.setattr(logs, "begin_epochs", fails)
        errors = await replicas.apply("t", states)
        assert [type(error) for error in errors.values()] == [StorageError]
        partition = replicas.partitions["t", 0]
        assert (partition.is_offline, partition.is_leader) == (True, False)
        assert partition.leader_error(-1) == StorageError.code
