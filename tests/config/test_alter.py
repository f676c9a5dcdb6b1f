"""IncrementalAlterConfigs on settings as text."""

import pytest

from ottla.config import ConfigError
from ottla.config.alter import Alteration, Operation, altered


@pytest.mark.parametrize(
    ("current", "alterations", "result"),
    [
        ({}, [("retention.ms", Operation.SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("retention.ms", Operation.DELETE, None)], {}),
        ({}, [("retention.ms", Operation.DELETE, None)], {}),
        ({}, [("cleanup.policy", Operation.APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            [("cleanup.policy", Operation.APPEND, "delete")],
            {"cleanup.policy": "compact,delete"},
        ),
        (
            {"cleanup.policy": "compact,delete"},
            [("cleanup.policy", Operation.SUBTRACT, "compact")],
            {"cleanup.policy": "delete"},
        ),
        ({"a": "kept"}, [("flush.ms", Operation.SET, "1")], {"a": "kept", "flush.ms": "1"}),
    ],
)
def test_altered(
    current: dict[str, str], alterations: list[tuple[str, Operation, str | None]], result: dict[str, str]
) -> None:
    assert altered(current, [Alteration(*alteration) for alteration in alterations], of_topic=True) == result


def test_a_brokers_list() -> None:
    change = Alteration("log.cleanup.policy", Operation.APPEND, "compact")
    assert altered({}, [change], of_topic=False) == {"log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("alterations", "message"),
    [
        ([("retention.ms", Operation.APPEND, "5")], "of type long; APPEND is for lists"),
        ([("retention.ms", Operation.SET, None)], "needs a value"),
        ([("cleanup.polic", Operation.APPEND, "x")], "did you mean cleanup.policy"),
    ],
)
def test_what_is_refused(alterations: list[tuple[str, Operation, str | None]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        altered({}, [Alteration(*alteration) for alteration in alterations], of_topic=True)
