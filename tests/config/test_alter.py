"""IncrementalAlterConfigs on settings as text."""

import pytest

import ottla.config.alter
from ottla.config import ConfigError
from ottla.config.alter import Alteration, altered
from ottla.kafka import ConfigOperation
from tests.support.loop_steps import counted_here


@pytest.mark.parametrize(
    ("current", "alterations", "result"),
    [
        ({}, [("retention.ms", ConfigOperation.SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("retention.ms", ConfigOperation.DELETE, None)], {}),
        ({}, [("retention.ms", ConfigOperation.DELETE, None)], {}),
        ({}, [("cleanup.policy", ConfigOperation.APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            [("cleanup.policy", ConfigOperation.APPEND, "delete")],
            {"cleanup.policy": "compact,delete"},
        ),
        (
            {"cleanup.policy": "compact,delete"},
            [("cleanup.policy", ConfigOperation.SUBTRACT, "compact")],
            {"cleanup.policy": "delete"},
        ),
        ({"a": "kept"}, [("flush.ms", ConfigOperation.SET, "1")], {"a": "kept", "flush.ms": "1"}),
    ],
)
def test_altered(
    current: dict[str, str], alterations: list[tuple[str, ConfigOperation, str | None]], result: dict[str, str]
) -> None:
    assert altered(current, [Alteration(*alteration) for alteration in alterations], of_topic=True) == result


def test_a_brokers_list() -> None:
    change = Alteration("log.cleanup.policy", ConfigOperation.APPEND, "compact")
    assert altered({}, [change], of_topic=False) == {"log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("alterations", "message"),
    [
        ([("retention.ms", ConfigOperation.APPEND, "5")], "of type long; APPEND is for lists"),
        ([("retention.ms", ConfigOperation.SET, None)], "needs a value"),
        ([("cleanup.polic", ConfigOperation.APPEND, "x")], "did you mean cleanup.policy"),
    ],
)
def test_what_is_refused(alterations: list[tuple[str, ConfigOperation, str | None]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        altered({}, [Alteration(*alteration) for alteration in alterations], of_topic=True)


def test_each_item_is_subtracted_as_often_as_it_is_named() -> None:
    change = Alteration("cleanup.policy", ConfigOperation.SUBTRACT, "b,x,a,a")
    assert altered({"cleanup.policy": "a,b,a,b,a"}, [change], of_topic=True) == {"cleanup.policy": "b,a"}


def test_each_of_many_items_is_looked_at_a_few_times() -> None:
    """Each was looked for in the whole list, which takes minutes."""
    names = [str(number) for number in range(2_000)]
    change = Alteration("cleanup.policy", ConfigOperation.SUBTRACT, ",".join(reversed(names)))
    with counted_here(ottla.config.alter.__file__) as steps:
        assert altered({"cleanup.policy": ",".join(names)}, [change], of_topic=True) == {"cleanup.policy": ""}
    assert len(names) < steps.lines + steps.rows < 30 * len(names)
