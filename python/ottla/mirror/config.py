"""The file of `ottla mirror`: MirrorMaker 2's properties, or TOML with the same keys.

    clusters = A, B
    A.bootstrap.servers = a1:9092
    B.bootstrap.servers = b1:9092
    A->B.enabled = true
    A->B.topics = orders.*

A setting of a flow (`A->B.topics`) wins over the same for all flows (`topics`). Settings of Java's clients are those of
connections (`CLIENT`), and are read where MirrorMaker 2 reads them; the later of these win:

| reading from A                         | writing to B                           |
|----------------------------------------|----------------------------------------|
| `security.protocol` for all clusters   | the same                               |
| `A.admin.security.protocol`            | `B.admin.security.protocol`            |
| `A.security.protocol`                  | `B.security.protocol`                  |
| `A.consumer.security.protocol`         | `B.producer.security.protocol`         |
| `A->B.source.cluster.`                 | `A->B.target.cluster.`                 |
| `A->B.consumer.`                       | `A->B.producer.`                       |
| `A->B.source.consumer.`                | `A->B.target.producer.`                |

What has no effect, because it belongs to Kafka Connect or tunes a client, is said (`MirrorConfig.unused`). A file of
MirrorMaker 2 is refused only where ignoring it would mirror something else, or without what protects it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.client.security import NAMES, NEAR, Security
from ottla.config import properties
from ottla.config.nearest import hint, is_near, nearest
from ottla.config.values import ConfigError
from ottla.mirror.expressions import Filter
from ottla.mirror.naming import Names
from ottla.mirror.providers import Providers, is_of_providers

IDENTITY: Final = "IdentityReplicationPolicy"
PREFIX: Final = "DefaultReplicationPolicy"

TOPICS_EXCLUDED: Final = r".*[\-\.]internal,.*\.replica,__.*"
GROUPS_EXCLUDED: Final = r"console-consumer-.*,connect-.*,__.*"
CONFIGS_EXCLUDED: Final = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,"
    r"min\.insync\.replicas"
)

CLIENT_ID: Final = "ottla-mirror"

#: How the names of settings end that have passwords or keys in them.
SECRET: Final = (".password", ".client.secret", "sasl.jaas.config", "ssl.keystore.key")

_OF_CONNECT: Final = "it is of Kafka Connect, which is not needed here"
_PLUGIN: Final = "it names a Java class, which cannot be loaded here"
#: Settings that have no effect, and why. The first that matches a whole name says it.
UNUSED: Final = tuple(
    (re.compile(names), why)
    for names, why in (
        (r"(topic|group|config\.property)\.filter\.class|forwarding\.admin\.class|metric\.reporters", _PLUGIN),
        (r"sync\.topic\.acls\..*", "rights are not copied"),
        (r"tasks\.max", "an instance copies all of its share in one task"),
        (r"(consumer\.poll|admin)\.timeout\.ms", "how long is waited is not to be set"),
        (r"replication\.policy\.internal\..*", "the mirror's own topics have dots in their names"),
        (
            r"(config|offset|status)\.storage\..*|(key|value|header)\.converter.*|dedicated\.mode\..*|listeners.*|"
            r"rest\..*|admin\.listeners.*|metrics\..*|offset\.flush\..*|group\.id|name|connector\.class|plugin\..*|"
            r"tasks?\..*|workers?\..*|errors\..*|transforms.*|predicates.*|topic\.creation\..*|(source|target)\.cluster\."
            r"alias|offsets\.storage\..*|transaction\.boundary.*|exactly\.once\.support|internal\..*converter.*",
            _OF_CONNECT,
        ),
    )
)
_MISSPELLED: Final = 0.8
"""How alike a name must be to one that has an effect to be an error: without it something else would be mirrored."""

#: Of the whole file, and not of MirrorMaker 2: as brokers have it.
METRICS: Final = "metrics.listener"
#: Settings of a Java client that have an effect, beside `auto.offset.reset` of one that reads.
CLIENT: Final = ("bootstrap.servers", "client.id")
_SECURED: Final = ("security.", "ssl.", "sasl.")
_READING: Final = ("admin.", "", "consumer.")
_WRITING: Final = ("admin.", "", "producer.")
_FLOW_READING: Final = ("source.cluster.", "consumer.", "source.consumer.")
_FLOW_WRITING: Final = ("target.cluster.", "producer.", "target.producer.")
_FLOW_CLIENTS: Final = re.compile(r"((source|target)\.)?(consumer|producer|admin)\..*|(source|target)\.cluster\..*")
#: MirrorMaker 2's default, and what Java's clients understand by the others.
STARTS: Final = ("earliest", "latest", "none")


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


def _offsets(text: str) -> int:
    """MirrorMaker 2 takes less than 0 for 0."""
    return max(0, _number(-(1 << 62))(text))


def _interval(text: str) -> int | None:
    """Seconds; None for never, which MirrorMaker 2 says by a negative number."""
    value = _number(-(1 << 62))(text)
    if value == 0:
        raise ValueError("it is at least 1, or -1 for never, not 0")
    return value if value > 0 else None


def _factor(text: str) -> int:
    """-1 is the default of the cluster's brokers."""
    value = _number(-1)(text)
    if value == 0:
        raise ValueError("it is at least 1, or -1 for the brokers' default, not 0")
    return value


