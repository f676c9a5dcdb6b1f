"""Rust is read as its compiler reads it, as far as comments, literals and functions go."""

import pytest

from tests.shape.rust_text import bare, functions, parts


def found(source: str) -> list[tuple[str, int, int]]:
    return [tuple(each) for each in functions(source)]


def test_a_function_goes_from_its_name_to_its_last_brace() -> None:
    source = "/// Adds.\n#[inline]\npub const fn add(\n    a: u8,\n) -> u8 {\n    if a > 1 { a } else { 2 }\n}\n"
    source += "fn next() {}\n"
    assert found(source) == [("add", 3, 5), ("next", 8, 1)]


def test_functions_within_others_count_for_both() -> None:
    assert found("fn outer() {\n    fn inner() {\n    }\n}\n") == [("outer", 1, 4), ("inner", 2, 2)]


@pytest.mark.parametrize(
    "hidden",
    [
        "// } fn no() {",
        "/* } /* } */ fn no() { */",
        "/// fn no() {",
        'let a = "} fn no() { \\" }";',
        'let a = "a line that \\\n  goes on }";',
        'let a = b"}";',
        'let a = c"}";',
        'let a = r"}\\";',
        'let a = r#"} " fn no() { "#;',
        'let a = br##"}"# "##;',
        "let a = '}';",
        "let a = b'}';",
        "let a = '\\'';\nlet b = '}';",
        "let a = '\"'; // }",
        "let a = '\\u{7d}'; let b = '}';",
        "let a = b'\\x7d';",
        'let a: &\'static str = "}";',
        "let a = outer::<'_>('}');",
        "'outer: loop { break 'outer; }",
        "let r#type = 1; // }",
    ],
)
def test_what_a_literal_or_a_comment_has_is_no_code(hidden: str) -> None:
    source = f"fn one() {{\n{hidden}\n}}\n\nfn two() {{}}\n"
    lines = hidden.count("\n") + 3
    assert found(source) == [("one", 1, lines), ("two", lines + 2, 1)]


def test_a_signature_without_a_body_is_no_function() -> None:
    source = "trait A {\n    fn a(&self) -> [u8; 4];\n    fn b(&self) -> [u8; { 2 + 2 }] {\n        [0; 4]\n    }\n}\n"
    assert found(source) == [("b", 3, 3)]


@pytest.mark.parametrize(
    "signature",
    [
        "fn a<'a, T>(it: &'a T) -> Fixed<{ N + 1 }> where T: Into<u8>, ",
        "fn a(f: fn(u8) -> u8, g: impl Fn([u8; 2])) ",
        'unsafe extern "C" fn a<const N: usize>(x: [u8; N]) ',
        "fn r#a() ",
    ],
)
def test_signatures(signature: str) -> None:
    assert found(f"{signature}{{\n}}\nfn b() {{}}\n") == [("a", 1, 2), ("b", 3, 1)]


def test_what_is_blanked_keeps_its_place() -> None:
    source = 'let a = "ä\n}"; // }\nlet b = 1;'
    assert len(bare(source)) == len(source)
    assert bare(source).splitlines()[2] == "let b = 1;"
    assert "}" not in bare(source)
    assert [source[part.start : part.stop] for part in parts(source)] == ['"ä\n}"', "// }"]


def test_what_does_not_end_ends_with_the_file() -> None:
    assert found("fn a() {\n /* {") == [("a", 1, 2)]
