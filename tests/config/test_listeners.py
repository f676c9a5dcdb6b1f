"""Where a broker listens and what it tells clients."""

import pytest

from ottla.config import BrokerConfig, ConfigError, Endpoint
from ottla.config.listeners import parse_address

LOCAL = Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")


def test_without_any_setting_it_listens_on_loopback_alone() -> None:
    config = BrokerConfig()
    assert config.listeners == config.advertised_listeners == [LOCAL]


@pytest.mark.parametrize(
    ("settings", "listeners"),
    [
        ({"listeners": "PLAINTEXT://:9093"}, [Endpoint("PLAINTEXT", "", 9093, "PLAINTEXT")]),
        ({"listeners": "plaintext://0.0.0.0:0"}, [Endpoint("PLAINTEXT", "0.0.0.0", 0, "PLAINTEXT")]),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, [Endpoint("PLAINTEXT", "::1", 9092, "PLAINTEXT")]),
        ({"port": "9999"}, [LOCAL._replace(port=9999)]),
        ({"host.name": "10.0.0.1"}, [LOCAL._replace(host="10.0.0.1")]),
        ({"host.name": ""}, [LOCAL._replace(host="")]),
        (
            {
                "listeners": "PLAINTEXT://:9092 , INSIDE://10.0.0.1:9093",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,inside:plaintext",
            },
            [Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"), Endpoint("INSIDE", "10.0.0.1", 9093, "PLAINTEXT")],
        ),
    ],
)
def test_listeners(settings: dict[str, str], listeners: list[Endpoint]) -> None:
    assert BrokerConfig(settings).listeners == listeners


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ({"advertised.listeners": "PLAINTEXT://broker.example:19092"}, "PLAINTEXT://broker.example:19092"),
        ({"advertised.host.name": "broker.example"}, "PLAINTEXT://broker.example:9092"),
        ({"advertised.port": "19092"}, "PLAINTEXT://127.0.0.1:19092"),
        ({"listeners": "PLAINTEXT://[::1]:7"}, "PLAINTEXT://[::1]:7"),
    ],
)
def test_advertised_listeners(settings: dict[str, str], advertised: str) -> None:
    assert ",".join(map(str, BrokerConfig(settings).advertised_listeners)) == advertised


def test_a_wildcard_is_advertised_as_one_unless_it_is_said_otherwise() -> None:
    assert [
        endpoint.is_wildcard for endpoint in BrokerConfig({"listeners": "PLAINTEXT://:0"}).advertised_listeners
    ] == [True]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "127.0.0.1:9092"}, "'127.0.0.1:9092' is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://a:70000"}, "port 0 to 65535"),
        ({"listeners": ""}, "at least one"),
        ({"listeners": "INSIDE://:9092"}, "add INSIDE:PLAINTEXT to listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "PLAINTEXT occurs twice"),
        (
            {
                "listeners": "PLAINTEXT://:1,B://:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            },
            "port 1 occurs twice",
        ),
        ({"listener.security.protocol.map": "A:TLS"}, "not NAME:PROTOCOL with one of the protocols PLAINTEXT, SSL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "no address that a client could connect to"),
        ({"advertised.listeners": "SSL://a:9092"}, "SSL is not one of the listeners PLAINTEXT"),
        ({"inter.broker.listener.name": "INSIDE"}, "set inter.broker.listener.name"),
        (
            {"control.plane.listener.name": "CONTROL"},
            "CONTROL is not one of the advertised listeners PLAINTEXT besides",
        ),
        ({"inter.broker.accepted.listener.names": "PLAINTEXT,A"}, "A is not one of the listeners PLAINTEXT"),
        ({"control.plane.listener.name": "PLAINTEXT"}, "besides the inter-broker listener PLAINTEXT"),
        ({"security.inter.broker.protocol": "TLS"}, "one of PLAINTEXT, SSL"),
        ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}, "only one of"),
        ({"authorizer.class.name": "org.example.Authorizer"}, "runs no Java class that decides"),
    ],
)
def test_what_cannot_be_served_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig(settings)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        (":0", ("", 0)),
        ("[::1]:9", ("::1", 9)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "9092", "host", "host:", "::1:9092", "host:65536", "PLAINTEXT://host:1", "a b:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)