def _factor_or_none(text: str) -> int | None:
    return _factor(text) if text.strip() else None


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
    Setting("replication.factor", _factor, "2"),
    Setting("internal.topic.replication.factor", _factor_or_none, ""),
    Setting("heartbeats.topic.replication.factor", _factor_or_none, ""),
    Setting("checkpoints.topic.replication.factor", _factor_or_none, ""),
    Setting("offset-syncs.topic.replication.factor", _factor_or_none, ""),
    Setting("replication.policy.class", _policy, PREFIX),
    Setting("replication.policy.separator", str, "."),
    Setting("refresh.topics.enabled", _truth, "true"),
    Setting("refresh.topics.interval.seconds", _interval, "600"),
    Setting("refresh.groups.enabled", _truth, "true"),
    Setting("refresh.groups.interval.seconds", _interval, "600"),
    Setting("sync.topic.configs.enabled", _truth, "true"),
    Setting("sync.topic.configs.interval.seconds", _interval, "600"),
    Setting("emit.heartbeats.enabled", _truth, "true"),
    Setting("emit.heartbeats.interval.seconds", _interval, "1"),
    Setting("heartbeats.replication.enabled", _truth, "true"),
    Setting("emit.checkpoints.enabled", _truth, "true"),
    Setting("emit.checkpoints.interval.seconds", _interval, "60"),
    Setting("emit.offset-syncs.enabled", _truth, "true"),
    Setting("sync.group.offsets.enabled", _truth, "false"),
    Setting("sync.group.offsets.interval.seconds", _interval, "60"),
    Setting("offset.lag.max", _offsets, "100"),
    Setting("offset-syncs.topic.location", _choice("source", "target"), "source"),
    Setting("exactly.once.source.support", _choice("disabled", "preparing", "enabled"), "disabled"),
)
#: Those that are lists of expressions.
EXPRESSIONS: Final = ("topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude")
BY_NAME: Final = {name: setting for setting in SETTINGS for name in (setting.name, *setting.aliases)}


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How a cluster is reached. `security` is None for plain text; `start` is where topics are read that were not yet,
    or None where that is an error.
    """

    alias: str
    servers: tuple[str, ...]
    security: Security | None
    client_id: str = CLIENT_ID
    start: str | None = "earliest"


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """From one cluster to another. Times are in seconds; None: that is not done."""

    source: str
    target: str
    reads: ClusterConfig
    writes: ClusterConfig
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
    #: Whether heartbeats are mirrored whatever `topics` says.
    takes_heartbeats: bool
    checkpoints_s: int | None
    sync_offsets_s: int | None
    offset_lag_max: int
    emits_syncs: bool
    syncs_in_target: bool

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """All that a file says. `clusters` are as they are read from; a flow says how it reaches its own."""

    clusters: Mapping[str, ClusterConfig]
    flows: tuple[FlowConfig, ...]
    #: A sentence for each setting that has no effect.
    unused: tuple[str, ...] = ()
    #: What must not be printed.
    secrets: tuple[str, ...] = ()
    #: Where metrics are served, `HOST:PORT`; empty for nowhere.
    metrics_listener: str = ""


def load(path: str | os.PathLike[str]) -> MirrorConfig:
    """Reads a file; one whose name ends with .toml as TOML.

    Raises:
        ConfigError: it cannot be read, or a setting is misspelled or wrong; it is named.
    """
    if Path(path).suffix.lower() == ".toml":
        return read(_toml(Path(path)), os.fspath(path))
    given: dict[str, str] = {}
    for entry in properties.read(path):
        given[entry.key] = entry.value
    return read(given, os.fspath(path))


def read(given: Mapping[str, str], where: str) -> MirrorConfig:
    """The configuration that settings make. `where` they come from is named in errors (ConfigError)."""
    return _Reading(given, where).config()


def _is_unused(setting: str) -> bool:
    return any(names.fullmatch(setting) for names, _ in UNUSED)


def _wrong(name: str, where: str, what: str) -> ConfigError:
    return ConfigError(name, f"{name} in {where}: {what}")


def _other_kind(given: Mapping[str, str]) -> str:
    """The beginning of a sentence about a file without clusters that is one of other programs, or nothing."""
    first = next(iter(given), "")
    if first[:1] in ("{", "[") or "-" in given or "---" in given:
        return "it is not written as NAME = VALUE (JSON and YAML are not read, TOML if the name ends with .toml); "
    if "connector.class" in given:
        return "it is the file of a connector for Kafka Connect, and not that of connect-mirror-maker.sh; "
    if given.keys() & {"process.roles", "broker.id", "node.id", "log.dirs"}:
        return "it is a broker's file (server.properties); "
    if given.keys() & {"bootstrap.servers", "group.id", "key.converter", "consumer.config"}:
        return "it is a client's file, or that of a worker of Kafka Connect; "
    return ""


class _Reading:
    """The settings of one file, by what they are about."""

    def __init__(self, given: Mapping[str, str], where: str) -> None:
        self._where = where
        self._unused: list[str] = []
        self._secrets: list[str] = []
        self._providers = Providers(given)
        self._given = {name: self._value(name, value) for name, value in given.items()}
        self._aliases = [alias.strip() for alias in self._given.get("clusters", "").split(",") if alias.strip()]
        #: Of two aliases that a name may begin with, the longer is meant.
        self._by_length = sorted(self._aliases, key=len, reverse=True)
        self._of_clusters: dict[str, dict[str, str]] = {alias: {} for alias in self._aliases}
        self._of_flows: dict[tuple[str, str], dict[str, str]] = {}
        #: Of clients, in a flow's name.
        self._of_clients: dict[tuple[str, str], dict[str, str]] = {}
        self._of_all: dict[str, str] = {}
        self._of_all_clients: dict[str, str] = {}

    def config(self) -> MirrorConfig:
        where = self._where
        if not self._aliases:
            raise _wrong("clusters", where, f"{_other_kind(self._given)}it names no cluster; say `clusters = A, B`")
        doubled = {alias for alias in self._aliases if self._aliases.count(alias) > 1}
        if doubled:
            raise _wrong("clusters", where, f"{', '.join(sorted(doubled))} is named twice")
        for name, value in self._given.items():
            self._sort(name, value)
        clusters = {alias: self._cluster(alias, _READING, {}) for alias in self._aliases}
        flows = [self._flow(source, target, own) for (source, target), own in self._of_flows.items()]
        enabled = tuple(flow for flow in flows if flow is not None)
        if not enabled:
            raise _wrong("enabled", where, f"no flow is; say `{self._aliases[0]}->{self._aliases[-1]}.enabled = true`")
        return MirrorConfig(clusters, enabled, tuple(self._unused), tuple(self._secrets), self._given.get(METRICS, ""))

    def _value(self, name: str, value: str) -> str:
        """The value with what providers give."""
        if is_of_providers(name):
            return value
        try:
            value, found = self._providers.read(value)
        except ConfigError as error:
            raise _wrong(name, self._where, str(error)) from None
        if name.endswith(SECRET):
            self._secrets += [each for each in dict.fromkeys([value, *found]) if each]
        return value

    def _sort(self, name: str, value: str) -> None:
        """Puts a setting where it belongs."""
        if is_of_providers(name):
            if name in self._providers.parameters:
                self._say_unused(name, "providers have no parameters here")
        elif value.startswith("->"):
            raise _wrong(name, self._where, f"a blank ends the name of a setting; write `{name}->B.topics = ...`")
        elif (flow := self._flow_of(name)) is not None:
            source, target, setting = flow
            if source == target:
                raise _wrong(name, self._where, "a cluster is not mirrored to itself")
            own = self._of_flows.setdefault((source, target), {})
            if (found := BY_NAME.get(setting)) is not None:
                own[found.name] = value
            elif self._is_of_flows_clients(name, setting):
                self._of_clients.setdefault((source, target), {})[setting] = value
            else:
                self._refuse_or_say_unused(name, setting)
        elif (alias := next((each for each in self._by_length if name.startswith(f"{each}.")), None)) is not None:
            self._sort_of_cluster(name, alias, name.removeprefix(f"{alias}."), value)
        elif name.startswith(_SECURED) or name == "bootstrap.servers":
            self._of_all_clients[name] = value
        elif (found := BY_NAME.get(name)) is not None:
            self._of_all[found.name] = value
        elif name.startswith(("consumer.", "producer.", "admin.")) and not _is_unused(name):
            self._say_unused(name, f"as in MirrorMaker 2; say it of a cluster, `{self._aliases[0]}.{name}`, or a flow")
        elif name not in ("clusters", METRICS):
            self._refuse_or_say_unused(name, name)

    def _flow_of(self, name: str) -> tuple[str, str, str] | None:
        """Source, target and setting that a name is made of."""
        if "->" not in name:
            return None
        pair, _, _ = name.partition("->")
        for source in self._by_length:
            if pair.strip() != source:
                continue
            rest = name.partition("->")[2].lstrip()
            for target in self._by_length:
                if rest.startswith(f"{target}."):
                    return source, target, rest.removeprefix(f"{target}.")
        words = re.fullmatch(r"(.+?)\s*->\s*([^.]+)\..*", name)
        for alias in words.groups() if words is not None else ():
            if alias not in self._of_clusters:
                raise _wrong(name, self._where, f"{alias} is not one of the clusters{hint(alias, self._aliases)}")
        raise _wrong(name, self._where, "it is no setting of a flow, such as `A->B.topics`")

    def _sort_of_cluster(self, name: str, alias: str, setting: str, value: str) -> None:
        client = re.sub(r"^(admin|consumer|producer)\.", "", setting)
        if client.startswith(_SECURED) or client in (*CLIENT, "auto.offset.reset"):
            if client == "auto.offset.reset" and setting != f"consumer.{client}":
                self._say_unused(name, f"only consumers have it; say `{alias}.consumer.{client}`")
                return
        elif setting != "exactly.once.source.support":
            self._refuse_or_say_unused(name, setting, of_client=True)
            return
        self._of_clusters[alias][setting] = value

    def _is_of_flows_clients(self, name: str, setting: str) -> bool:
        """Whether it is a setting of a client that has an effect."""
        if _FLOW_CLIENTS.fullmatch(setting) is None or _is_unused(setting):
            return False
        prefix = next((each for each in (*_FLOW_READING, *_FLOW_WRITING) if setting.startswith(each)), None)
        if prefix is None:
            return False
        client = setting.removeprefix(prefix)
        takes_start = prefix in ("consumer.", "source.consumer.")
        return client.startswith(_SECURED) or client in CLIENT or (takes_start and client == "auto.offset.reset")

    def _refuse_or_say_unused(self, name: str, setting: str, *, of_client: bool = False) -> None:
        """Raises ConfigError for what is nearly a setting that has an effect."""
        for names, why in UNUSED:
            if names.fullmatch(setting):
                self._say_unused(name, why)
                return
        client = re.sub(r"^((source|target)\.(cluster\.)?)?((admin|consumer|producer)\.)?", "", setting)
        near = nearest(client, NAMES)
        if near is not None and is_near(client, near, NEAR):
            # Without it a connection would not be as safe as it is meant to be.
            raise _wrong(name, self._where, f"there is no such setting; did you mean {near}?")
        if not of_client and _FLOW_CLIENTS.fullmatch(setting) is None:
            near = nearest(setting, BY_NAME)
            if near is not None and is_near(setting, near, _MISSPELLED):
                raise _wrong(name, self._where, f"there is no such setting; did you mean {near}?")
            self._say_unused(name, "it is not known here")
            return
        self._say_unused(name, "of a client's settings only those of its connections have one")

    def _say_unused(self, name: str, why: str) -> None:
        self._unused.append(f"{name} in {self._where} has no effect: {why}")

    def _cluster(self, alias: str, prefixes: tuple[str, ...], own: Mapping[str, str]) -> ClusterConfig:
        """How a cluster is reached, by its settings with these prefixes, the last of which win, and by a flow's own."""
        settings = dict(self._of_all_clients)
        given = self._of_clusters[alias]
        others = ("admin.", "consumer.", "producer.")
        for prefix in prefixes:
            settings |= {
                name.removeprefix(prefix): value
                for name, value in given.items()
                if (name.startswith(prefix) if prefix else not name.startswith(others))
            }
        settings |= own
        servers = tuple(server.strip() for server in settings.get("bootstrap.servers", "").split(",") if server.strip())
        if not servers:
            raise _wrong(f"{alias}.bootstrap.servers", self._where, "it is missing")
        try:
            security = Security.of(settings)
        except ValueError as error:
            raise _wrong(alias, self._where, str(error)) from None
        start = settings.get("auto.offset.reset", STARTS[0]).strip().lower()
        if start not in STARTS:
            raise _wrong(
                f"{alias}.consumer.auto.offset.reset", self._where, f"it is {' or '.join(STARTS)}, not '{start}'"
            )
        client_id = settings.get("client.id", "").strip() or CLIENT_ID
        return ClusterConfig(alias, servers, security, client_id, None if start == "none" else start)

    def _flow(self, source: str, target: str, own: Mapping[str, str]) -> FlowConfig | None:
        where = self._where
        values: dict[str, Any] = {}
        of_target = self._of_clusters[target].get("exactly.once.source.support", "disabled")
        given = {"exactly.once.source.support": of_target, **self._of_all, **own}
        for setting in SETTINGS:
            text = given.get(setting.name, setting.default)
            try:
                values[setting.name] = setting.read(text)
            except ValueError as error:
                raise _wrong(f"{source}->{target}.{setting.name}", where, str(error)) from None
        if not values["enabled"]:
            return None
        for name in EXPRESSIONS:
            try:
                Filter(values[name])
            except ValueError as error:
                raise _wrong(f"{source}->{target}.{name}", where, str(error)) from None

        def every(name: str) -> int | None:
            return values[f"{name}.interval.seconds"] if values[f"{name}.enabled"] else None

        def factor(name: str) -> int:
            return int(
                values[f"{name}.topic.replication.factor"]
                or values["internal.topic.replication.factor"]
                or values["replication.factor"]
            )

        clients = self._of_clients.get((source, target), {})
        names = Names(
            values["replication.policy.separator"], values["replication.policy.class"], tuple(self._by_length)
        )
        return FlowConfig(
            source,
            target,
            reads=self._cluster(source, _READING, _own(clients, _FLOW_READING)),
            writes=self._cluster(target, _WRITING, _own(clients, _FLOW_WRITING)),
            topics=Filter(values["topics"], values["topics.exclude"]),
            groups=Filter(values["groups"], values["groups.exclude"]),
            configs_excluded=Filter(values["config.properties.exclude"]),
            names=names,
            replication_factor=values["replication.factor"],
            heartbeats_factor=factor("heartbeats"),
            checkpoints_factor=factor("checkpoints"),
            syncs_factor=factor("offset-syncs"),
            exactly_once=values["exactly.once.source.support"] == "enabled",
            refresh_topics_s=every("refresh.topics"),
            refresh_groups_s=every("refresh.groups"),
            sync_configs_s=every("sync.topic.configs"),
            heartbeats_s=every("emit.heartbeats"),
            takes_heartbeats=values["heartbeats.replication.enabled"],
            checkpoints_s=every("emit.checkpoints"),
            sync_offsets_s=every("sync.group.offsets"),
            offset_lag_max=values["offset.lag.max"],
            emits_syncs=values["emit.offset-syncs.enabled"],
            syncs_in_target=values["offset-syncs.topic.location"] == "target",
        )


def _own(clients: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """A flow's settings of one of its clients; those with the last prefix win."""
    return {
        name.removeprefix(prefix): value
        for prefix in prefixes
        for name, value in clients.items()
        if name.startswith(prefix)
    }


def _toml(path: Path) -> dict[str, str]:
    """TOML's tables as dotted names, lists with commas."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("", f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError("", f"{path}: it is not TOML, which is text in UTF-8: byte {error.start} is not") from None
    except tomllib.TOMLDecodeError as error:
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
