"""A disk that takes its time: flushes begin when a test lets them go."""

import pytest

from ottla.replication.partition import Partition
from tests.support.leased import One


class SlowDisk:
    """`asked`: the partitions whose flushes were asked for, and wait for `go_on`."""

    def __init__(self, one: One, monkeypatch: pytest.MonkeyPatch) -> None:
        self._flush = one.broker.replicas.flush
        self.asked: list[Partition] = []
        monkeypatch.setattr(one.broker.replicas, "flush", self.asked.append)

    def go_on(self) -> None:
        for partition in self.asked:
            self._flush(partition)
