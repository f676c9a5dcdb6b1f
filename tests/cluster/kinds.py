"""Which clusters the tests of this folder run with."""

import pytest

OTTLA = ("ottla", "ottla", "ottla")
#: The kinds of brokers 1, 2 and 3. Kafka's alone prove the tests, not the product.
THREE = [
    pytest.param(("kafka", "kafka", "kafka"), id="kafka", marks=pytest.mark.soak),
    pytest.param(("ottla", "kafka", "kafka"), id="one-ottla"),
    pytest.param(OTTLA, id="ottla"),
]
