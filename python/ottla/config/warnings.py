"""Sentences for the log about settings that were understood otherwise than their author may think."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ottla.config.effective import EFFECTIVE
from ottla.config.layers import Layers
from ottla.config.listeners import Endpoint
from ottla.config.names import base_setting
from ottla.config.protocol import OLDEST
from ottla.config.security import (
    IGNORED,
    OF_AUTHORIZER,
    REFUSED,
    absent,
    base_name,
    has_authorizer,
    inert_because,
    refusal,
)
from ottla.config.table import BROKER_SETTINGS

#: Settings for several brokers, and what they do to one that is alone.
_OF_SEVERAL = {
    "default.replication.factor": "topics for which nobody asks for another number of replicas cannot be created",
    "min.insync.replicas": "a Produce with acks=all is refused (NOT_ENOUGH_REPLICAS)",
    "offsets.topic.replication.factor": "__consumer_offsets cannot be created, so there are no consumer groups",
    "transaction.state.log.min.isr": "no transaction can begin",
    "transaction.state.log.replication.factor": "__transaction_state cannot be created, so there are no transactions",
}


def of_file(names: Iterable[str], file: str | os.PathLike[str]) -> list[str]:
    """One sentence for each name that no setting has."""
    return [
        f"{os.fspath(file)}: no setting is called {name}, it has no effect{_hint(name)}"
        for name in names
        if base_setting(name) is None and base_name(name) not in {*REFUSED, *OF_AUTHORIZER} and not inert_because(name)
    ]


def of_start(config: Layers) -> list[str]:
    """What holds of all settings of a broker's start, wherever they come from."""
    return [
        *_exposed(config),
        *_ignored(config),
        *_inert(config),
        *_ineffective(config.static),
        *_alone(config),
        *_old(config),
    ]


def _exposed(config: Layers) -> Iterator[str]:
    if wildcards := [str(each) for each in config.listeners if each.is_wildcard and not _asks_who_comes(config, each)]:
        allowed = (
            "do what rules allow User:ANONYMOUS" if has_authorizer(config) else "read, write and delete everything"
        )
        yield (
            f"{', '.join(wildcards)} listens on every address of this machine, without authentication: everybody who "
            f"can connect may {allowed}; name one address, such as 127.0.0.1, or let a firewall decide who can connect"
        )
    address = config.get_str("metrics.listener") or ""
    host, has_password = address.rpartition(":")[0].strip("[]"), bool(config.get_str("metrics.user"))
    if host in ("0.0.0.0", "::") and not has_password:
        yield f"metrics.listener={address} listens on every address of this machine, without a password"
    is_local = address.startswith("unix:") or host in ("", "127.0.0.1", "::1", "localhost")
    if has_password and not is_local and config.get_str("metrics.security.protocol") != "SSL":
        yield (
            f"metrics.listener={address}: the password of metrics.user goes over the network in plain text; "
            "metrics.security.protocol=SSL encrypts it"
        )


def _asks_who_comes(config: Layers, endpoint: Endpoint) -> bool:
    """True if nobody is served through a listener who has not said who it is."""
    if endpoint.protocol != "SSL":
        return endpoint.protocol.startswith("SASL")
    setting = "ssl.client.auth"
    own = f"listener.name.{endpoint.name.lower()}.{setting}"
    return config.get_str(own if config.is_set(own) else setting) == "required"


def _ignored(config: Layers) -> Iterator[str]:
    ignored = config.get_list(IGNORED)
    for name, text in config.static.items():
        if refusal(name, text, ()) and not refusal(name, text, ignored):
            yield f"{name} is ignored, as {IGNORED} says: {REFUSED[base_name(name)]}"


def _inert(config: Layers) -> Iterator[str]:
    without = absent(config)
    by_reason: dict[str, list[str]] = {}
    for name in config.static:
        if reason := inert_because(name, without):
            by_reason.setdefault(reason, []).append(name)
    for reason, found in by_reason.items():
        yield f"without effect, since {reason}: {', '.join(sorted(found))}"


def _ineffective(names: Iterable[str]) -> Iterator[str]:
    known = {name: setting.name for name in names if (setting := base_setting(name))}
    has_effect = EFFECTIVE | REFUSED.keys()
    idle = [name for name, base in known.items() if base not in has_effect and not inert_because(name)]
    if idle:
        yield f"without effect in this version of Ottla: {', '.join(sorted(idle))}"


def _alone(config: Layers) -> Iterator[str]:
    """What a broker without ZooKeeper can never fulfil, since its cluster is itself."""
    if config.zookeeper is not None:
        return
    for name, what in _OF_SEVERAL.items():
        if (value := config.get_int(name)) > 1:
            yield f"{name}={value}, and this broker is alone (zookeeper.connect is not set): {what}"


def _old(config: Layers) -> Iterator[str]:
    protocol = config.inter_broker_protocol
    if protocol.is_older_than_spoken:
        yield (
            f"inter.broker.protocol.version={protocol.version} acts as {OLDEST}, the oldest that is spoken: all "
            "other brokers must be 2.6 or newer"
        )


def _hint(name: str) -> str:
    from ottla.config.nearest import hint

    return hint(name, BROKER_SETTINGS)
