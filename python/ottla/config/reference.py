"""Writes `docs/settings.md` from the table: `python -m ottla.config.reference` (which `make docs` runs)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.config.documentation import broker_documentation, topic_documentation
from ottla.config.effective import EFFECTIVE, EFFECTIVE_OF_TOPICS, PARTIAL
from ottla.config.security import HARMLESS, INERT, OF_AUTHORIZER, REFUSED
from ottla.config.table import (
    ALONE_DEFAULTS,
    BROKER_SETTINGS,
    DYNAMIC_ONLY,
    OUR_DEFAULTS,
    OURS,
    SECTIONS,
    TOPIC,
    Setting,
    TopicSetting,
)
from ottla.config.values import Value, write

HEAD = """\
# Settings

This page is written by `make docs` from the table in `python/ottla/config/table.py`; a test compares the two.

Every setting of Apache Kafka 2.7 is known by its own name, with Kafka's type, default and range, so a
`server.properties` of Kafka's ZooKeeper mode works (one for KRaft mode is refused):
`ottla serve --config server.properties --set NAME=VALUE`. An unknown name in a file is a warning that says the nearest
name; with `--set` and for topics it is an error. An invalid value is always an error that says the range.

**Not every setting does something here.** What has an effect in this version is set in **bold**. The others are
taken, shown by DescribeConfigs, and change nothing: some belong to parts that Ottla does not have yet
(delegation tokens, Kerberos), some to Java. What asks for protection that Ottla does not have is
refused: [Settings of security](#settings-of-security).

*Change* says how a setting may be changed: `start` needs a restart, `broker` can be changed for one running broker,
`cluster` also for all at once.
"""

DEFAULTS = """\
## Defaults that differ from Kafka's, or surprise

The first differ, the next are Kafka's own and surprise people, the last are of settings that only Ottla has. What the
file `config/server.properties` of Kafka sets is no default: a broker without a file is not as one with it. The
defaults of our clients are in [client.md](client.md) and [spark.md](spark.md).
"""

SURPRISES: Final = {
    "group.initial.rebalance.delay.ms": (
        "the same; its file sets `0`",
        "a new group reads nothing for three seconds: it waits for more members before it shares out partitions",
    ),
    "broker.id": (
        "the same; its file sets `0`",
        "ids that are made up begin above `reserved.broker.max.id`: the first broker is 1001, and keeps the number",
    ),
    "auto.create.topics.enable": ("the same", "a misspelt name makes a topic"),
    "num.partitions": (
        "the same",
        "a topic that comes into being by itself has one partition, so one reader in each group",
    ),
    "default.replication.factor": (
        "the same",
        "in a cluster, too, a topic that comes into being by itself has one copy",
    ),
    "min.insync.replicas": ("the same", "in a cluster, too, acks=all may have waited for the leader alone"),
    "log.retention.hours": ("the same", "records are deleted after a week, read or not"),
    "log.retention.check.interval.ms": ("the same", "what is old is deleted up to five minutes later"),
    "log.segment.delete.delay.ms": ("the same", "the disk has its room back a minute after that"),
    "offsets.retention.minutes": (
        "the same",
        "a group that has had no members for a week has no offsets, and begins where its client says",
    ),
}
"""Defaults that are Kafka's and are met as if they were faults: what Kafka has, and what people see."""

SECURITY = """\
## Settings of security

A broker does not start with a setting that asks for protection which Ottla does not have, and a running broker is
not given one. Values that ask for nothing are taken: `false`, and empty ones. To start all the same, name each such
setting in `security.settings.ignored`, for instance
`security.settings.ignored=principal.builder.class,create.topic.policy.class.name`; each is then a warning at every
start. Settings without effect are a warning. All of this holds for the forms of one listener as well
(`listener.name.LISTENER.principal.builder.class`).
"""


AUTHORIZER = """
## Settings of the authorizer

With `authorizer.class.name=kafka.security.authorizer.AclAuthorizer`, or the older name
`kafka.security.auth.SimpleAclAuthorizer`, there are two more settings, which take a restart to change:
[acls.md](acls.md).
"""

DEFAULTS_OF_AUTHORIZER: Final = {"super.users": "empty", "allow.everyone.if.no.acl.found": "`false`"}


def render() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_differences(), *_security(), *_brokers(), *_topics()])


