"""Where a broker listens, and the addresses it tells clients: `listeners`, `advertised.listeners` and their older
relatives.

A listener is NAME://HOST:PORT. Its name is looked up in `listener.security.protocol.map`, which says how it is
secured; names that are a protocol's own (PLAINTEXT) need no entry of their own there. An empty host, 0.0.0.0 and ::
are the wildcard: every address of the machine. Nothing set at all is PLAINTEXT://127.0.0.1:9092; `host.name` and
`port` are Kafka's older way to say it, and `advertised.host.name` and `advertised.port` the older way to say what
clients are told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from ottla.config.values import ConfigError, InvalidValue
from ottla.kafka import PROTOCOLS

T = TypeVar("T")

WILDCARDS = ("", "0.0.0.0", "::")
_ENDPOINT = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"


class Endpoint(NamedTuple):
    """One listener: `name` in capitals, `host` as written ("" for the wildcard), `port` (0 picks a free one)."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def is_wildcard(self) -> bool:
        """Whether it listens on every address of the machine."""
        return self.host in WILDCARDS

    @property
    def address(self) -> str:
        """HOST:PORT, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


def protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` as a dictionary. Raises InvalidValue for anything else, and for a protocol that does not
    exist.
    """
    setting = "listener.security.protocol.map"
    result = {}
    for item in filter(None, re.split(r"\s*,\s*", text.strip())):
        name, colon, protocol = item.rpartition(":")
        if not colon or protocol.strip().upper() not in PROTOCOLS:
            raise InvalidValue(
                setting, f"{setting}: {item!r} is not NAME:PROTOCOL with one of the protocols {', '.join(PROTOCOLS)}"
            )
        result[name.strip().upper()] = protocol.strip().upper()
    return result


def endpoints(setting: str, text: str, protocols: Mapping[str, str], *, distinct_ports: bool = True) -> list[Endpoint]:
    """The listeners of `setting`'s text, in its order.

    Raises InvalidValue if one cannot be understood, has a name without a protocol, or a name (or port, if they
    listen) occurs twice.
    """
    result: list[Endpoint] = []
    for item in filter(None, re.split(r"\s*,\s*", text.strip())):
        match = re.fullmatch(_ENDPOINT, item)
        if match is None or not 0 <= int(match[3]) <= 65535:
            raise InvalidValue(
                setting,
                f"{setting}: {item!r} is not NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092 (port 0 to 65535)",
            )
        name = match[1].upper()
        if name not in protocols:
            raise InvalidValue(
                setting,
                f"{setting}: listener {name} has no protocol; add {name}:PLAINTEXT to listener.security.protocol.map",
            )
        result.append(Endpoint(name, match[2], int(match[3]), protocols[name]))
    if not result:
        raise InvalidValue(setting, f"{setting}: at least one NAME://HOST:PORT is needed")
    if twice := _twice(endpoint.name for endpoint in result):
        raise InvalidValue(setting, f"{setting}: the name {twice} occurs twice; each listener needs its own")
    if distinct_ports and (port := _twice(endpoint.port for endpoint in result if endpoint.port)):
        raise InvalidValue(setting, f"{setting}: port {port} occurs twice; each listener needs its own")
    return result


def check_advertised(advertised: list[Endpoint], listening: list[Endpoint], between_brokers: str) -> None:
    """Raises ConfigError unless every advertised name listens, none is a wildcard, and brokers can reach this one."""
    setting = "advertised.listeners"
    names = [endpoint.name for endpoint in listening]
    for endpoint in advertised:
        if endpoint.name not in names:
            raise ConfigError(setting, f"{setting}: {endpoint.name} is not one of the listeners {', '.join(names)}")
    if between_brokers not in (endpoint.name for endpoint in advertised):
        raise ConfigError(
            "inter.broker.listener.name",
            f"brokers talk to each other through the listener {between_brokers}, which is not among the advertised "
            f"listeners {', '.join(str(endpoint) for endpoint in advertised)}; set inter.broker.listener.name",
        )


def parse_address(text: str) -> tuple[str, int]:
    """HOST and PORT of `HOST:PORT`, `[IPV6]:PORT` or `:PORT`. Raises ValueError, saying what is needed."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]/\s]*)):([0-9]{1,5})", text.strip())
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092 (port 0 to 65535)")
    return match[1] or match[2], int(match[3])


def _twice(items: Iterable[T]) -> T | None:
    seen: set[T] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None
