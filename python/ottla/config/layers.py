"""The values of one broker's settings, as layers: what was set at start and what was changed since, the stronger over
the weaker.

`BrokerConfig` is such layers that were checked against each other; the checks read them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import cast

from ottla.config.listeners import Endpoint, endpoints, protocol_map
from ottla.config.names import base_setting, require_known
from ottla.config.passwords import KEY_FACTORY, OLD_SECRET, SECRET, PasswordEncoder
from ottla.config.protocol import InterBrokerProtocol
from ottla.config.table import ALONE_DEFAULTS, BROKER_SETTINGS, DYNAMIC_SETTINGS, LONG_MAX
from ottla.config.values import InvalidValue, Value, check, parse, write


class Layers:
    """Settings by name as text, each valid alone; see `BrokerConfig`.

    static, dynamic_broker, dynamic_default: what was set in each place. Raises ConfigError if a value is invalid.
    """

    def __init__(
        self, static: Mapping[str, str], dynamic_broker: Mapping[str, str], dynamic_default: Mapping[str, str]
    ) -> None:
        self.static = dict(static)
        self.dynamic_broker = dict(dynamic_broker)
        self.dynamic_default = dict(dynamic_default)
        self._values: dict[str, Value] = {}
        for layer in (self.static, self.dynamic_default, self.dynamic_broker):
            for name, text in layer.items():
                if setting := base_setting(name):
                    value = parse(name, setting.type, text)
                    check(name, value, setting.valid)
                    self._values[name] = value

    # One setting.

    def get(self, name: str) -> Value:
        """The value of one setting by its name; of a listener's own setting (`listener.name.x.y`) too.

        Raises UnknownSetting for a name that no setting has.
        """
        if name in self._values:
            return self._values[name]
        if (setting := BROKER_SETTINGS.get(name)) is None:
            require_known(name)
            setting = DYNAMIC_SETTINGS.get(name) or base_setting(name)
            assert setting is not None
        return self.default_of(name, setting.default)

    def default_of(self, name: str, default: Value) -> Value:
        """The default of a setting in this broker: a broker without ZooKeeper is alone, so replicas default to one."""
        if name in ALONE_DEFAULTS and self._values.get("zookeeper.connect") is None:
            return ALONE_DEFAULTS[name]
        return default

    def is_set(self, name: str) -> bool:
        """Whether somebody set it, in any place."""
        return name in self._values

    @property
    def secrets(self) -> set[str]:
        """The values of settings that nobody may see."""
        layers = (self.static, self.dynamic_broker, self.dynamic_default)
        given = ((base_setting(name), text) for layer in layers for name, text in layer.items())
        return {text for setting, text in given if setting is not None and setting.is_sensitive and text}

    def get_int(self, name: str) -> int:
        """The value of a setting of type short, int or long that is never without a value."""
        return cast(int, self.get(name))

    def get_bool(self, name: str) -> bool:
        """The value of a boolean setting."""
        return cast(bool, self.get(name))

    def get_float(self, name: str) -> float:
        """The value of a setting of type double."""
        return cast(float, self.get(name))

    def get_str(self, name: str) -> str | None:
        """The value of a setting of type string, password or class; None if it has none."""
        return cast("str | None", self.get(name))

    def get_list(self, name: str) -> list[str]:
        """The value of a setting of type list; empty if it has none."""
        return cast("list[str] | None", self.get(name)) or []

    # What follows from several.

    @property
    def broker_id(self) -> int:
        """The id of this broker; -1 if it is to be taken from the data directory or made up."""
        return self.get_int("broker.id")

    @cached_property
    def data_directories(self) -> list[str]:
        """Where logs are kept: `log.dirs`, else `log.dir`."""
        text = self.get_str("log.dirs")
        if text is None:
            text = self.get_str("log.dir") or ""
        return [part for part in (part.strip() for part in text.split(",")) if part]

    @property
    def zookeeper(self) -> str | None:
        """HOST:PORT,HOST:PORT/chroot of the ZooKeeper ensemble; None if this broker keeps the coordination tree
        itself.
        """
        return self.get_str("zookeeper.connect") or None

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        """How long connecting to ZooKeeper may take at start: its setting, or as long as a session without a word."""
        return self._first(("zookeeper.connection.timeout.ms", 1), ("zookeeper.session.timeout.ms", 1))

    @cached_property
    def listeners(self) -> list[Endpoint]:
        """Where to listen, in order. Without any setting: PLAINTEXT://127.0.0.1:9092 alone."""
        text = self.get_str("listeners")
        if text is None:
            host = self.get_str("host.name") or ""
            return [Endpoint("PLAINTEXT", host, self.get_int("port"), self._protocols.get("PLAINTEXT", "PLAINTEXT"))]
        return endpoints("listeners", text, self._protocols)

    @cached_property
    def advertised_listeners(self) -> list[Endpoint]:
        """What clients and other brokers are told.

        A wildcard among them stands for the address that was connected to.
        """
        text = self.get_str("advertised.listeners")
        if text is not None:
            return endpoints("advertised.listeners", text, self._protocols, distinct_ports=False)
        if self.is_set("advertised.host.name") or self.is_set("advertised.port"):
            host = self.get_str("advertised.host.name") or self.get_str("host.name") or ""
            port = cast("int | None", self.get("advertised.port"))
            port = self.get_int("port") if port is None else port
            return [Endpoint("PLAINTEXT", host, port, self._protocols.get("PLAINTEXT", "PLAINTEXT"))]
        return self.listeners

    @cached_property
    def listeners_between_brokers(self) -> frozenset[str]:
        """The names of the listeners on which this broker takes the requests of controllers. While a cluster goes from
        one listener between brokers to another, some brokers come to the former and some to the next.
        """
        control = self.get_str("control.plane.listener.name")
        accepted = {name.upper() for name in self.get_list("inter.broker.accepted.listener.names")}
        return frozenset({self.inter_broker_listener, *accepted, *([control.upper()] if control else [])})

    @cached_property
    def inter_broker_listener(self) -> str:
        """The name of the listener through which brokers talk to each other."""
        name = self.get_str("inter.broker.listener.name") or self.get_str("security.inter.broker.protocol")
        return (name or "PLAINTEXT").upper()

    @cached_property
    def inter_broker_protocol(self) -> InterBrokerProtocol:
        """What brokers may say to each other."""
        return InterBrokerProtocol.named(self.get_str("inter.broker.protocol.version"))

    @cached_property
    def _protocols(self) -> dict[str, str]:
        return protocol_map(self.get_str("listener.security.protocol.map") or "")

    @property
    def queued_bytes_max(self) -> int:
        """How many bytes of requests may be held at once: `queued.max.request.bytes`; what an int can hold for no
        limit.
        """
        bytes_max = self.get_int("queued.max.request.bytes")
        return bytes_max if bytes_max > 0 else LONG_MAX

    @cached_property
    def password_encoder(self) -> PasswordEncoder | None:
        """What passwords in the coordination tree are encoded and decoded with; None without a secret."""
        return self._password_encoder(SECRET)

    @cached_property
    def old_password_encoder(self) -> PasswordEncoder | None:
        """What they were encoded with until the secret changed; None if it did not."""
        return self._password_encoder(OLD_SECRET)

    def _password_encoder(self, name: str) -> PasswordEncoder | None:
        secret = self.get_str(name)
        if secret is None:
            return None
        return PasswordEncoder(
            secret,
            self.get_str("password.encoder.keyfactory.algorithm") or KEY_FACTORY,
            self.get_str("password.encoder.cipher.algorithm") or "",
            self.get_int("password.encoder.key.length"),
            self.get_int("password.encoder.iterations"),
        )

    @cached_property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """How many connections some addresses may have (`max.connections.per.ip.overrides`). Raises InvalidValue."""
        name = "max.connections.per.ip.overrides"
        limits = {}
        for item in filter(None, (part.strip() for part in (self.get_str(name) or "").split(","))):
            address, colon, count = item.rpartition(":")
            if not colon or not address or not count.strip().isdecimal():
                raise InvalidValue(name, f"{name}: {item!r} is not ADDRESS:COUNT, such as 10.0.0.1:100")
            limits[address.strip()] = int(count)
        return limits

    @property
    def log_retention_ms(self) -> int:
        """How long records are kept, from ms, minutes or hours; -1 is for ever."""
        value = self._first(
            ("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)
        )
        return max(value, -1)

    @property
    def log_roll_ms(self) -> int:
        """After how long a new segment is begun, from ms or hours."""
        return self._first(("log.roll.ms", 1), ("log.roll.hours", 3_600_000))

    @property
    def log_roll_jitter_ms(self) -> int:
        """By how much at most that may be earlier, from ms or hours."""
        return self._first(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000))

    @property
    def log_flush_interval_ms(self) -> int:
        """After how long records are flushed; by default as often as the flusher looks."""
        return self._first(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))

    def _first(self, *names_and_factors: tuple[str, int]) -> int:
        """The first of several settings that has a value, times its factor; the last one always has."""
        for name, factor in names_and_factors:
            if (value := self.get(name)) is not None:
                return cast(int, value) * factor
        raise AssertionError(names_and_factors)

    def text(self, name: str) -> str | None:
        """The value of a setting as text, as Kafka writes it; a secret is not hidden here."""
        return write(self.get(name))
