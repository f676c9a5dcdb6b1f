"""Certificates of TLS, renewed while the broker runs (KIP-226): those of open listeners, and those of connections to
other brokers.

New connections get what the settings and their files say; connections that are open go on. There are two causes:

* **Settings of a listener change.** What cannot be served is refused before anything is stored. As in Kafka, a file
  that is named again, by the same path, is read again at once.
* **Files change.** They are looked at every few seconds, by what the system says of them. If what they have now cannot
  be served, one line says so, and the old certificate goes on until they change again. Kafka does not look.

As in Kafka, a new certificate has the name of the one before, and at least its alternative names: clients that know the
broker by one of them go on to do so. A start takes any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import trio

from ottla.broker import certificates, tls
from ottla.broker.authentication import between
from ottla.broker.distinguished_names import is_same, written
from ottla.config import BROKER_SETTINGS, ConfigError
from ottla.config.dynamic import changed
from ottla.config.names import base_setting

if TYPE_CHECKING:
    from ottla._core import Hub
    from ottla.broker.tls import Loaded
    from ottla.config import BrokerConfig, Endpoint

logger = logging.getLogger("ottla.broker")

#: How often files are looked at.
LOOK_S: Final = 3.0
_PREFIX: Final = "ssl."


def settings(config: BrokerConfig) -> list[str]:
    """The names of the settings that matter here."""
    names = [name for name in BROKER_SETTINGS if name.startswith(_PREFIX)]
    return [*names, *(f"listener.name.{one.name.lower()}.{name}" for one in config.listeners for name in names)]


class Secured:
    """The certificates of a hub's open listeners, by the listener's name; and `access`, the way to other brokers."""

    def __init__(self, hub: Hub, access: between.Access) -> None:
        self._hub = hub
        self._access = access
        self._open: dict[str, tuple[Endpoint, Loaded]] = {}
        #: The files as they were looked at last. What was no good is not tried again before it changes.
        self._seen: dict[str, tls.Stamp] = dict(access.files)
        self._any = trio.Event()
        #: One after another, so that what was read last holds.
        self._loading = trio.Lock()

    def opened(self, endpoint: Endpoint, loaded: Loaded) -> None:
        """A listener was opened with this."""
        self._open[endpoint.name] = endpoint, loaded
        self._seen |= loaded.files
        self._any.set()
        tls.warn_of_expiry(endpoint, loaded)

    def closed(self, name: str) -> None:
        """A listener was closed."""
        self._open.pop(name, None)

    async def check(self, before: BrokerConfig, then: BrokerConfig, altered: Collection[str]) -> bool:
        """Returns True if somebody names settings of TLS who gives none of them another value: then `load` is next, for
        a file may have another content.

        Raises ConfigError for settings that cannot be served.
        """
        names = changed(before, then)
        if not any(_is_of_tls(name) for name in (*names, *altered)):
            return False
        for endpoint in then.listeners:
            await self._load(then, endpoint)
        await trio.to_thread.run_sync(between.check, then, abandon_on_cancel=True)
        return not any(map(_is_of_tls, names))

    async def load(self, config: Callable[[], BrokerConfig]) -> None:
        """Takes what the settings and their files say now, or says in the log why not."""
        async with self._loading:
            for endpoint, _ in list(self._open.values()):
                try:
                    loaded = await self._load(config(), endpoint)
                except ConfigError as error:
                    logger.error("%s; new connections get the certificate of before", error)
                    continue
                if loaded is not None:
                    self._take(endpoint.name, loaded)
            await self._renew_access(config())

    async def _renew_access(self, config: BrokerConfig) -> None:
        before = self._access.security
        try:
            self._access.take(await trio.to_thread.run_sync(between.read, config, abandon_on_cancel=True))
        except ConfigError as error:
            logger.error("%s; new connections to other brokers are secured as before", error)
            return
        self._seen |= self._access.files
        if self._access.security != before:
            logger.info("new connections to other brokers are secured as the settings and their files say now")

    def _take(self, name: str, new: Loaded) -> None:
        self._seen |= new.files
        if name not in self._open:
            return
        endpoint, old = self._open[name]
        if new.digest != old.digest:
            try:
                self._hub.secure(name, new.tls)
            except OSError as error:
                logger.error("listener %s keeps the certificate that it has: %s", endpoint, error)
                return
            until = certificates.read(new.chain[0]).end
            logger.info("listener %s: new connections get what %s has now, until %s", endpoint, new.place, until)
            tls.warn_of_expiry(endpoint, new)
        self._open[name] = endpoint, new

    async def watch(self, config: Callable[[], BrokerConfig]) -> None:
        """Takes what files have when they change, until cancelled."""
        await self._any.wait()
        while True:
            await trio.sleep(LOOK_S)
            paths = {path for _, loaded in self._open.values() for path in loaded.files} | self._access.files.keys()
            found = await trio.to_thread.run_sync(tls.stamps, paths, abandon_on_cancel=True)
            if any(self._seen.get(path) != stamp for path, stamp in found.items()):
                self._seen |= found
                await self.load(config)

    async def _load(self, config: BrokerConfig, endpoint: Endpoint) -> Loaded | None:
        """Reads what a listener would be served with. Raises ConfigError, also if it is a certificate of somebody else
        than that which an open listener has.
        """
        # Files may be on a disk that is out of reach, which is not to hold up the end of a broker.
        loaded = await trio.to_thread.run_sync(tls.of_listener, config, endpoint, abandon_on_cancel=True)
        if loaded is not None and endpoint.name in self._open:
            _check_name(endpoint, loaded, self._open[endpoint.name][1])
        return loaded


def _check_name(endpoint: Endpoint, new: Loaded, old: Loaded) -> None:
    """Kafka's `CertificateEntries.ensureCompatible`."""
    is_to_be, is_now = certificates.read(new.chain[0]), certificates.read(old.chain[0])
    setting = new.place.partition("=")[0]
    if not is_same(is_to_be.subject, is_now.subject):
        raise ConfigError(
            setting,
            f"listener {endpoint}: {new.place}: the certificate is of {written(is_to_be.subject)}, and that of now is "
            f"of {written(is_now.subject)}; the name can only change with a restart, or with another listener",
        )
    if missing := is_now.alternative_names - is_to_be.alternative_names:
        names = ", ".join(sorted(map(_shown, missing)))
        raise ConfigError(
            setting,
            f"listener {endpoint}: {new.place}: the certificate lacks alternative names that the one of now has "
            f"({names}); names can only be taken away with a restart, or with another listener",
        )


def _shown(name: bytes) -> str:
    """An alternative name in DER, for people: of the kinds that brokers have, a host or an address."""
    tag, content, _ = certificates.first(name)
    if tag == 0x87:
        return ".".join(map(str, content)) if len(content) == 4 else content.hex(":", 2)
    return content.decode("latin-1")


def _is_of_tls(name: str) -> bool:
    setting = base_setting(name)
    return setting is not None and setting.name.startswith(_PREFIX)
