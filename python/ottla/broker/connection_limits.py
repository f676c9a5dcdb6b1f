"""How many connections there may be, and how many may come in a second: in all, and at each listener (KIP-402,
KIP-612).

Who comes too often waits in the listener's queue, at most for a window at a time. Where there are several listeners,
that for brokers is not held up by what holds for all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla._core import Hub
    from ottla.config import BrokerConfig

COUNT: Final = "max.connections"
RATE: Final = "max.connection.creation.rate"
NO_BOUND: Final = 2**31 - 1


def settings(config: BrokerConfig) -> list[str]:
    """The names of the settings that matter here."""
    return [COUNT, RATE, *(f"{_prefix(one.name)}{name}" for one in config.listeners for name in (COUNT, RATE))]


def apply(config: BrokerConfig, hub: Hub) -> None:
    """From now on the bounds of connections are those of these settings."""
    listeners = config.listeners
    samples, window_ms = config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000
    protected = config.inter_broker_listener if len(listeners) > 1 else None
    hub.reserve_for(_not_for_clients(config))
    hub.limit_connection_rate(_rate(config, RATE), samples=samples, window_ms=window_ms, protected=protected)
    for listener in listeners:
        count, rate = (_own(config, listener.name, name) for name in (COUNT, RATE))
        hub.limit_listener(
            listener.name, config.get_int(count), _rate(config, rate), samples=samples, window_ms=window_ms
        )


def _not_for_clients(config: BrokerConfig) -> list[str]:
    """The listeners of brokers and of the controller, where clients have another one."""
    own = config.listeners_between_brokers
    names = [one.name for one in config.listeners]
    return [name for name in names if name in own] if any(name not in own for name in names) else []


def _prefix(listener: str) -> str:
    return f"listener.name.{listener.lower()}."


def _own(config: BrokerConfig, listener: str, name: str) -> str:
    """The listener's own setting, or that of all if it has none."""
    own = f"{_prefix(listener)}{name}"
    return own if config.is_set(own) else name


def _rate(config: BrokerConfig, name: str) -> int | None:
    rate = config.get_int(name)
    return None if rate >= NO_BOUND else rate
