"""The file of `ottla mirror`: MirrorMaker 2's properties, or TOML with the same keys.

    clusters = A, B
    A.bootstrap.servers = a1:9092
    B.bootstrap.servers = b1:9092
    A->B.enabled = true
    A->B.topics = orders.*

A setting of a flow (`A->B.topics`) wins over the same for all flows (`topics`). A cluster has the settings of the Java
client, of which `A.bootstrap.servers` and those of security have an effect. What belongs to Kafka Connect is accepted
and has no effect: this mirror needs no Connect.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.client.security import Security
from ottla.config import properties
from ottla.config.nearest import hint
from ottla.config.values import ConfigError
from ottla.mirror.naming import Names

IDENTITY: Final = "IdentityReplicationPolicy"
PREFIX: Final = "DefaultReplicationPolicy"

TOPICS_EXCLUDED: Final = r".*[\-\.]internal,.*\.replica,__.*"
GROUPS_EXCLUDED: Final = r"console-consumer-.*,connect-.*,__.*"
CONFIGS_EXCLUDED: Final = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,"
    r"min\.insync\.replicas"
)

#: How the names of settings end that have passwords or keys in them.
SECRET: Final = (".password", "sasl.jaas.config", "ssl.keystore.key")

#: Of Connect's workers, and of its plugins: nothing here has them.
CONNECT: Final = re.compile(
    r"(config|offset|status)\.storage\..*|tasks\.max|key\.converter.*|value\.converter.*|header\.converter.*|"
    r"dedicated\.mode\..*|listeners|rest\..*|metric.*|offset\.flush\..*|group\.id|name|plugin\.path|"
    r"sync\.topic\.acls\..*|topic\.filter\.class|group\.filter\.class|"
    r"config\.property\.filter\.class|consumer\.poll\.timeout\.ms|replication\.policy\.internal\..*"
)


class Filter:
    """Names that one of some expressions matches, and none of others does; both as whole names."""

    def __init__(self, wanted: str, excluded: str = "") -> None:
        """Expressions with commas between them. Raises ValueError for one that cannot be read."""
        self._wanted = _expression(wanted)
        self._excluded = _expression(excluded)

    def takes(self, name: str) -> bool:
        if self._wanted is None or self._wanted.fullmatch(name) is None:
            return False
        return self._excluded is None or self._excluded.fullmatch(name) is None


def _expression(text: str) -> re.Pattern[str] | None:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        try:
            re.compile(part)
        except re.error as error:
            raise ValueError(f"'{part}' is no regular expression: {error}") from None
    return re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None


def _truth(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"it is true or false, not '{text}'")
    return text.strip().lower() == "true"


def _number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise ValueError(f"it is a whole number, not '{text}'") from None
        if value < least:
            raise ValueError(f"it is at least {least}, not {value}")
        return value

    return read


def _number_or_none(text: str) -> int | None:
    return _number(1)(text) if text.strip() else None


def _choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(f"it is {' or '.join(choices)}, not '{text}'")
        return text.strip().lower()

    return read


def _policy(text: str) -> bool:
    name = text.strip().rpartition(".")[2]
    if name not in (IDENTITY, PREFIX):
        raise ValueError(f"it is {PREFIX} or {IDENTITY} here, not '{text}'")
    return name == IDENTITY


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a flow: its name, how it is read, its default as text, and older names."""

    name: str
    read: Callable[[str], Any]
    default: str
    aliases: tuple[str, ...] = ()


