from typing import Any, cast

import pytest

from ottla.replication.by_partition import ByPartition, Homes


def test_what_there_is_of_a_topic() -> None:
    found: ByPartition[str] = ByPartition()
    for key in (("a", 0), ("a", 1), ("b", 0)):
        found[key] = str(key)
    found["a", 1] = "another"
    assert sorted(found.of_topic("a")) == ["('a', 0)", "another"]
    assert found.pop(("a", 0), None) == "('a', 0)"
    assert found.pop(("a", 0), None) is None
    assert found.of_topic("a") == ["another"]
    del found["a", 1]
    assert found.of_topic("a") == []
    assert found == {("b", 0): "('b', 0)"}
    with pytest.raises(KeyError):
        del found["a", 1]


def test_how_many_logs_are_in_a_directory() -> None:
    one, other = cast("Any", "one"), cast("Any", "other")
    homes = Homes()
    homes["a", 0] = homes["a", 1] = one
    homes["a", 1] = other
    assert homes.counts == {one: 1, other: 1}
    homes["a", 1] = other
    assert homes.pop(("a", 0), None) is one
    assert homes.pop(("a", 0), None) is None
    assert homes.counts == {one: 0, other: 1}
    del homes["a", 1]
    assert +homes.counts == {}
