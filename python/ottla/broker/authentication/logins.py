"""The options of login modules: the users of PLAIN, and who a broker is to others.

They stand in the listener's setting (`listener.name.LISTENER.MECHANISM.sasl.jaas.config`), or else in the JAAS file
that Kafka's scripts give Java: `KAFKA_OPTS="-Djava.security.auth.login.config=FILE"`. There the entry
`LISTENER.KafkaServer`, or else `KafkaServer`, has a module for each mechanism.

Source: JaasContext.loadServerContext.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client import jaas, java_options
from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, Endpoint

_ENTRY: Final = "KafkaServer"


class Login(NamedTuple):
    """The options of a login module, and the place where they stand, for messages."""

    place: str
    options: Mapping[str, str]


def setting_of(endpoint: Endpoint, mechanism: str) -> str:
    """The name of the setting that has a listener's login for a mechanism."""
    return f"listener.name.{endpoint.name.lower()}.{mechanism.lower()}.{jaas.SETTING}"


def name_of(config: BrokerConfig, endpoint: Endpoint, mechanism: str, base: str) -> str:
    """The name under which a setting stands for a mechanism of a listener: with the prefixes of both, with that of the
    listener, or with none.
    """
    own = f"listener.name.{endpoint.name.lower()}."
    names = (f"{own}{mechanism.lower()}.{base}", own + base)
    return next((each for each in names if config.is_set(each)), base)


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
    try:
        file = java_options.jaas_file()
    except ValueError as error:
        raise ConfigError(setting, f"listener {endpoint}: {error}") from None
    if file is None:
        return None
    names = (f"{endpoint.name.lower()}.{_ENTRY}", _ENTRY)
    name = next((each for each in names if each in file.entries), None)
    if name is None:
        return None
    options = dict(reversed(file.entries[name])).get(module)
    return None if options is None else Login(f"{file.place}, entry {name}", options)
