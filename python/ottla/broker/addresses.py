"""Where this broker listens, and what it tells others: clients the address that reaches it from where they are, the
tree one for other brokers.

A wildcard listener without advertised.listeners is where most first connections of other brokers fail: clients are told
a host name that only this machine knows. Here they are told the address they came to, which evidently reached us; a
warning at the start says so.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING

from ottla.broker import tls
from ottla.broker.authentication import between, listeners
from ottla.broker.authentication.authentication import Authentication
from ottla.broker.secured import Secured
from ottla.config import BrokerConfig, ConfigError, Endpoint
from ottla.net import Server
from ottla.replication.data_directory import META

if TYPE_CHECKING:
    from ottla.broker.session import Session

logger = logging.getLogger("ottla.broker")


def check(config: BrokerConfig) -> None:
    """Raises ConfigError for the first listener that cannot be secured as its settings say, and if brokers would not
    let this one in.
    """
    tls.check(config)
    listeners.check(config)
    between.check(config)


def check_new(config: BrokerConfig) -> None:
    """The same for a broker that has never run: before anything is opened. One that has may have other settings in its
    tree, which hold instead.
    """
    if not any(os.path.exists(os.path.join(folder, META)) for folder in config.data_directories):
        check(config)


class Addresses:
    def __init__(
        self, config: BrokerConfig, server: Server, authentication: Authentication, access: between.Access
    ) -> None:
        self._config = config
        self._server = server
        self._authentication = authentication
        self._advertised: dict[str, Endpoint] = {}
        self.listening: list[Endpoint] = []
        #: What has TLS.
        self.secured = Secured(server.hub, access)

    def listen(self) -> None:
        """Opens every listener. Raises OSError, naming the address, if one cannot be had, and ConfigError for one that
        cannot be secured.
        """
        for endpoint in self._config.listeners:
            self._open(endpoint, self._config)
        self._advertise(self._config)

    def change(self, config: BrokerConfig) -> None:
        """From now on `config` says where the broker listens and what it tells others. Listeners whose name is in it
        stay open as they are. One that cannot be had is left out, with an error in the log.
        """
        wanted = {endpoint.name: endpoint for endpoint in config.listeners}
        for endpoint in self.listening:
            if endpoint.name not in wanted:
                logger.info("listener %s is closed", endpoint)
                self._server.stop_listening(endpoint.name)
                self.secured.closed(endpoint.name)
        self.listening = [endpoint for endpoint in self.listening if endpoint.name in wanted]
        open_names = {endpoint.name for endpoint in self.listening}
        for name, endpoint in wanted.items():
            if name not in open_names:
                try:
                    logger.info("listener %s is open", self._open(endpoint, config))
                except (OSError, ConfigError) as error:
                    logger.error("listener %s is not opened: %s", endpoint, error)
        self._advertise(config)

    def _open(self, endpoint: Endpoint, config: BrokerConfig) -> Endpoint:
        loaded, sasl = tls.of_listener(config, endpoint), listeners.of_listener(config, endpoint)
        try:
            port = self._server.listen(endpoint.host, endpoint.port, endpoint.name, loaded and loaded.tls)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {endpoint.address}: {error.strerror or error}") from error
        if sasl is not None:  # nobody is accepted before this turn of the loop is over
            self._authentication.serve(endpoint.name, sasl)
        endpoint = endpoint._replace(port=port)
        self.listening.append(endpoint)
        if loaded is not None:
            self.secured.opened(endpoint, loaded)
        return endpoint

    def _advertise(self, config: BrokerConfig) -> None:
        """From now on clients and other brokers are told these addresses."""
        ports = {endpoint.name: endpoint.port for endpoint in self.listening}
        self._advertised = {
            endpoint.name: endpoint._replace(port=endpoint.port or ports[endpoint.name])
            for endpoint in config.advertised_listeners
            if endpoint.name in ports
        }
        for endpoint in config.advertised_listeners:
            if endpoint.is_wildcard:
                logger.warning(
                    "listener %s has the wildcard address and advertised.listeners is not set: each client is told the "
                    "address it connected to; set advertised.listeners if clients come through a NAT or a proxy",
                    endpoint.name,
                )

    def check_authentication(self, config: BrokerConfig) -> None:
        """Raises ConfigError if a listener that is open would let others in than now: as in Kafka, that takes a
        restart, or another listener. So it does if a new one cannot be served.
        """
        for endpoint in config.listeners:
            sasl = listeners.of_listener(config, endpoint)
            is_open = any(one.name == endpoint.name for one in self.listening)
            if is_open and sasl != self._authentication.served(endpoint.name):
                raise ConfigError(
                    f"listener.name.{endpoint.name.lower()}.sasl",
                    f"listener {endpoint}: the settings of SASL of a listener that is open only change with a restart, "
                    "or with another listener",
                )

    def for_client(self, session: Session) -> tuple[str, int] | None:
        """The host and port of this broker for the client of a session; None if its listener is not advertised."""
        endpoint = self._advertised.get(session.listener)
        if endpoint is None:
            return None
        if endpoint.is_wildcard:
            return session.local_address[0], endpoint.port
        return endpoint.host, endpoint.port

    def registered(self) -> list[Endpoint]:
        """The endpoints that the coordination tree is told, for other brokers."""
        return [_for_brokers(endpoint) for endpoint in self._advertised.values()]

    def newly(self, config: BrokerConfig) -> list[Endpoint]:
        """The endpoints that the tree would be told with these settings, and is not told now; without ports that are
        not known before they are open.
        """
        ports = {endpoint.name: endpoint.port for endpoint in (*config.listeners, *self.listening)}
        told = {(endpoint.host, endpoint.port) for endpoint in self._advertised.values()}
        wanted = [
            endpoint._replace(port=endpoint.port or ports.get(endpoint.name, 0))
            for endpoint in config.advertised_listeners
        ]
        return [
            _for_brokers(endpoint)
            for endpoint in wanted
            if endpoint.port and (endpoint.host, endpoint.port) not in told
        ]


def _for_brokers(endpoint: Endpoint) -> Endpoint:
    return endpoint._replace(host=_own_address()) if endpoint.is_wildcard else endpoint


def _own_address() -> str:
    """A name or address of this machine that resolves here: its host name as Kafka registers it, or else loopback."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        logger.warning(
            "this machine's name %s does not resolve: registering 127.0.0.1, which other machines cannot reach", name
        )
        return "127.0.0.1"
    return name
