"""Settings of brokers that change while they run (KIP-226): what of the stored ones can be used, which changes a
running broker takes, and what changed. Rules of Apache Kafka 2.7's `DynamicBrokerConfig`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.config.names import base_setting, require_dynamic
from ottla.config.passwords import SECRET, PasswordEncoder, is_password
from ottla.config.security import refusal
from ottla.config.table import SYNONYMS, TOPIC_SETTINGS
from ottla.config.values import ConfigError, InvalidValue, check, parse

THREADS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)
"""Numbers of threads: each change may halve or double them at most."""

OF_LOGS: Final = frozenset(
    name
    for setting in TOPIC_SETTINGS.values()
    if setting.broker_name is not None
    for name in SYNONYMS.get(setting.broker_name, (setting.broker_name,))
    if name.startswith("log.")
)
"""The settings of brokers that hold for logs of topics without such a setting of their own."""


def usable(
    settings: Mapping[str, str],
    *,
    for_one_broker: bool,
    passwords: PasswordEncoder | None = None,
    ignored: Collection[str] = (),
) -> tuple[dict[str, str], list[ConfigError]]:
    """Of settings as `/config/brokers/...` has them, those that a broker takes, and an error for each other one.
    Passwords among them are decoded. `ignored` is the value of `security.settings.ignored`.

    Somebody may have written them past every check, or for a broker of another version; one that is wrong must not
    keep the others from having effect. Names that no setting has are kept, as in Kafka.
    """
    kept: dict[str, str] = {}
    problems: list[ConfigError] = []
    for name, text in settings.items():
        try:
            require_dynamic(name, for_one_broker=for_one_broker)
            if is_password(name):
                if passwords is None:
                    raise ConfigError(name, f"{name} is encoded, and there is no {SECRET} to decode it with")
                text = passwords.decode(name, text)
            if (setting := base_setting(name)) is not None:
                check(name, parse(name, setting.type, text), setting.valid)
                if refused := refusal(name, text, ignored):
                    raise refused
        except ConfigError as error:
            problems.append(error)
            continue
        kept[name] = text
    return kept, problems


def changed(old: BrokerConfig, new: BrokerConfig) -> set[str]:
    """The names of settings that have another value now, or are set where they were not, or the other way round."""
    layers = (old.dynamic_default, old.dynamic_broker, new.dynamic_default, new.dynamic_broker)
    names = {name for layer in layers for name in layer if base_setting(name) is not None}
    return {name for name in names if old.get(name) != new.get(name) or old.is_set(name) != new.is_set(name)}


def check_reconfiguration(old: BrokerConfig, new: BrokerConfig) -> None:
    """Raises ConfigError if a running broker with the settings `old` does not take `new`."""
    for name in THREADS:
        before, after = old.get_int(name), new.get_int(name)
        if after == before:
            continue
        if after < 1:
            raise InvalidValue(name, f"{name}={after}: at least 1 is needed")
        if not before // 2 <= after <= before * 2:
            raise InvalidValue(
                name,
                f"{name}={after}: while the broker runs it can be halved or doubled at most, and it is {before}; "
                "go there in steps",
            )
    before_by_name = {endpoint.name: endpoint for endpoint in old.listeners}
    for endpoint in new.listeners:
        before_endpoint = before_by_name.get(endpoint.name, endpoint)
        if endpoint != before_endpoint:
            # Kafka accepts another address, and goes on to listen on the old one.
            raise InvalidValue(
                "listeners",
                f"listeners: {endpoint} is {before_endpoint} now; a listener that is open keeps its address and "
                "protocol while the broker runs: give the new one another name, or restart the broker",
            )


def stored(
    wanted: Mapping[str, str],
    before: Mapping[str, str],
    *,
    decoded: Mapping[str, str],
    altered: Collection[str],
    for_one_broker: bool,
    passwords: PasswordEncoder | None,
) -> dict[str, str]:
    """Settings as they go into the tree: passwords encoded, or not at all.

    `before` is what is stored, and `decoded` what `usable` made of it. A password that keeps its value keeps its text,
    and so does one that could not be decoded and is not among the names that somebody alters: a broker that was started
    without the secret must not lose it. Raises ConfigError.
    """
    result = dict(wanted)
    for name, text in wanted.items():
        if not is_password(name):
            continue
        if not for_one_broker:
            raise ConfigError(name, f"{name}: a password can only be set for one broker at a time; name the broker")
        if name in before and decoded.get(name) == text:
            result[name] = before[name]
        elif passwords is None:
            raise ConfigError(name, f"{name}: {SECRET} is not configured, so it cannot be stored; set it in the file")
        else:
            result[name] = passwords.encode(name, text)
    kept = {name: text for name, text in before.items() if is_password(name) and name not in decoded}
    return {name: text for name, text in kept.items() if name not in altered} | result
