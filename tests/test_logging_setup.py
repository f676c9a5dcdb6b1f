"""One form for machines, no secrets, and nothing said over and over."""

import json
import logging
from collections.abc import Iterator

import pytest

from ottla.logging_setup import (
    HIDDEN,
    SECRETS_MAX,
    Bounded,
    Formatter,
    JsonFormatter,
    Repeated,
    Secrets,
    TextFormatter,
    always,
)


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """The records that the logger `repeated` was given."""
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


@pytest.mark.parametrize("form", [JsonFormatter, TextFormatter])
@pytest.mark.parametrize("secret", ["hunter2", 'a"b\\c-d', "line\nbreak"])
def test_secrets_are_in_no_line(form: type[Formatter], secret: str) -> None:
    formatter = form(Secrets({secret, "hunter"}))
    for made in (
        record(f"it is {secret}!"),
        record("it is %r!", secret),
        record("it is %s!", {"password": secret}),
        record("it is %s!", ValueError(secret)),
        failed(ValueError(f"not {secret}")),
        failed(ValueError({"password": secret})),
    ):
        line = formatter.format(made)
        assert HIDDEN in line
        for shown in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
            assert shown not in line
    fields = json.loads(JsonFormatter(Secrets({secret})).format(record("it", extra_field=f"x{secret}")))
    assert fields["extra_field"] == f"x{HIDDEN}"


@pytest.mark.parametrize("form", [JsonFormatter, TextFormatter])
def test_whoever_sets_a_secret_takes_no_words_out_of_lines(form: type[Formatter]) -> None:
    secrets = {"e", "1", ":", " ", "WARNING", "closed the connection", "a.b"}
    made = record("closed the connection of %r: %d", "me", 11)
    assert form(Secrets(secrets)).format(made) == form().format(made)


def failed(error: Exception) -> logging.LogRecord:
    made = record("it failed")
    made.exc_info = (type(error), error, None)
    return made


def test_text_is_one_line_whatever_clients_send() -> None:
    sent = "x\r\n2026-01-01T00:00:00.000Z CRITICAL forged\x1b[2J\x85\u2028\u202e"
    made = record("group %s of %r", sent, sent)
    made.created = 1_700_000_000.25
    shown = r"x\r\n2026-01-01T00:00:00.000Z CRITICAL forged\x1b[2J\x85\u2028\u202e"
    line = TextFormatter().format(made)
    assert line == f"2023-11-14T22:13:20.250Z WARNING a.b: group {shown} of '{shown}'"
    assert len(line.splitlines()) == 1


def test_no_line_of_a_traceback_looks_like_another_message() -> None:
    lines = TextFormatter().format(failed(ValueError("x\n2026-01-01T00:00:00.000Z CRITICAL forged\x1b"))).split("\n")
    assert lines[1:] == ["  ValueError: x", r"  2026-01-01T00:00:00.000Z CRITICAL forged\x1b"]


@pytest.mark.parametrize("form", [JsonFormatter, TextFormatter])
def test_values_and_lines_are_cut(form: type[Formatter]) -> None:
    long = "x" * 30_000
    line = form().format(record("client %r and %s, %s", long, long, [long], client_id=long))
    assert len(line) < 2000
    assert "x... (30,000 characters)" in line
    assert len(form().format(record(long))) < 10_000
    assert len(form().format(record("%s" * 1000, *[long] * 1000))) < 10_000
    end = form().format(failed(ValueError(long + "the end")))
    assert "the end" in end
    assert len(end) < 20_000


def test_of_each_kind_only_so_many_lines_pass() -> None:
    now = [100.0]
    bounded = Bounded(burst=3, every_s=2.0, clock=lambda: now[0])

    def said(message: str, *args: object) -> list[str]:
        made = record(message, *args)
        return [TextFormatter().format(made).partition("a.b: ")[2]] if bounded.filter(made) else []

    lines = [line for number in range(16_616) for line in said("closed %r", f"client-{number}")]
    assert lines == ["closed 'client-0'", "closed 'client-1'", "closed 'client-2'"]
    assert said("another %s", 1) == ["another 1"]
    now[0] += 2.0
    assert said("closed %r", "late") == ["closed 'late' (and 16,613 more like this)"]
    assert said("closed %r", "later") == []
    now[0] += 1000.0
    again = [line for number in range(4) for line in said("closed %r", number)]
    assert again == ["closed 0 (and 1 more like this)", "closed 1", "closed 2"]
    # Messages without values may have been put together from what clients sent.
    assert [bool(said(f"made {number}")) for number in range(5)] == [True, True, True, False, False]


def test_kinds_do_not_fill_memory() -> None:
    bounded = Bounded(burst=1, kinds_max=2)
    passed = [bounded.filter(record(f"kind {number} %s", 1)) for number in range(1000)]
    assert passed.count(True) == 3
    assert len(bounded._kinds) == 3


def test_at_debug_more_lines_pass() -> None:
    bounded = Bounded(burst=3, clock=lambda: 1.0)
    made = [logging.LogRecord("a", logging.DEBUG, "", 0, "%s", (number,), None) for number in range(100)]
    assert sum(map(bounded.filter, made)) == 30


def test_some_lines_are_said_whatever_the_level_is(lines: list[logging.LogRecord]) -> None:
    logger = logging.getLogger("repeated")
    logger.setLevel(logging.CRITICAL)
    try:
        logger.warning("not this")
        always(logger, "this of %s", "me", extra={"level_of": "root"})
    finally:
        logger.setLevel(logging.NOTSET)
    assert [(line.getMessage(), line.levelname) for line in lines] == [("this of me", "WARNING")]


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


def test_of_secrets_that_were_changed_the_newest_are_known() -> None:
    secrets = Secrets({"first one", "that stays"})
    for number in range(2 * SECRETS_MAX):
        secrets.hide({f"changed {number:05}", "that stays"})
    newest = f"changed {2 * SECRETS_MAX - 1:05}"
    assert secrets(f"first one, {newest}, that stays") == f"first one, {HIDDEN}, {HIDDEN}"
    assert len(secrets._forms) == SECRETS_MAX
