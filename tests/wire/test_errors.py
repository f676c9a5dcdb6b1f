"""The error table: complete, consistent, and Kafka's names."""

import pytest

from ottla import errors
from ottla.errors import BY_CODE, KafkaError
from tests.wire.java import run_java


def test_every_code_of_2_7_is_there() -> None:
    assert {code for code in range(-1, 97) if code} <= set(BY_CODE)


@pytest.mark.parametrize(
    ("code", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (17, "INVALID_TOPIC_EXCEPTION", False),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False),
        (56, "KAFKA_STORAGE_ERROR", True),
        (89, "THROTTLING_QUOTA_EXCEEDED", True),
        (90, "PRODUCER_FENCED", False),
    ],
)
def test_names_and_retriable_flags(code: int, name: str, retriable: bool) -> None:
    known = BY_CODE[code]
    assert (known.code, known.name, known.retriable) == (code, name, retriable)
    assert str(known()) == known.__doc__
    assert str(known("because")) == "because"


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agrees_with_kafka_python() -> None:
    from kafka.errors import BrokerResponseError

    theirs: dict[int, type[BrokerResponseError]] = {}
    todo = [BrokerResponseError]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        theirs[cls.errno] = cls
    # Names that it kept from older releases, or shortened.
    other = {-1, 6, 10, 17, 39}
    names = {code: (ours.name, theirs[code].message) for code, ours in BY_CODE.items() if code in theirs}
    assert {code for code, (ours, theirs) in names.items() if ours != theirs} == other
    assert len(names) > 80


def test_error_makes_the_exception_of_a_code() -> None:
    assert isinstance(errors.error(6), errors.NotLeaderOrFollower)
    later = errors.error(9999, "whatever")
    assert isinstance(later, errors.UnknownServerError)
    assert "9999" in str(later)
    errors.check(0)
    with pytest.raises(KafkaError):
        errors.check(1)


@pytest.mark.java
@pytest.mark.parametrize(("version", "changed"), [("2.7.2", set()), ("3.9.2", {"CONCURRENT_TRANSACTIONS"})])
def test_agrees_with_kafka(version: str, changed: set[str]) -> None:
    """Names and codes, and who may try again; `changed` in a later release, where ours keep to 2.7."""
    table = {
        int(code): (name, flag == "true") for code, name, flag in map(str.split, run_java("ErrorTable.java", version))
    }
    ours = {code: (known.name, known.retriable) for code, known in BY_CODE.items()}
    differ = {theirs[0] for code, theirs in table.items() if code in ours and ours[code] != theirs}
    assert differ == changed
    if version == "2.7.2":
        assert set(table) <= set(ours)
    else:
        assert set(ours) <= set(table)