SETTINGS: Final = (
    Setting("enabled", _truth, "false"),
    Setting("topics", str, ".*"),
    Setting("topics.exclude", str, TOPICS_EXCLUDED, ("topics.blacklist",)),
    Setting("groups", str, ".*"),
    Setting("groups.exclude", str, GROUPS_EXCLUDED, ("groups.blacklist",)),
    Setting("config.properties.exclude", str, CONFIGS_EXCLUDED, ("config.properties.blacklist",)),
    Setting("replication.factor", _number(1), "2"),
    Setting("heartbeats.topic.replication.factor", _number_or_none, ""),
    Setting("checkpoints.topic.replication.factor", _number_or_none, ""),
    Setting("offset-syncs.topic.replication.factor", _number_or_none, ""),
    Setting("replication.policy.class", _policy, PREFIX),
    Setting("replication.policy.separator", str, "."),
    Setting("refresh.topics.enabled", _truth, "true"),
    Setting("refresh.topics.interval.seconds", _number(1), "600"),
    Setting("refresh.groups.enabled", _truth, "true"),
    Setting("refresh.groups.interval.seconds", _number(1), "600"),
    Setting("sync.topic.configs.enabled", _truth, "true"),
    Setting("sync.topic.configs.interval.seconds", _number(1), "600"),
    Setting("emit.heartbeats.enabled", _truth, "true"),
    Setting("emit.heartbeats.interval.seconds", _number(1), "1"),
    Setting("emit.checkpoints.enabled", _truth, "true"),
    Setting("emit.checkpoints.interval.seconds", _number(1), "60"),
    Setting("emit.offset-syncs.enabled", _truth, "true"),
    Setting("sync.group.offsets.enabled", _truth, "false"),
    Setting("sync.group.offsets.interval.seconds", _number(1), "60"),
    Setting("offset.lag.max", _number(0), "100"),
    Setting("offset-syncs.topic.location", _choice("source", "target"), "source"),
    Setting("exactly.once.source.support", _choice("disabled", "preparing", "enabled"), "disabled"),
)
BY_NAME: Final = {name: setting for setting in SETTINGS for name in (setting.name, *setting.aliases)}


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How a cluster is reached. `security` is None for plain text; `settings` are all that the file has of it."""

    alias: str
    servers: tuple[str, ...]
    security: Security | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """From one cluster to another. Times are in seconds; None: that is not done."""

    source: str
    target: str
    topics: Filter
    groups: Filter
    #: Which settings of topics are not copied.
    configs_excluded: Filter
    names: Names
    replication_factor: int
    #: Of the topics that the mirror keeps for itself.
    heartbeats_factor: int
    checkpoints_factor: int
    syncs_factor: int
    exactly_once: bool
    refresh_topics_s: int | None
    refresh_groups_s: int | None
    sync_configs_s: int | None
    heartbeats_s: int | None
    checkpoints_s: int | None
    sync_offsets_s: int | None
    offset_lag_max: int
    emits_syncs: bool
    syncs_in_target: bool

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """All that a file says."""

    clusters: Mapping[str, ClusterConfig]
    flows: tuple[FlowConfig, ...]

    @property
    def secrets(self) -> list[str]:
        """What must not be printed."""
        return [
            value
            for cluster in self.clusters.values()
            for name, value in cluster.settings.items()
            if name.endswith(SECRET) and value
        ]


def load(path: str | os.PathLike[str]) -> MirrorConfig:
    """Reads a file; one whose name ends with .toml as TOML.

    Raises:
        ConfigError: it cannot be read, or a setting is unknown or wrong; its line is named where there is one.
    """
    if Path(path).suffix.lower() == ".toml":
        return read(_toml(Path(path)), os.fspath(path))
    given: dict[str, str] = {}
    for entry in properties.read(path):
        given[entry.key] = entry.value
    return read(given, os.fspath(path))


def read(given: Mapping[str, str], where: str) -> MirrorConfig:
    """The configuration that settings make. `where` they come from is named in errors (ConfigError)."""
    aliases = [alias.strip() for alias in given.get("clusters", "").split(",") if alias.strip()]
    if not aliases:
        raise _wrong("clusters", where, "it names no cluster; say `clusters = A, B`")
    doubled = {alias for alias in aliases if aliases.count(alias) > 1}
    if doubled:
        raise _wrong("clusters", where, f"{', '.join(sorted(doubled))} is named twice")
    of_clusters: dict[str, dict[str, str]] = {alias: {} for alias in aliases}
    of_flows: dict[tuple[str, str], dict[str, str]] = {}
    of_all: dict[str, str] = {}
    for name, value in given.items():
        flow = re.match(r"([^\s.]+?)\s*->\s*([^\s.]+)\.(.+)", name)
        if name == "clusters":
            continue
        if flow is not None:
            source, target, setting = flow.groups()
            for alias in (source, target):
                if alias not in of_clusters:
                    raise _wrong(name, where, f"{alias} is not one of the clusters{hint(alias, aliases)}")
            if source == target:
                raise _wrong(name, where, "a cluster is not mirrored to itself")
            of_flows.setdefault((source, target), {})[_known(name, setting, where)] = value
        elif (alias := next((each for each in aliases if name.startswith(f"{each}.")), None)) is not None:
            of_clusters[alias][name.removeprefix(f"{alias}.")] = value
        elif not CONNECT.fullmatch(name):
            of_all[_known(name, name, where)] = value
    clusters = {alias: _cluster(alias, settings, where) for alias, settings in of_clusters.items()}
    flows = [
        _flow(source, target, {**of_all, **own}, clusters[target], where) for (source, target), own in of_flows.items()
    ]
    enabled = tuple(flow for flow in flows if flow is not None)
    if not enabled:
        raise _wrong("enabled", where, f"no flow is; say `{aliases[0]}->{aliases[-1]}.enabled = true`")
    return MirrorConfig(clusters, enabled)


def _wrong(name: str, where: str, what: str) -> ConfigError:
    return ConfigError(name, f"{name} in {where}: {what}")


def _known(name: str, setting: str, where: str) -> str:
    """The usual name of a flow's setting."""
    if setting in BY_NAME:
        return BY_NAME[setting].name
    if CONNECT.fullmatch(setting):
        return setting
    raise _wrong(name, where, f"there is no such setting{hint(setting, BY_NAME)}")


