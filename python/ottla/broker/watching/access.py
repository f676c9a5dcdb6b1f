"""The settings of the metrics listener: where it is, and who comes in.

TLS has Kafka's settings, as a listener named METRICS would have them: `listener.name.metrics.ssl.*`, or `ssl.*`.
"""

from __future__ import annotations

import logging
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ottla.broker import tls
from ottla.broker.watching.readiness import NAME
from ottla.client.tls import VERSIONS, private_file
from ottla.config import ConfigError, Endpoint, parse_address
from ottla.metrics.doors import UNIX, Login

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

logger = logging.getLogger("ottla.metrics")

LISTENER: Final = "metrics.listener"
PROTOCOL: Final = "metrics.security.protocol"
USER: Final = "metrics.user"
PASSWORD_FILE: Final = "metrics.password.file"
#: Where metrics are served if `metrics.listener` names no host.
LOOPBACK: Final = "127.0.0.1"
#: Of the address of a socket of the file system, as Linux has it.
PATH_BYTES_MAX: Final = 107
#: Characters of a password. A shorter one is soon guessed.
PASSWORD_MIN: Final = 8
_VERIFY: Final = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


class Place(NamedTuple):
    """path: Of a socket of the file system, in place of host and port. Without a password everybody may ask."""

    host: str = LOOPBACK
    port: int = 0
    path: str | None = None
    certificate: Certificate | None = None
    password: Password | None = None


def of(config: BrokerConfig) -> Place:
    """Where metrics are served, and to whom; `metrics.listener` is set. Raises ConfigError."""
    text = config.get_str(LISTENER) or ""
    is_secured = config.get_str(PROTOCOL) == "SSL"
    password = Password.of(config)
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if not path or len(path.encode()) > PATH_BYTES_MAX:
            raise ConfigError(LISTENER, f"{LISTENER}={text}: a path is needed, of {PATH_BYTES_MAX} bytes at most")
        if is_secured or password is not None:
            name = PROTOCOL if is_secured else USER
            why = "the rights of its file say who comes in"
            raise ConfigError(name, f"{LISTENER}={text}: {why}, so {name} has no effect; remove it")
        return Place(path=path)
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise ConfigError(LISTENER, f"{LISTENER}: {error}") from None
    return Place(host or LOOPBACK, port, None, Certificate(config, host, port) if is_secured else None, password)


class Password:
    """The name and the password that are needed, which is taken anew when its file changes. Raises ConfigError."""

    def __init__(self, user: str, file: str) -> None:
        self._user, self._file = user, file
        self._stamps = tls.stamps([file])
        self._login = _read(user, file)

    @classmethod
    def of(cls, config: BrokerConfig) -> Password | None:
        """None if the settings want none."""
        user, file = config.get_str(USER), config.get_str(PASSWORD_FILE)
        if not user and not file:
            return None
        if not user or not file:
            lacks, has = (USER, PASSWORD_FILE) if not user else (PASSWORD_FILE, USER)
            raise ConfigError(lacks, f"{has} is set, and {lacks} is not: they come together")
        if ":" in user:
            raise ConfigError(USER, f"{USER}={user}: a name with a colon cannot be sent (RFC 7617)")
        return cls(user, file)

    def login(self) -> Login:
        """For a new request."""
        return self._login

    async def watch(self) -> None:
        """Takes what the file has when it changes, until cancelled."""
        while True:
            await trio.sleep(_look_s())
            found = await trio.to_thread.run_sync(tls.stamps, [self._file], abandon_on_cancel=True)
            if found == self._stamps:
                continue
            self._stamps = found
            try:
                self._login = await trio.to_thread.run_sync(_read, self._user, self._file, abandon_on_cancel=True)
            except ConfigError as error:
                logger.error("%s; the password of before is still the one", error)
            else:
                logger.info("the password of %s is the one that its file has now", LISTENER)


def _look_s() -> float:
    from ottla.broker.secured import LOOK_S

    return LOOK_S


def _read(user: str, file: str) -> Login:
    try:
        with open(file, encoding="utf-8") as opened:
            mode = stat.S_IMODE(Path(file).stat().st_mode)
            password = opened.readline(4096).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigError(PASSWORD_FILE, f"{PASSWORD_FILE}={file} cannot be read: {why}") from None
    if len(password) < PASSWORD_MIN:
        raise ConfigError(
            PASSWORD_FILE, f"{PASSWORD_FILE}={file}: its first line has less than {PASSWORD_MIN} characters"
        )
    if mode & stat.S_IROTH:
        logger.warning("every user of this machine can read %s=%s; chmod o-r %s", PASSWORD_FILE, file, file)
    return Login(user, password)


class Certificate:
    """The certificate of the listener, taken anew when its files change. Raises ConfigError."""

    def __init__(self, config: BrokerConfig, host: str, port: int) -> None:
        if any(each.name == NAME for each in config.listeners):
            raise ConfigError(PROTOCOL, f"{PROTOCOL}=SSL: a listener is called {NAME}, too; give it another name")
        self._config = config
        self._endpoint = Endpoint(NAME, host or LOOPBACK, port, "SSL")
        self._context, self._files = self._read()

    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        return self._context

    async def watch(self) -> None:
        """Takes what the files have when they change, until cancelled."""
        while True:
            await trio.sleep(_look_s())
            found = await trio.to_thread.run_sync(tls.stamps, self._files, abandon_on_cancel=True)
            if found == self._files:
                continue
            self._files = found
            try:
                self._context, self._files = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
            except ConfigError as error:
                logger.error("%s; new connections get the certificate of before", error)
            else:
                logger.info("new connections to %s get the certificate that its files have now", LISTENER)

    def _read(self) -> tuple[ssl.SSLContext, dict[str, tls.Stamp]]:
        loaded, parts = tls.read(self._config, self._endpoint)
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = sorted(parts["protocols"])
        made.minimum_version, made.maximum_version = VERSIONS[versions[0]], VERSIONS[versions[-1]]
        made.verify_mode = _VERIFY[parts["client_auth"]]
        if parts["trusted"]:
            made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            made.load_verify_locations(cadata=parts["trusted"])
        with private_file(parts["key"] + parts["certificates"]) as path:
            made.load_cert_chain(path)
        return made, loaded.files
