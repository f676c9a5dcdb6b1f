"""An API's declaration says more than its messages: each part is checked against what uses it."""

import pytest

from ottla import wire
from ottla.wire.needs import Need, Operation, Resource, parse_needs

#: Versions of Kafka's own schemas that are the first flexible ones, or None: 2.7's, and newer where 2.7 has none.
FLEXIBLE = {0: 9, 1: 12, 2: 6, 3: 9, 7: 3, 17: None, 18: 3, 23: 4, 32: 4, 47: None, 56: 0, 66: 0}
#: Nobody needs anything for them.
FREE = {17, 18, 36, 38, 39, 40, 60}


def test_from_where_they_are_flexible() -> None:
    for key, first in FLEXIBLE.items():
        api = wire.api(key)
        assert not api.is_flexible(-1)
        if first is None:
            assert not api.is_flexible(100)
        else:
            assert api.is_flexible(first)
            assert not api.is_flexible(first - 1)
    assert not wire.is_flexible(-1, 0)
    assert not wire.is_flexible(999, 99)


def test_what_only_brokers_send_needs_the_clusters_own_rights() -> None:
    action = (Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),)
    between = {key for key in wire.KEYS if wire.api(key).is_between_brokers}
    assert between == {4, 5, 6, 7, 56}
    assert {key for key in wire.KEYS if wire.api(key).needs == (action,)} == between | {27}
    assert {key for key in wire.KEYS if not wire.api(key).has_quotas} == between | {27}


def test_what_clients_need() -> None:
    assert {key for key in wire.KEYS if not wire.api(key).needs} == FREE
    read = Need(Operation.READ, Resource.TOPIC)
    assert wire.api(8).needs == ((Need(Operation.READ, Resource.GROUP),), (read,))
    assert wire.api(1).needs == ((read, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER)),)


def test_words_of_needs() -> None:
    assert parse_needs("") == ()
    assert parse_needs("ALTER on TOPIC") == ((Need(Operation.ALTER, Resource.TOPIC),),)
    for wrong in ("ALTER", "ALTER on TABLE", "CHANGE on TOPIC", "ALTER on TOPIC,READ on TOPIC"):
        with pytest.raises(KeyError):
            parse_needs(wrong)
