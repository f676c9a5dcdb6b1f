"""Which names settings have: the table's, and `listener.name.LISTENER.` before one of them for one listener alone."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable

from ottla.config.table import BROKER_SETTINGS, DYNAMIC_SETTINGS, TOPIC_SETTINGS, Setting, TopicSetting, Update
from ottla.config.values import ConfigError, UnknownSetting

_LISTENER = r"listener\.name\.[^.]+\.(.+)"
# These stand behind a SASL mechanism: listener.name.LISTENER.MECHANISM.NAME.
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    *(name for name in BROKER_SETTINGS if name.startswith("sasl.oauthbearer.")),
    "connections.max.reauth.ms",
)
# While a broker runs, these are changed for one listener, never in general (SslConfigs.RECONFIGURABLE_CONFIGS).
_ONLY_OF_LISTENERS = ("ssl.key.", "ssl.keystore.", "ssl.truststore.")
_CLUSTER_LISTENER = ("max.connections", "max.connection.creation.rate")


def base_setting(name: str) -> Setting | None:
    """The setting that a name stands for, also with a listener's prefix; None if no setting has the name."""
    if setting := BROKER_SETTINGS.get(name) or DYNAMIC_SETTINGS.get(name):
        return setting
    match = re.fullmatch(_LISTENER, name)
    if match is None:
        return None
    base = next((base for base in _PER_MECHANISM if match[1].endswith(base)), match[1])
    return BROKER_SETTINGS.get(base)


def require_known(name: str) -> None:
    """Raises UnknownSetting, naming the nearest, unless a setting of brokers has this name."""
    if base_setting(name) is None:
        raise UnknownSetting(name, f"no setting is called {name}{_hint(name, BROKER_SETTINGS)}")


def topic_setting(name: str) -> TopicSetting:
    """The setting of topics with this name. Raises UnknownSetting, naming the nearest, if there is none."""
    if setting := TOPIC_SETTINGS.get(name):
        return setting
    for setting in TOPIC_SETTINGS.values():
        if setting.broker_name == name:
            raise UnknownSetting(name, f"no setting of topics is called {name}; for topics it is {setting.name}")
    raise UnknownSetting(name, f"no setting of topics is called {name}{_hint(name, TOPIC_SETTINGS)}")


def require_dynamic(name: str, *, for_one_broker: bool) -> None:
    """Raises ConfigError unless a running broker's (or all brokers') setting of this name can be changed. A name that
    no setting has can be given a value: as in Kafka, plugins and tools may have names of their own.
    """
    setting = base_setting(name)
    if setting is None:
        if not for_one_broker and re.fullmatch(_LISTENER, name):
            raise ConfigError(name, f"{name} can only be set for one broker at a time; name the broker")
        return
    if setting.update is Update.READ_ONLY and name == setting.name:
        raise ConfigError(name, f"{name} cannot be changed while a broker runs; set it in its file and restart it")
    of_listener = name != setting.name and setting.name not in _CLUSTER_LISTENER
    if (setting.update is Update.PER_BROKER or of_listener) and not for_one_broker:
        raise ConfigError(name, f"{name} can only be set for one broker at a time; name the broker")
    if name == setting.name and name.startswith(_ONLY_OF_LISTENERS):
        raise ConfigError(name, f"{name} can only be changed for one listener: listener.name.LISTENER.{name}")


def require_zookeepers_time(names: Collection[str], file: str | os.PathLike[str]) -> None:
    """Raises ConfigError if these are the settings of a broker in KRaft mode, which Kafka 2.7 does not have.

    Such a file would start a broker with another id, and a listener for clients where it names one for controllers.
    """
    if "process.roles" in names:
        raise ConfigError(
            "process.roles",
            f"{os.fspath(file)} sets process.roles, so it is for KRaft mode; Ottla reads files of Kafka's ZooKeeper "
            "mode: write node.id=N as broker.id=N, remove process.roles, controller.* and the listener for "
            "controllers, and leave out zookeeper.connect for a broker that is alone",
        )


def _hint(name: str, names: Iterable[str]) -> str:
    from ottla.config.nearest import hint

    return hint(name, names)
