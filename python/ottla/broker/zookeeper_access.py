"""Who a broker is to ZooKeeper, by which connection, and whether its nodes are closed to others.

User and password (SASL's DIGEST-MD5) stand where Kafka's stand: in the entry `Client` of the JAAS file that
`KAFKA_OPTS` names, or in the entry that `-Dzookeeper.sasl.clientconfig=NAME` names. `zookeeper.sasl.jaas.config` in the
broker's file has the same in one line, and is stronger. A certificate is shown by the settings `zookeeper.ssl.*`.

Source: KafkaServer.initZkClient, JaasUtils.isZkSaslEnabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker import zookeeper_tls
from ottla.client import jaas, java_options
from ottla.config import ConfigError
from ottla.coordination.digest_md5 import User

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

SETTING: Final = "zookeeper.sasl.jaas.config"
SECURES: Final = "zookeeper.set.acl"
MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
EXAMPLE: Final = f'{MODULE} required username="..." password="...";'
NOBODY: Final = "nobody"
_KERBEROS: Final = ("com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule")
_ENTRY: Final = "zookeeper.sasl.clientconfig"
_ALLOWED: Final = "zookeeper.sasl.client"


class Access(NamedTuple):
    """How a tree in ZooKeeper is opened: `ZooKeeperTree.connect` takes the fields by their names."""

    encrypt: zookeeper_tls.Encryption | None
    user: User | None
    #: True if the nodes that are made have access rules.
    secures: bool

    @property
    def is_somebody(self) -> bool:
        """True if ZooKeeper is told who comes."""
        return self.who != NOBODY

    @property
    def who(self) -> str:
        """In words."""
        if self.user is not None:
            return f"the user {self.user.name}"
        return "the owner of its certificate" if self.encrypt and self.encrypt.shows_certificate else NOBODY


def of_settings(config: BrokerConfig) -> Access:
    """A broker's. Raises ConfigError, also for rules of nobody."""
    access = Access(zookeeper_tls.of_settings(config), _user(config), config.get_bool(SECURES))
    if access.secures and not access.is_somebody:
        raise ConfigError(
            SECURES,
            f"{SECURES}=true keeps the tree for who made it, and this broker is nobody to ZooKeeper. Give it a user "
            f"({SETTING}={EXAMPLE}, or the entry Client of the JAAS file that {java_options.VARIABLE} names with "
            f"-D{java_options.LOGIN_FILE}=FILE), or a certificate (zookeeper.ssl.client.enable=true and "
            "zookeeper.ssl.keystore.location)",
        )
    return access


def of_command(config: BrokerConfig) -> Access:
    """That of a command, whose nodes have rules if it is somebody, as with Kafka's tools. Raises ConfigError."""
    access = Access(zookeeper_tls.of_settings(config), _user(config), secures=False)
    return access._replace(secures=access.is_somebody)


def _user(config: BrokerConfig) -> User | None:
    try:
        if text := config.get_str(SETTING):
            place, (module, options) = SETTING, jaas.parse(text, EXAMPLE, SETTING)
        elif found := _of_file():
            place, module, options = found
        else:
            return None
    except ValueError as error:
        raise ConfigError(SETTING, str(error)) from None
    if java_options.properties().get(_ALLOWED, "true").lower() != "true":
        raise ConfigError(
            SETTING,
            f"{place} says who to be at ZooKeeper, and -D{_ALLOWED} in {java_options.VARIABLE} forbids to say it: "
            "remove one of them",
        )
    if module in _KERBEROS:
        raise ConfigError(SETTING, f"{place}: Ottla has no Kerberos ({module}); use {EXAMPLE}")
    if module != MODULE:
        raise ConfigError(SETTING, f"{place}: Ottla has no login module {module} for ZooKeeper; use {EXAMPLE}")
    for name in ("username", "password"):
        if not options.get(name):
            raise ConfigError(SETTING, f"{place} has no {name}: {EXAMPLE}")
    return User(options["username"], options["password"], place)


def _of_file() -> tuple[str, str, dict[str, str]] | None:
    """The place in words, the login module and its options. Raises ValueError."""
    file = java_options.jaas_file()
    name = java_options.properties().get(_ENTRY, "Client")
    if file is None or name not in file.entries:
        return None
    place = f"{file.place}, entry {name}"
    if len(file.entries[name]) != 1:
        raise ValueError(f"{place} has {len(file.entries[name])} login modules; ZooKeeper is told of one user")
    return place, *file.entries[name][0]
