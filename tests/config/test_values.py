"""Reading, checking and writing the values of settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.table import VERSIONS
from ottla.config.values import InvalidValue, OneOf, Range, Throttled, Type, check, parse, write


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (Type.BOOLEAN, " TRUE ", True),
        (Type.BOOLEAN, "false", False),
        (Type.INT, "+7", 7),
        (Type.INT, "-2147483648", -(2**31)),
        (Type.SHORT, "32767", 32767),
        (Type.LONG, "9223372036854775807", 2**63 - 1),
        (Type.DOUBLE, "1e3", 1000.0),
        (Type.DOUBLE, "0.5d", 0.5),
        (Type.STRING, "  a b ", "a b"),
        (Type.LIST, "a , b,c", ["a", "b", "c"]),
        (Type.LIST, "", []),
        (Type.LIST, "a,,b", ["a", "", "b"]),
        (Type.PASSWORD, "secret", "secret"),
    ],
)
def test_parse(type: Type, text: str, value: object) -> None:
    assert parse("x", type, text) == value


@pytest.mark.parametrize(
    ("type", "text", "needed"),
    [
        (Type.BOOLEAN, "yes", "true or false"),
        (Type.INT, "1_000", "whole number of 32 bits"),
        (Type.INT, "2147483648", "2147483647"),
        (Type.INT, "1.5", "whole number"),
        (Type.INT, "", "whole number"),
        (Type.SHORT, "32768", "16 bits"),
        (Type.LONG, "9223372036854775808", "64 bits"),
        (Type.DOUBLE, "NaN", "number"),
        (Type.DOUBLE, "1_0", "number"),
        (Type.DOUBLE, "much", "number"),
    ],
)
def test_what_is_no_value_says_what_is_needed(type: Type, text: str, needed: str) -> None:
    with pytest.raises(InvalidValue, match=needed) as caught:
        parse("some.setting", type, text)
    assert caught.value.name == "some.setting"
    assert f"some.setting={text}" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "valid", "message"),
    [
        (0, Range(1, None), "n=0: it must be at least 1"),
        (2, Range(0, 1), "n=2: it must be between 0 and 1"),
        ("no", OneOf(("a", "b")), "n=no: it must be one of a, b"),
        (["a", "c"], OneOf(("a", "b")), "n=a,c: it must be one of a, b"),
        (["1:x"], Throttled(), "PARTITION:BROKER"),
        (["*", "1:1"], Throttled(), "PARTITION:BROKER"),
        (["none"], Throttled(), "PARTITION:BROKER"),
        (["1:" + 5000 * "1"], Throttled(), "PARTITION:BROKER"),
        ("2.8", VERSIONS, "such as 2.7-IV2"),
    ],
)
def test_a_value_out_of_range_says_the_range(value: object, valid: object, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        check("n", value, valid)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [["*"], ["0:1", "12:30"], ["0:1", ""], []])
def test_throttled_replicas(value: list[str]) -> None:
    check("n", value, Throttled())


@pytest.mark.parametrize(
    ("text", "full"),
    [("2.7", "2.7-IV2"), ("2.7.1", "2.7-IV2"), ("0.10.1", "0.10.1-IV2"), ("0.8.2.1", "0.8.2"), ("3", None)],
)
def test_a_release_stands_for_its_last_version(text: str, full: str | None) -> None:
    assert VERSIONS.full(text) == full


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (["a", "b"], "a,b"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00015, "1.5E-4"),
        (123456789.0, "1.23456789E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
    ],
)
def test_values_are_written_as_java_does(value: object, text: str | None) -> None:
    assert write(value) == text  # type: ignore[arg-type]


@given(st.floats(allow_nan=False))
def test_a_written_double_reads_as_the_same_number(value: float) -> None:
    text = write(value)
    assert text is not None
    assert parse("x", Type.DOUBLE, text) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_written_long_reads_as_the_same_number(value: int) -> None:
    assert parse("x", Type.LONG, str(write(value))) == value
