"""One form for machines, no secrets, and nothing said over and over."""

import json
import logging
from collections.abc import Iterator

import pytest

from ottla.logs import HIDDEN, Discreet, JsonFormatter, Repeated


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """What the logger `repeated` was given."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("repeated")
    logger.addHandler(handler)
    logger.propagate = False
    yield records
    logger.removeHandler(handler)


def record(message: str, *args: object, **fields: object) -> logging.LogRecord:
    return logging.getLogger("a.b").makeRecord("a.b", logging.WARNING, "f.py", 1, message, args, None, extra=fields)


def test_json_has_the_message_and_its_fields() -> None:
    made = record("%s is %d", "orders", 7, topic="orders", partition=7)
    made.created = 1_700_000_000.25
    assert json.loads(JsonFormatter().format(made)) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "a.b",
        "message": "orders is 7",
        "topic": "orders",
        "partition": 7,
    }


def test_json_is_one_line_whatever_is_said() -> None:
    line = JsonFormatter().format(record("two\nlines of %r", b"\xff", client_id="\u2028\n", object=object()))
    assert "\n" not in line
    assert json.loads(line)["client_id"] == "\u2028\n"


def test_json_has_the_traceback() -> None:
    made = record("it failed")
    try:
        raise ValueError("why")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    assert json.loads(JsonFormatter().format(made))["exception"].endswith("ValueError: why")


def test_fields_do_not_take_the_place_of_what_a_line_always_has() -> None:
    assert json.loads(JsonFormatter().format(record("real", logger="false", time="false")))["logger"] == "a.b"


@pytest.mark.parametrize("inner", [JsonFormatter(), logging.Formatter("%(message)s")])
@pytest.mark.parametrize("secret", ["hunter2", 'a"b\\c', "line\nbreak"])
def test_secrets_are_in_no_line(inner: logging.Formatter, secret: str) -> None:
    formatter = Discreet(inner, {secret, "hunt"})
    for made in (record(f"it is {secret}!"), record("it is %r!", secret), record("it is %s!", {"password": secret})):
        line = formatter.format(made)
        assert HIDDEN in line
        assert secret not in line
        assert json.dumps(secret)[1:-1] not in line


def test_what_is_repeated_is_said_once_in_a_while_with_its_number(lines: list[logging.LogRecord]) -> None:
    now = [100.0]
    said = Repeated(logging.getLogger("repeated"), every_s=60, clock=lambda: now[0])
    for _ in range(4):
        said.log(logging.ERROR, "reason", "no brokers for %s", "topic")
    said.log(logging.ERROR, "another", "something else")
    now[0] = 161.0
    said.log(logging.ERROR, "reason", "no brokers for %s", "topic")
    now[0] = 400.0
    said.log(logging.ERROR, "reason", "no brokers for %s", "topic")
    assert [line.getMessage() for line in lines] == [
        "no brokers for topic",
        "something else",
        "no brokers for topic (and 3 times more since this was last said, 61 s ago)",
        "no brokers for topic",
    ]
    assert vars(lines[2])["suppressed"] == 3


def test_reasons_are_forgotten_before_they_fill_memory(lines: list[logging.LogRecord]) -> None:
    said = Repeated(logging.getLogger("repeated"), reasons_max=3)
    for reason in (1, 2, 3, 1, 4, 1, 2):
        said.log(logging.ERROR, reason, "%d", reason)
    assert [line.getMessage() for line in lines] == ["1", "2", "3", "4", "2"]
