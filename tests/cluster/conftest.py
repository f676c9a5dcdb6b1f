"""The cluster that the tests of a file share, where they do not make one of their own."""

import os
from collections.abc import Iterator

import pytest

from tests.cluster.kinds import OTTLA
from tests.cluster.stand import Cluster

#: The kind of each broker instead of Ottla, to see whether a fault that a test finds is the broker's or the test's:
#: OTTLA_CLUSTER_KINDS=kafka,kafka,kafka.
KINDS = tuple(kinds.split(",")) if (kinds := os.environ.get("OTTLA_CLUSTER_KINDS")) else OTTLA


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, with the options that the module names in `CLUSTER`, and the settings that the test adds, if it
    has any as the parameter `cluster`.
    """
    options = {**getattr(request.module, "CLUSTER", {})}
    options["settings"] = {**options.get("settings", {}), **getattr(request, "param", {})}
    with Cluster(tmp_path_factory.mktemp("cluster"), KINDS, **options) as made:
        yield made
