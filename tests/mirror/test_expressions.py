"""Expressions as they stand in files that were written for Java."""

import re

import pytest

from ottla.mirror.expressions import Filter


@pytest.mark.parametrize(
    ("expressions", "taken", "left"),
    [
        # Each by itself: a flag holds for one of them, and may stand in any.
        ("bills,(?i)orders.*", ["bills", "ORDERS-1"], ["BILLS"]),
        ("(?i)a.*, (?s)b", ["A1", "b"], ["B"]),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"\p{Alpha}\p{Digit}+", ["a1", "Z99"], ["1a", "é1"]),
        (r"[\p{Lower}_]+\P{Punct}", ["a_b", "a_9"], ["ab."]),
        (r"\p{Punct}", [".", "-", "_", "[", "]", "^", "\\", "`", "~", "@"], ["a", " "]),
        (r"(?<first>[ab])\k<first>\z", ["aa", "bb"], ["ab"]),
        (r"(?iu)x(?-i:y)", ["Xy"], ["XY"]),
        (r"a++b|c*+", ["aab", "cc"], ["b"]),
        (r"x\{3\}[{}]", ["x{3}{"], ["xxx"]),
        (r"a[]b]c[^]]", ["a]cx"], ["a]c]"]),
        (r"\d{2}", ["12"], ["1", "\u0661\u0662"]),
        (",, a ,", ["a"], [""]),
        ("", [], ["", "a"]),
    ],
)
def test_what_java_means(expressions: str, taken: list[str], left: list[str]) -> None:
    made = Filter(expressions)
    assert [name for name in [*taken, *left] if made.takes(name)] == taken


def test_what_is_excluded() -> None:
    made = Filter(".*", "(?i)secret.*,__.*")
    assert [name for name in ("a", "SECRETS", "__x", "x__") if made.takes(name)] == ["a", "x__"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("*", "'*' is no regular expression: nothing to repeat at position 0; every name is `.*`"),
        (
            "orders(?i).*",
            "has (?i), which is not understood here: write it at the beginning, or `(?i:...)`",
        ),
        ("(?-i)x", "has (?-i), which is not understood here"),
        (r"\p{L}+", r"has \p{L}, which is not understood here: write the characters in brackets, such as [a-zA-Z]"),
        (r"\pL", r"has \pL, which"),
        (r"[\P{Alpha}]", r"has \P{Alpha}, which"),
        ("[a-z&&[^x]]", "has brackets within brackets, which is not understood here: write all characters in one"),
        ("[a[bc]]", "has brackets within brackets"),
        (
            "orders-[0-9]{1,3}",
            "'orders-[0-9]{1' has a { that is no number of times such as {3}, which is not",
        ),
        (r"\h", r"'\h' is no regular expression: bad escape \h at position 0"),
        ("a\\", "is no regular expression: bad escape (end of pattern)"),
    ],
)
def test_what_is_not_understood_is_said_in_a_line(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as wrong:
        Filter(expression)
    assert "\n" not in str(wrong.value)
    with pytest.raises(ValueError, match=re.escape(message)):
        Filter(".*", expression)
