"""A broker's settings: read from a file and the command line, checked, layered with what is changed while it runs.

A setting may have a value in several places. The strongest first (KIP-226): set for this broker while it runs, set
for all brokers while they run, set at start (file, `--set`), the default. Some settings have several names, as
`log.retention.ms`, `.minutes` and `.hours`; the one with the finer unit wins, whichever place it comes from.

A BrokerConfig never changes: `with_dynamic` gives a new one, so whoever holds a config can trust it for as long as he
holds it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from enum import IntEnum

from ottla.config import properties
from ottla.config import warnings as warn
from ottla.config.checks import check_together
from ottla.config.layers import Layers
from ottla.config.names import require_dynamic, require_known, require_zookeepers_time
from ottla.config.nearest import is_near
from ottla.config.security import is_understood
from ottla.config.table import BROKER_SETTINGS
from ottla.config.values import ConfigError

NEAR = 0.88
"""How alike a name must be to count as misspelt."""
#: Names of a file that one line quotes.
NAMED_MAX = 3


class Source(IntEnum):
    """Where a value comes from, with the number that DescribeConfigs gives it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6


def _is_misspelt(name: str) -> bool:
    """Returns True if a name is nearly that of a setting."""
    return any(is_near(name, each, NEAR) for each in BROKER_SETTINGS)


def _some(names: Iterable[str]) -> str:
    """The first names of a file, and whether there are more."""
    first = [repr(name) for name in itertools.islice(names, NAMED_MAX + 1)]
    return ", ".join([*first[:NAMED_MAX], *(["..."] if len(first) > NAMED_MAX else [])])


class BrokerConfig(Layers):
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
        super().__init__(static or {}, dynamic_broker or {}, dynamic_default or {})
        self.warnings = list(warnings or ())
        check_together(self)

    @classmethod
    def load(
        cls, file: str | os.PathLike[str] | None = None, overrides: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """The settings of a `server.properties` file, with `overrides` (from `--set`) over them.

        An unknown name in the file is a warning with the nearest name, as Kafka warns; in `overrides` it raises
        UnknownSetting. An invalid value raises InvalidValue, which says what is possible. A contradiction raises
        ConfigError, and so do a file for KRaft mode, and one that has settings, none of which is a broker's.
        """
        static: dict[str, str] = {}
        of_file: list[str] = []
        if file is not None:
            static = {entry.key: entry.value for entry in properties.read(file)}
            require_zookeepers_time(static, file)
            of_file = warn.of_file(static, file)
            if static and len(of_file) == len(static) and not any(map(_is_misspelt, static)):
                raise ConfigError(
                    "",
                    f"{os.fspath(file)} has no setting of a broker, but {_some(static)}: is it another program's file? "
                    "A broker's has NAME=VALUE in each line, as Kafka's server.properties",
                )
        for name in overrides or {}:
            if not is_understood(name):
                require_known(name)
        config = cls({**static, **(overrides or {})})
        config.warnings = [*of_file, *warn.of_start(config)]
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

    def require_dynamic(self, settings: Mapping[str, str], *, for_one_broker: bool) -> BrokerConfig:
        """Checks settings that somebody wants to give running brokers (AlterConfigs), without taking them. Returns what
        would hold with them.

        Raises ConfigError: a setting that only a restart changes, one that only a single broker can have when it is
        meant for all, an invalid value, a contradiction with the others.
        """
        for name in settings:
            require_dynamic(name, for_one_broker=for_one_broker)
        if for_one_broker:
            return self.with_dynamic(settings, self.dynamic_default)
        return self.with_dynamic(self.dynamic_broker, settings)
