"""Numbers that no client can work with are refused where they are given."""

from typing import Any, cast

import pytest

from ottla.client import Consumer, Producer
from ottla.client.cluster import Cluster

UNUSED = cast(Cluster, None)


@pytest.mark.parametrize(
    ("client", "name", "value", "least"),
    [
        (Producer, "memory_bytes", -5, 1),
        (Producer, "memory_bytes", 0, 1),
        (Producer, "batch_bytes", 0, 1),
        (Producer, "linger_ms", -1, 0),
        (Producer, "delivery_timeout_ms", -1, 0),
        (Consumer, "fetch_bytes", 0, 1),
        (Consumer, "partition_bytes", 0, 1),
        (Consumer, "unpacked_bytes_max", 0, 1),
        (Consumer, "wait_ms", -1, 0),
        (Consumer, "auto_commit_interval_ms", -1, 0),
    ],
)
def test_too_small(client: Any, name: str, value: int, least: int) -> None:
    with pytest.raises(ValueError, match=f"^{name}={value}: it may be {least} or more$"):
        client(UNUSED, **{name: value})
