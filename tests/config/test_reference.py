"""`docs/settings.md` is in step with the table, and what is marked as effective with what the code reads."""

import re
import runpy
from pathlib import Path

import ottla
from ottla.client import tokens
from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig, TopicConfig, effective, reference
from ottla.config.table import ALONE_DEFAULTS, DYNAMIC_SETTINGS, OUR_DEFAULTS, OURS

PACKAGE = Path(ottla.__file__).parent
PROJECT = Path(__file__).parents[2]

# The properties of BrokerConfig and TopicConfig that stand for settings.
PROPERTIES = {
    "advertised_listeners": {"advertised.listeners", "advertised.host.name", "advertised.port"},
    "listeners": {"listeners", "host.name", "port", "listener.security.protocol.map"},
    "inter_broker_protocol": {"inter.broker.protocol.version"},
    "inter_broker_listener": {"inter.broker.listener.name", "security.inter.broker.protocol"},
    "data_directories": {"log.dirs", "log.dir"},
    "zookeeper": {"zookeeper.connect"},
    "listeners_between_brokers": {"control.plane.listener.name", "inter.broker.accepted.listener.names"},
    "queued_bytes_max": {"queued.max.request.bytes"},
    "zookeeper_connection_timeout_ms": {"zookeeper.connection.timeout.ms"},
    "connections_per_ip_overrides": {"max.connections.per.ip.overrides"},
    "password_encoder": {
        "password.encoder.cipher.algorithm",
        "password.encoder.iterations",
        "password.encoder.key.length",
        "password.encoder.keyfactory.algorithm",
        "password.encoder.secret",
    },
    "old_password_encoder": {"password.encoder.old.secret"},
    "is_compacted": {"cleanup.policy"},
    "is_deleted": {"cleanup.policy"},
    "is_log_append_time": {"message.timestamp.type"},
}


def names_in_code() -> set[str]:
    """The names of settings that the package reads, outside of config itself."""
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        if room not in ("config", "cli", "classic", "client", "doctor", "mirror", "wire", "pipelines", "spark"):
            text = file.read_text()
            found |= {name for name in re.findall(r'"([a-z][a-zA-Z.]+)"', text) if "." in name}
            for name, settings in PROPERTIES.items():
                if re.search(rf"\.{name}\b", text):
                    found |= settings
    return found & (BROKER_SETTINGS.keys() | DYNAMIC_SETTINGS.keys() | TOPIC_SETTINGS.keys())


def test_the_page_is_in_step_with_the_table() -> None:
    assert (PROJECT / "docs" / "settings.md").read_text() == reference.render(), "run `make docs`"


def test_each_default_stands_once_in_the_table_of_those_to_know() -> None:
    (table,) = re.findall(r"^## Defaults that .*?(?=^## )", reference.render(), re.DOTALL | re.MULTILINE)
    named = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    ours = [setting.name for setting in OURS]
    assert named == [*OUR_DEFAULTS, *ALONE_DEFAULTS, *reference.SURPRISES, *ours]
    assert len(set(named)) == len(named)


def test_the_compatibility_page_is_in_step_with_what_is_served() -> None:
    page = runpy.run_path(str(PROJECT / "docs" / "compatibility.py"))
    assert (PROJECT / "docs" / "compatibility.md").read_text() == page["render"](), "run `make docs`"
    assert page["SUPPORTED"].keys() == page["KAFKA"].keys() | page["LATER"].keys()


def test_what_the_code_reads_is_marked_as_effective() -> None:
    # Read in config itself, by `ottla serve`, and the last by a constant.
    checked = {"authorizer.class.name", "security.settings.ignored", "logging.format", "sasl.jaas.config"}
    # By their names in the client's table.
    checked |= {tokens.HANDLER, *tokens.NAMES}
    marked = effective._READ | effective._DERIVED | effective.EFFECTIVE_OF_TOPICS
    read = names_in_code() | checked
    hint = "in python/ottla/config/effective.py; then run `make docs`"
    assert sorted(read - marked) == [], f"these are read: add them {hint}"
    assert sorted(marked - read) == [], f"nothing reads these: remove them {hint}"


def test_the_properties_exist() -> None:
    assert all(hasattr(BrokerConfig, name) or hasattr(TopicConfig, name) for name in PROPERTIES)


def test_settings_without_effect_are_named_at_start() -> None:
    (warning,) = BrokerConfig.load(None, {"num.io.threads": "4", "broker.id": "1"}).warnings
    assert warning == "without effect in this version of Ottla: num.io.threads"
