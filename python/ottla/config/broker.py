"""A broker's settings: read from a file and the command line, checked, layered with what is changed while it runs.

A setting may have a value in several places. The strongest first (KIP-226): set for this broker while it runs, set
for all brokers while they run, set at start (file, `--set`), the default. Some settings have several names, as
`log.retention.ms`, `.minutes` and `.hours`; the one with the finer unit wins, whichever place it comes from.

A BrokerConfig never changes: `with_dynamic` gives a new one, so whoever holds a config can trust it for as long as he
holds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import cast

from ottla.config.listeners import Endpoint, endpoints, protocol_map
from ottla.config.names import base_setting, require_dynamic, require_known, require_zookeepers_time
from ottla.config.passwords import KEY_FACTORY, OLD_SECRET, SECRET, PasswordEncoder
from ottla.config.table import ALONE_DEFAULTS, BROKER_SETTINGS, DYNAMIC_SETTINGS, LONG_MAX
from ottla.config.values import InvalidValue, Value, check, parse, write


class Source(IntEnum):
    """Where a value comes from, with the number that DescribeConfigs gives it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6


class BrokerConfig:
    """All settings of one broker, checked.

    `get_int("log.segment.bytes")` and its relatives give one setting's value; properties give what follows from
    several. static, dynamic_broker, dynamic_default: the text of what was set in each place. warnings: sentences for
    the log, about settings that were understood otherwise than their author may think.
    """

    def __init__(
        self,
        static: Mapping[str, str] | None = None,
        *,
        dynamic_broker: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
        warnings: list[str] | None = None,
    ) -> None:
        """Settings by name as text, without a file. Raises ConfigError if one is invalid or they contradict each other.

        Names that no setting has are kept and have no effect, as in Kafka; `load` is stricter.
        """
        self.static = dict(static or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self.dynamic_default = dict(dynamic_default or {})
        self.warnings = list(warnings or ())
        self._values: dict[str, Value] = {}
        for layer in (self.static, self.dynamic_default, self.dynamic_broker):
            for name, text in layer.items():
                if setting := base_setting(name):
                    value = parse(name, setting.type, text)
                    check(name, value, setting.valid)
                    self._values[name] = value
        # Here and not at the top: the checks import nothing that most callers of this module need.
        from ottla.config.checks import check_together

        check_together(self)

    @classmethod
    def load(
        cls, file: str | os.PathLike[str] | None = None, overrides: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """The settings of a `server.properties` file, with `overrides` (from `--set`) over them.

        An unknown name in the file is a warning with the nearest name, as Kafka warns; in `overrides` it raises
        UnknownSetting. An invalid value raises InvalidValue, which says what is possible. A contradiction raises
        ConfigError, and so does a file for KRaft mode.
        """
        from ottla.config import warnings

        static: dict[str, str] = {}
        of_file: list[str] = []
        if file is not None:
            from ottla.config import properties

            static = {entry.key: entry.value for entry in properties.read(file)}
            require_zookeepers_time(static, file)
            of_file = warnings.of_file(static, file)
        for name in overrides or {}:
            require_known(name)
        config = cls({**static, **(overrides or {})})
        config.warnings = [*of_file, *warnings.of_start(config)]
        return config

    def with_dynamic(self, broker: Mapping[str, str], default: Mapping[str, str]) -> BrokerConfig:
        """The same start settings with these over them: `/config/brokers/ID` and `/config/brokers/<default>`.

        Raises ConfigError if one is invalid or they contradict each other.
        """
        return BrokerConfig(self.static, dynamic_broker=broker, dynamic_default=default, warnings=self.warnings)

    def with_static(self, settings: Mapping[str, str]) -> BrokerConfig:
        """The same with more settings of the start, for instance the id that a data directory has.

        Raises ConfigError.
        """
        return BrokerConfig(
            {**self.static, **settings},
            dynamic_broker=self.dynamic_broker,
            dynamic_default=self.dynamic_default,
            warnings=self.warnings,
        )

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
        return [part for part in (part.strip() for part in (text or self.get_str("log.dir") or "").split(",")) if part]

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
        """The names of the listeners on which this broker takes the requests of controllers."""
        control = self.get_str("control.plane.listener.name")
        return frozenset({self.inter_broker_listener, *([control.upper()] if control else [])})

    @cached_property
    def inter_broker_listener(self) -> str:
        """The name of the listener through which brokers talk to each other."""
        name = self.get_str("inter.broker.listener.name") or self.get_str("security.inter.broker.protocol")
        return (name or "PLAINTEXT").upper()

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

    def require_dynamic(self, settings: Mapping[str, str], *, for_one_broker: bool) -> BrokerConfig:
        """Checks settings that somebody wants to give running brokers (AlterConfigs), without taking them. Returns what
        would hold with them.

        Raises ConfigError: an unknown name, a setting that only a restart changes, one that only a single broker can
        have when it is meant for all, an invalid value, a contradiction with the others.
        """
        for name in settings:
            require_dynamic(name, for_one_broker=for_one_broker)
        if for_one_broker:
            return self.with_dynamic(settings, self.dynamic_default)
        return self.with_dynamic(self.dynamic_broker, settings)
