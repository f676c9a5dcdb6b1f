"""Opens the connections by which this broker fetches from leaders: those of threads in Rust."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla._core import Fetcher, LargeAnswers
from ottla.client.errors import place
from ottla.peers.dialing import Dialer
from ottla.peers.greeting import Greeting
from ottla.peers.versions import Needed
from ottla.wire.k01_fetch import FETCH

if TYPE_CHECKING:
    from ottla._core import Completions, ReplicationQuota
    from ottla.client.security import Security
    from ottla.config import BrokerConfig

#: From Fetch 12 on a leader says where the logs part.
FETCH_VERSION, FETCH_VERSION_BEFORE_2_7 = 12, 11
#: Without a limit of memory. Nobody has so many fetchers.
PLACES_MAX = 1 << 16


class Fetchers:
    """Makes fetchers, each with a connection of its own.

    `config` gives the settings of the moment. `quota` is for what is fetched of throttled partitions. Fetchers report
    to `completions`. `security` is asked for each connection how it is secured, and who this
    broker is to leaders that want to know.

    tells_divergence: A leader says in its answers where the logs part, by `inter.broker.protocol.version`.
    """

    def __init__(
        self,
        broker_id: int,
        config: Callable[[], BrokerConfig],
        quota: ReplicationQuota,
        completions: Completions,
        security: Callable[[], Security | None] = lambda: None,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._quota = quota
        self._security = security
        self._completions = completions
        self._large = LargeAnswers(_places_for_large_answers(config()))
        self.tells_divergence = config().inter_broker_protocol.tells_divergence

    def make(self, host: str, port: int, number: int, token: int) -> Fetcher:
        """The fetcher of this number from the leader there, which reports under `token`. It connects, and connects
        anew, by itself. Raises OSError: there are too many threads, or this is no address.
        """
        config = self._config()
        client_id = f"broker-{self._broker_id}-fetcher-{number}"
        is_secured = self._security() is not None
        return Fetcher(
            host=host,
            port=port,
            replica_id=self._broker_id,
            client_id=client_id,
            fetch_version=self._fetch_version,
            wait_max_ms=config.get_int("replica.fetch.wait.max.ms"),
            bytes_min=config.get_int("replica.fetch.min.bytes"),
            response_bytes_max=config.get_int("replica.fetch.response.max.bytes"),
            partition_bytes_max=config.get_int("replica.fetch.max.bytes"),
            batch_bytes_max=config.get_int("socket.request.max.bytes"),
            backoff_ms=config.get_int("replica.fetch.backoff.ms"),
            socket_timeout_ms=config.get_int("replica.socket.timeout.ms"),
            receive_buffer_bytes=config.get_int("replica.socket.receive.buffer.bytes"),
            quota=self._quota,
            large=self._large,
            completions=self._completions,
            token=token,
            greeting=Greeting(self._security, client_id, place(host, port)) if is_secured else None,
        )

    async def lacking(self, host: str, port: int, needed: Iterable[Needed]) -> str | None:
        """Asks the leader there which versions it has. Returns in words which it lacks of those of Fetch and of
        `needed`; None if it has all, or does not say.
        """
        client_id = f"broker-{self._broker_id}-fetcher"
        timeout_ms = self._config().get_int("replica.socket.timeout.ms")
        dialer = Dialer(client_id, timeout_ms, self._security)
        return await dialer.lacking(host, port, [(FETCH, self._fetch_version), *needed])

    @property
    def _fetch_version(self) -> int:
        return FETCH_VERSION if self.tells_divergence else FETCH_VERSION_BEFORE_2_7


def _places_for_large_answers(config: BrokerConfig) -> int:
    """How many answers of the largest size fit into the memory for requests, which this memory stands beside."""
    budget = config.get_int("queued.max.request.bytes")
    return PLACES_MAX if budget < 0 else min(PLACES_MAX, budget // config.get_int("socket.request.max.bytes"))
