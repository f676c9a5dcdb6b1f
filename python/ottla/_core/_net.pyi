"""The hub, requests and completions (rust/py/net)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, final

from typing_extensions import Buffer

from ottla._core._direct import Follower, Lease, SessionLoan, Terms, Unacknowledged
from ottla._core._fetch import FetchRequest, FetchRow, PartitionToRead
from ottla._core._log import AppendInfo, Log, Reader, Written
from ottla._core._produce import ProduceRequest, ProduceRow
from ottla._core._replication import ReplicationQuota
from ottla._core._traffic import TopicTraffic
from ottla._core._wire import Encoding
from ottla.wire.schema import Api

# How many processors this process may use, by its affinity and the quota of its cgroup; at least 1
def processors() -> int: ...

@final
class Distribution:
    """How often something was measured, and its quantiles 0.5, 0.75, 0.95, 0.98, 0.99 and 0.999."""

    @property
    def count(self) -> int: ...
    @property
    def quantiles(self) -> list[float]: ...

@final
class ApiFigures:
    """What the requests of one API cost. Key -1 is Fetch of consumers, -2 of followers."""

    @property
    def key(self) -> int: ...
    @property
    def versions(self) -> list[tuple[int, int]]: ...  # version, requests
    @property
    def total_us(self) -> Distribution: ...  # until the answer was sent; the others are its parts
    @property
    def request_queue_us(self) -> Distribution: ...
    @property
    def local_us(self) -> Distribution: ...
    @property
    def remote_us(self) -> Distribution: ...
    @property
    def response_queue_us(self) -> Distribution: ...
    @property
    def response_send_us(self) -> Distribution: ...
    @property
    def size_bytes(self) -> Distribution: ...
    @property
    def throttle_ms(self) -> Distribution: ...
    @property
    def errors(self) -> list[tuple[int, int]]: ...  # code (0 too), how often it stood in an answer

@final
class Tls:
    # PEM, but for names. Raises ValueError(the argument that is wrong, how)
    def __new__(
        cls,
        *,
        certificates: str,
        key: str,
        trusted: str,
        client_auth: str,
        protocols: list[str],
        suites: list[str],
    ) -> Self: ...

@final
class TlsClient:
    # As `Tls`. No certificates: none is shown to servers.
    def __new__(
        cls,
        *,
        certificates: str,
        key: str,
        trusted: str,
        checks_name: bool,
        protocols: list[str],
        suites: list[str],
    ) -> Self: ...
    # Raises ValueError(how) if it does not come in at a server of that name, or does not trust it.
    def check(self, server: Tls, host: str) -> None: ...

@final
class Hub:
    def __new__(
        cls,
        *,
        supported: Mapping[int, Api[Any, Any]],
        frame_bytes_max: int = 104_857_600,
        queued_bytes_max: int = 268_435_456,
        percent_per_ip_max: int = 50,
        output_bytes_max: int = 1_048_576,
        waiting_requests_max: int = 1000,
        waiting_bytes_max: int = 16_777_216,
        connections_max: int = 2_147_483_647,
        connections_per_ip_max: int = 2_147_483_647,
        connections_per_ip_overrides: dict[str, int] | None = None,
        idle_ms: int | None = ...,
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
        threads_max: int = 0,  # room for so many beside the loop's
    ) -> Self: ...
    # Has so many threads serve from now on, at most those for which there is room; without any the loop serves.
    # They end with `close`. Raises OSError where the system does not give as many; `threads` has those that there are
    def serve_beside(self, threads: int) -> None: ...
    def fileno(self) -> int: ...
    def listen(self, host: str, port: int, name: str) -> int: ...
    # connections that come to the listener from now on have TLS. Raises OSError
    def secure(self, name: str, tls: Tls) -> None: ...
    # connections that come to the listener from now on may speak only when `let_speak` says so
    def greet(self, name: str, greeting_ms: int | None) -> None: ...
    # before the answer to the request that told who the client is; None: for ever
    def let_speak(self, connection: int, for_ms: int | None = None) -> None: ...
    # before the answer to the request that announced them: the next frames are tokens of SASL without headers, handed
    # out as SaslAuthenticate of version -1, until `let_speak`
    def take_tokens(self, connection: int) -> None: ...
    # takes nothing more from the connection, and closes it when all that it asked is answered
    def refuse(self, connection: int, reason: str) -> None: ...
    # closes the connection at once; what waits there is not answered
    def end_session(self, connection: int, reason: str) -> None: ...
    def stop_listening(self, name: str) -> None: ...
    def next(self) -> Request | Completion | Disconnected | Served | None: ...  # None: the turn is over
    # The first event of a turn; None: the time is over, or a signal came, or what is watched beside is ready
    def wait(self, timeout_s: float) -> Request | Completion | Disconnected | Served | None: ...
    def watch_beside(self, fd: int | None) -> None: ...
    # Until it ends, plain Produces and Fetches of the partition are served without becoming a Request
    def lease(
        self, topic: str, partition: int, log: Log, terms: Terms, followers: Mapping[int, Follower], owner: Any
    ) -> Lease: ...
    @property
    def waiting_fetches(self) -> int: ...  # under leases
    @property
    def waiting_produces(self) -> int: ...  # for other replicas, under leases
    def lend_session(
        self,
        session: tuple[int, int],  # its number, and the epoch of the next request
        reader: Reader,
        # each with the high watermark and the log start offset that the client was told, in the order of reading
        entries: Sequence[tuple[PartitionToRead, int, int]],
        partitions_max: int,  # a request with which there would be more is handed on
        now_ms: int,
        # the broker that follows in it, the connection on which it does, and what it is throttled by; None: a consumer
        following: tuple[int, int, ReplicationQuota] | None,
    ) -> SessionLoan: ...
    def limit_leased_fetches(self, bytes_max: int, serves_racks: bool) -> None: ...
    # What was appended under leases in the turn. The loop's thread alone runs the hub: RuntimeError in another one
    def write_leased(self) -> list[Written]: ...
    # Answers what `write_leased` wrote, or could not write, but for what waits for other replicas by now
    def answer_leased(self) -> list[Unacknowledged]: ...
    def limit_connection_rate(
        self,
        per_second_max: int | None,
        *,
        samples: int,  # windows that are counted, each of `window_ms`
        window_ms: int,
        protected: str | None,  # the listener for brokers: this bound and that of all connections do not stop it
    ) -> None: ...
    def limit_listener(
        self, name: str, connections_max: int, per_second_max: int | None, *, samples: int, window_ms: int
    ) -> None: ...
    # Listeners that clients do not use: their connections have a reserve of memory, and only there a connection is
    # taken for a broker's because it says so. With none it is taken for one everywhere, but has no reserve.
    def reserve_for(self, listeners: list[str]) -> None: ...
    # From now on a connection is another broker's only when Request.mark_broker has said so.
    def know_brokers_by_rights(self) -> None: ...
    def limit_connections(
        self, connections_max: int, connections_per_ip_max: int, connections_per_ip_overrides: dict[str, int]
    ) -> None: ...
    def stop_accepting(self) -> None: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...
    @property
    def completions(self) -> Completions: ...
    @property
    def connections(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...
    @property
    def pooled_bytes(self) -> int: ...
    @property
    def accepted_total(self) -> int: ...
    @property
    def turns_total(self) -> int: ...
    @property
    def cold_reads_total(self) -> int: ...
    # From now on requests are measured, and counted for the topics that they name.
    def measure(self, traffic: TopicTraffic) -> None: ...
    # What each API costs, since `measure`.
    def measured(self) -> list[ApiFigures]: ...
    # Counts the error codes of an answer to this API that was not made by reply_produce or reply_fetch.
    def note_errors(self, key: int, codes: list[int]) -> None: ...
    def _panic_in_thread(self, place: int) -> None: ...  # of those beside the loop: for tests
    # The connections of each thread beside the loop, and how long it has worked in the last second, in microseconds.
    @property
    def threads(self) -> list[tuple[int, int]]: ...
    # How often a connection went from one thread to another.
    @property
    def moved_total(self) -> int: ...
    # How long threads have served connections, the loop's where it is alone, and for how much of that turns ran: of all
    # together, since they are measured
    @property
    def served_us(self) -> tuple[int, int]: ...
    # How long the loop has been measured, and for how much of that its turns ran
    @property
    def loop_busy_us(self) -> tuple[int, int]: ...
    # Of each listener: its name, and how many TLS handshakes have succeeded and failed
    def handshakes(self) -> list[tuple[str, int, int]]: ...
    def listener_connections(self) -> list[tuple[str, int]]: ...

# Exports its body as a buffer, for which there is no method before Python 3.12.
@final
class Request(Buffer):
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def connection_id(self) -> int: ...
    @property
    def local_address(self) -> tuple[str, int]: ...
    @property
    def peer_address(self) -> tuple[str, int]: ...
    @property
    def listener(self) -> str: ...
    @property
    def peer_subject(self) -> bytes | None: ...  # the name in the client's certificate, as DER
    # until `know_principal` says that the certificate stands for somebody: nothing is served under leases before
    @property
    def awaits_principal(self) -> bool: ...
    def know_principal(self) -> None: ...
    def mark_broker(self) -> None: ...  # it came from another broker, and so does what follows on its connection
    @property
    def is_waiting(self) -> bool: ...
    def __len__(self) -> int: ...
    def reply(self, body: Buffer) -> None: ...
    # with what is encoded, which is taken out of it: it has no bytes afterwards
    def reply_encoded(self, encoding: Encoding) -> None: ...
    # memory for its answer, `bytes` in all: whether it is there; None: a completion with this token will tell.
    # False: nobody waits for the answer any more
    def reserve(self, bytes: int, token: int) -> bool | None: ...
    def skip(self) -> None: ...
    def close(self, reason: str | None = None) -> None: ...
    def appended(self) -> None: ...
    def produce(self) -> ProduceRequest: ...
    # those of the next partitions of a Produce; reply_produce has those of the last
    def put_results(self, results: Sequence[AppendInfo | ProduceRow]) -> None: ...
    def reply_produce(
        self,
        results: Sequence[AppendInfo | ProduceRow],  # a list; Sequence because a list's type is invariant
    ) -> None: ...
    def limit(
        self,
        throttle_ms: Callable[[], int],  # asked once, by the answer or `take_throttle`: how long to mute the connection
        is_named: bool,  # the answer begins with its throttle time
    ) -> None: ...
    def take_throttle(self) -> int: ...  # asks what `limit` was given; for a Fetch, which is answered otherwise then
    def fetch(self) -> FetchRequest: ...
    def reply_fetch(
        self,
        rows: list[FetchRow],
        *,
        of: list[PartitionToRead]
        | None = None,  # whose rows they are; None: of the request's partitions, from the first on
        throttle_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
    ) -> None: ...

@final
class Completions:
    def push(self, token: int, value: Any) -> None: ...

@final
class Completion:
    @property
    def token(self) -> int: ...
    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> BaseException | None: ...

@final
class Served:
    """All requests of a turn were handed out: answers that are given now leave with the turn's others."""

@final
class Disconnected:
    @property
    def connection_id(self) -> int: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def peer_address(self) -> tuple[str, int]: ...
    @property
    def listener(self) -> str: ...
