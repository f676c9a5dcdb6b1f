"""The options of login modules: the users of PLAIN, and who a broker is to others.

They stand in the listener's setting (`listener.name.LISTENER.MECHANISM.sasl.jaas.config`), or else in the JAAS file
that Kafka's scripts give Java: `KAFKA_OPTS="-Djava.security.auth.login.config=FILE"`. There the entry
`LISTENER.KafkaServer`, or else `KafkaServer`, has a module for each mechanism.

Source: JaasContext.loadServerContext.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client import jaas
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, Endpoint

VARIABLE: Final = "KAFKA_OPTS"
_PROPERTY: Final = "-Djava.security.auth.login.config="
_ENTRY: Final = "KafkaServer"


class Login(NamedTuple):
    """The options of a login module, and the place where they stand, for messages."""

    place: str
    options: Mapping[str, str]


def setting_of(endpoint: Endpoint, mechanism: str) -> str:
    """The name of the setting that has a listener's login for a mechanism."""
    return f"listener.name.{endpoint.name.lower()}.{mechanism.lower()}.{jaas.SETTING}"


def login(config: BrokerConfig, endpoint: Endpoint, mechanism: str, example: str) -> Login | None:
    """The login of a listener for a mechanism; None if there is none. Raises ConfigError if it cannot be read."""
    setting, module = setting_of(endpoint, mechanism), jaas.MODULES[mechanism]
    text = config.get_str(setting)
    if not text:
        return _of_file(endpoint, setting, module)
    try:
        name, options = jaas.parse(text, example, setting)
    except ValueError as error:
        raise ConfigError(setting, f"listener {endpoint}: {error}") from None
    if name != module:
        raise ConfigError(
            setting, f"listener {endpoint}: {setting} has the login module {name}; {mechanism} needs {module}"
        )
    return Login(setting, options)


def _of_file(endpoint: Endpoint, setting: str, module: str) -> Login | None:
    """`setting` is the one that is not set."""
    path = _file()
    if path is None:
        return None
    place = f"the JAAS file {path} ({VARIABLE})"
    try:
        with open(path, encoding="utf-8") as file:
            entries = jaas.parse_file(file.read())
    except OSError as error:
        raise ConfigError(setting, f"listener {endpoint}: {place} cannot be read: {error.strerror}") from None
    except ValueError as error:  # bytes that are no text, too
        raise ConfigError(setting, f"listener {endpoint}: {place}: {error}") from None
    names = (f"{endpoint.name.lower()}.{_ENTRY}", _ENTRY)
    name = next((each for each in names if each in entries), None)
    if name is None:
        return None
    options = dict(reversed(entries[name])).get(module)
    return None if options is None else Login(f"{place}, entry {name}", options)


def _file() -> str | None:
    """The JAAS file that Java would be given."""
    try:
        words = shlex.split(os.environ.get(VARIABLE, ""))
    except ValueError:  # a quote without its end
        return None
    paths = [word.removeprefix(_PROPERTY) for word in words if word.startswith(_PROPERTY)]
    return paths[-1] if paths else None
