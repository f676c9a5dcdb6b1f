"""Where brokers are: the forms that Kafka's clients take."""

import pytest

from ottla.client.cluster import parse_bootstrap


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:3", [("::1", 3)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("SASL_SSL://a:1,INTERNAL-2://[fe80::1%eth0]:2,b:3", [("a", 1), ("fe80::1%eth0", 2), ("b", 3)]),
        ("://a:1", [("a", 1)]),
    ],
)
def test_lists(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses
    assert parse_bootstrap(text.split(",")) == addresses


@pytest.mark.parametrize("text", ["a:b", "PLAINTEXT://a:b", "a:0", "a:65536", "a:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' is not HOST:PORT$"):
        parse_bootstrap(text)


@pytest.mark.parametrize("text", ["", " , ", "PLAINTEXT://"])
def test_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="no server is named"):
        parse_bootstrap(text)