def _differences() -> Iterator[str]:
    yield DEFAULTS
    yield "| setting | here | in Kafka | because, or what follows |"
    yield "|---|---|---|---|"
    for name, (default, reason) in OUR_DEFAULTS.items():
        kafka = "must be given" if name == "zookeeper.connect" else _shown(BROKER_SETTINGS[name].kafka_default)
        yield f"| `{name}` | {_shown(default)} | {kafka} | {reason} |"
    for name, default in ALONE_DEFAULTS.items():
        kafka = _shown(BROKER_SETTINGS[name].default)
        here = f"{_shown(default)} without ZooKeeper, else {kafka}"
        yield f"| `{name}` | {here} | {kafka}; its file sets `1` | a broker without ZooKeeper is alone |"
    for name, (kafka, reason) in SURPRISES.items():
        yield f"| `{name}` | {_shown(BROKER_SETTINGS[name].default)} | {kafka} | {reason} |"
    for setting in BROKER_SETTINGS.values():
        if setting.is_ours:
            words = broker_documentation(setting.name)
            yield f"| `{setting.name}` | {_shown(setting.default)} | no such setting | {words} |"
    yield ""


def _security() -> Iterator[str]:
    yield SECURITY
    yield "| setting | what happens | because |"
    yield "|---|---|---|"
    for name, reason in sorted(REFUSED.items()):
        taken = " and ".join(f"`{value}`" for value in HARMLESS.get(name, ()))
        yield f"| `{name}` | refused{taken and f', but for {taken}'} | {reason} |"
    for names, reason in INERT:
        shown = ", ".join(f"`{name}`" for name in names)
        yield f"| {shown} | warning | {reason} |"
    yield AUTHORIZER
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    for name, meaning in OF_AUTHORIZER.items():
        yield f"| **`{name}`** | {DEFAULTS_OF_AUTHORIZER[name]} | {meaning} |"
    yield ""


def _brokers() -> Iterator[str]:
    for title, settings in {**SECTIONS, "Ottla's own": OURS}.items():
        yield f"## {title}\n"
        yield from _table(BROKER_SETTINGS[setting.name] for setting in settings)
    yield "## Only while brokers run\n"
    yield "No file can hold these; AlterConfigs sets them.\n"
    yield from _table(DYNAMIC_ONLY)


def _table(settings: Iterable[Setting]) -> Iterator[str]:
    yield "| setting | type | default | possible | change | meaning |"
    yield "|---|---|---|---|---|---|"
    for setting in settings:
        change = {"read-only": "start", "per-broker": "broker", "cluster-wide": "cluster"}[setting.update.value]
        yield _row(setting, EFFECTIVE, change, broker_documentation(setting.name))
    yield ""


_NOT_UNDERSTOOD = """\
### Settings that are not understood

The coordination tree may hold what no command of this release writes: settings of a later Kafka, or of a hand.

- A name that is not known has no effect. It stays in the tree, a warning names it, and DescribeConfigs lists it without
  its value. `--unset` takes it away.
- A topic with a value that is not understood is served, with the broker's value for that setting. **Nothing of it is
  deleted or compacted** until the value is mended, whatever the other settings say. The log, `ottla doctor` and the
  metric `ottla_topics_whose_settings_are_not_understood` tell of it.
- The same holds for all topics of a broker where a setting of `/config/brokers` for logs (`log.*`) is not understood.
- A change that comes while a broker runs, and holds a value that is not understood, has no effect as a whole.
"""


def _topics() -> Iterator[str]:
    yield "## Settings of topics\n"
    yield "`ottla topic create NAME --set retention.ms=3600000`; `ottla topic alter NAME --set ... --unset ...`.\n"
    yield _NOT_UNDERSTOOD
    yield "| setting | type | default | possible | the broker's setting | meaning |"
    yield "|---|---|---|---|---|---|"
    for setting in TOPIC:
        broker = f"`{setting.broker_name}`" if setting.broker_name else "none"
        yield _row(setting, EFFECTIVE_OF_TOPICS, broker, topic_documentation(setting.name))
    yield ""


def _row(setting: Setting | TopicSetting, effective: frozenset[str], change: str, words: str) -> str:
    name = f"**`{setting.name}`**" if setting.name in effective else f"`{setting.name}`"
    possible = str(setting.valid) if setting.valid else ""
    topic_name = next((topic.name for topic in TOPIC if topic.broker_name == setting.name), setting.name)
    if partly := PARTIAL.get(topic_name):
        words += f" **In this version** {partly}"
    cells = (name, setting.type.label, _shown(setting.default), possible, change, words)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: Value) -> str:
    text = write(value)
    if text is None:
        return "not set"
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    print(render(), end="")
