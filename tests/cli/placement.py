"""Where the replicas of a topic are, and who leads."""

from tests.cluster.stand import Cluster

from .conftest import Ottla


def assigned(ottla: Ottla, three: Cluster, topic: str, replicas: list[list[int]]) -> None:
    """A topic whose partitions have these replicas, the first of which leads."""
    at = ("-b", three.bootstrap)
    ottla("topic", "create", topic, "-p", str(len(replicas)), "-r", "1", "-s", "min.insync.replicas=1", *at)
    options = [f"--assign={number}={','.join(map(str, ids))}" for number, ids in enumerate(replicas)]
    ottla("topic", "reassign", topic, *options, "-y", *at)
    assert replicas_of(ottla, three, topic) == replicas
    assert leaders_of(ottla, three, topic) == [ids[0] for ids in replicas]


def partitions(ottla: Ottla, three: Cluster, topic: str) -> list[dict[str, object]]:
    ((found),) = ottla("topic", "describe", topic, "--json", "-b", three.bootstrap).json
    return found["partitions"]  # type: ignore[index, no-any-return]


def replicas_of(ottla: Ottla, three: Cluster, topic: str) -> list[object]:
    return [row["replicas"] for row in partitions(ottla, three, topic)]


def leaders_of(ottla: Ottla, three: Cluster, topic: str) -> list[object]:
    return [row["leader"] for row in partitions(ottla, three, topic)]
