"""Which clusters the tests of this folder run with, and how long."""

import pytest

OTTLA = ("ottla", "ottla", "ottla")
#: The kinds of brokers 1, 2 and 3. Kafka's alone prove the tests, not the product.
THREE = [
    pytest.param(("kafka", "kafka", "kafka"), id="kafka", marks=pytest.mark.soak),
    pytest.param(("ottla", "kafka", "kafka"), id="one-ottla"),
    pytest.param(OTTLA, id="ottla"),
]
#: For what the gate has with Ottla's brokers alone.
JUDGED = [THREE[0], pytest.param(*THREE[1].values, id="one-ottla", marks=pytest.mark.judge), THREE[2]]
OLD_PROTOCOL = "2.6"
#: Settings that a test adds to its module's. In the older protocol leaders write the in-sync replicas into the tree
#: themselves, in the newer one the controller does it for them.
PROTOCOLS = [
    pytest.param({}, id="2.7"),
    pytest.param({"inter.broker.protocol.version": OLD_PROTOCOL}, id=OLD_PROTOCOL),
]
in_both_protocols = pytest.mark.parametrize("cluster", PROTOCOLS, indirect=True)
#: For a test beside others that are run in both, so that they share the cluster.
in_the_newer_protocol = pytest.mark.parametrize("cluster", PROTOCOLS[:1], indirect=True)


def rounds(whole: int) -> pytest.MarkDecorator:
    """How often a test's fault strikes, its argument `times`: once in `make judges`, `whole` times in `make soak`."""
    return pytest.mark.parametrize(
        "times",
        [
            pytest.param(1, id="short", marks=pytest.mark.judge),
            pytest.param(whole, id="whole", marks=pytest.mark.soak),
        ],
    )