def _cluster(alias: str, settings: Mapping[str, str], where: str) -> ClusterConfig:
    servers = tuple(server.strip() for server in settings.get("bootstrap.servers", "").split(",") if server.strip())
    if not servers:
        raise _wrong(f"{alias}.bootstrap.servers", where, "it is missing")
    own = {name.removeprefix("consumer."): value for name, value in settings.items() if name.startswith("consumer.")}
    try:
        security = Security.of({**settings, **own})
    except ValueError as error:
        raise _wrong(alias, where, str(error)) from None
    return ClusterConfig(alias, servers, security, settings)


def _flow(source: str, target: str, given: Mapping[str, str], cluster: ClusterConfig, where: str) -> FlowConfig | None:
    values: dict[str, Any] = {}
    given = {"exactly.once.source.support": cluster.settings.get("exactly.once.source.support", "disabled"), **given}
    for setting in SETTINGS:
        text = given.get(setting.name, setting.default)
        try:
            values[setting.name] = setting.read(text)
        except ValueError as error:
            raise _wrong(f"{source}->{target}.{setting.name}", where, str(error)) from None
    if not values["enabled"]:
        return None

    def filtered(name: str, excluded: str = "") -> Filter:
        try:
            return Filter(values[name], values[excluded] if excluded else "")
        except ValueError as error:
            raise _wrong(f"{source}->{target}.{name}", where, str(error)) from None

    def every(name: str) -> int | None:
        return int(values[f"{name}.interval.seconds"]) if values[f"{name}.enabled"] else None

    def factor(name: str) -> int:
        return int(values[f"{name}.topic.replication.factor"] or values["replication.factor"])

    return FlowConfig(
        source,
        target,
        topics=filtered("topics", "topics.exclude"),
        groups=filtered("groups", "groups.exclude"),
        configs_excluded=filtered("config.properties.exclude"),
        names=Names(values["replication.policy.separator"], values["replication.policy.class"]),
        replication_factor=values["replication.factor"],
        heartbeats_factor=factor("heartbeats"),
        checkpoints_factor=factor("checkpoints"),
        syncs_factor=factor("offset-syncs"),
        exactly_once=values["exactly.once.source.support"] == "enabled",
        refresh_topics_s=every("refresh.topics"),
        refresh_groups_s=every("refresh.groups"),
        sync_configs_s=every("sync.topic.configs"),
        heartbeats_s=every("emit.heartbeats"),
        checkpoints_s=every("emit.checkpoints"),
        sync_offsets_s=every("sync.group.offsets"),
        offset_lag_max=values["offset.lag.max"],
        emits_syncs=values["emit.offset-syncs.enabled"],
        syncs_in_target=values["offset-syncs.topic.location"] == "target",
    )


def _toml(path: Path) -> dict[str, str]:
    """TOML's tables as dotted names, lists with commas."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("", f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("", f"{path}: {error}") from None
    return dict(_flat("", document))


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
        elif isinstance(value, list):
            yield name, ",".join(_text(each) for each in value)
        else:
            yield name, _text(value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
