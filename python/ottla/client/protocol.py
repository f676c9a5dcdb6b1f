"""The client's half of a connection, as values: everything that affects its state is in this one file, and no I/O.

A request carries a correlation id; answers come in the order of the requests. `Protocol` encodes requests, remembers
what is under way, and matches and decodes answers. Trio connections, blocking sockets and tests all drive this same
object.

Versions: a broker says with ApiVersions what it understands, and each call takes the highest version that both sides
have. ApiVersions itself is asked in our highest version; a broker that lacks it answers error 35 in the form of
version 0 (KIP-511), perhaps with its own range in the only entry, and is asked again.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla import _core
from ottla.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersion, error
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.schema import Api

SOFTWARE_NAME = "ottla"
CORRELATION_ID_MAX = 2**31 - 1
ERROR_CODE_BYTES = 2


@dataclass(frozen=True, slots=True)
class InFlight:
    """A request that was encoded and not answered yet."""

    correlation_id: int
    api: Api[Any, Any]
    version: int


class Protocol:
    """One connection's state: correlation ids, what is in flight (oldest first), and the broker's versions.

    Not to be shared between threads. After a `RemoteProtocolError` the connection must be closed.
    """

    def __init__(self, client_id: str | None, place: str = "") -> None:
        self.client_id = client_id
        self._broker = f"the broker at {place}" if place else "the broker"
        self.versions: Mapping[int, tuple[int, int]] | None = None
        self.in_flight: deque[InFlight] = deque()
        self._next_correlation_id = 0
        self._is_served = False

    @property
    def begins(self) -> bool:
        """Whether nothing but versions was answered yet."""
        return self.versions is not None and not self._is_served

    def version(self, api: Api[Any, Any]) -> int:
        """The highest version of `api` that both sides have.

        Raises:
            LocalProtocolError: there is none, or the broker does not have this API at all.
        """
        if self.versions is None:
            raise LocalProtocolError("versions were not negotiated; say which version to use")
        if api.key not in self.versions:
            raise LocalProtocolError(f"{self._broker} has no {api.name} (key {api.key})")
        lowest, highest = self.versions[api.key]
        chosen = min(highest, api.versions[-1])
        if chosen < max(lowest, api.versions[0]):
            ours = f"{api.versions[0]} to {api.versions[-1]}"
            age = "newer" if lowest > api.versions[-1] else "older"
            raise LocalProtocolError(
                f"{api.name}: {self._broker} is {age}: it has versions {lowest} to {highest}, this client {ours}"
            )
        return chosen

    def encode(self, api: Api[Any, Any], message: Any, version: int | None = None, *, answered: bool = True) -> bytes:
        """The frame to send, with its length. It is in flight from now on, unless `answered` is false (acks=0)."""
        if version is None:
            version = self.version(api)
        return self.framed(api, version, api.encode_request(version, message), answered=answered)

    def framed(self, api: Api[Any, Any], version: int, body: bytes, *, answered: bool = True) -> bytes:
        """The same of a body that is encoded already."""
        correlation_id = self._next_correlation_id
        frame = _core.request_frame(api.key, version, api.is_flexible(version), correlation_id, self.client_id, body)
        self._next_correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
        if answered:
            self.in_flight.append(InFlight(correlation_id, api, version))
        return frame

    def decode(self, frame: memoryview) -> tuple[int, Any]:
        """Takes an answer's frame: its correlation id and message.

        Raises:
            RemoteProtocolError: nothing was asked, the id is not the oldest one in flight, or the bytes make no sense.
                The text names the question.
        """
        if not self.in_flight:
            raise RemoteProtocolError("an answer without a question")
        expected = self.in_flight[0]
        try:
            return self._matched(expected, frame)
        except RemoteProtocolError as problem:
            raise RemoteProtocolError(f"the answer to {expected.api.name} makes no sense: {problem}") from problem

    def _matched(self, expected: InFlight, frame: memoryview) -> tuple[int, Any]:
        api, version = expected.api, expected.version
        correlation_id, start = _core.parse_response_header(api.key, api.is_flexible(version), frame)
        if correlation_id != expected.correlation_id:
            raise RemoteProtocolError(f"answer {correlation_id} where {expected.correlation_id} was due")
        self.in_flight.popleft()
        if api.key == API_VERSIONS.key:
            error_code = int.from_bytes(frame[start : start + ERROR_CODE_BYTES], "big", signed=True)
            if error_code == UnsupportedVersion.code:
                version = 0
        else:
            self._is_served = True
        return correlation_id, api.decode_response(version, frame, start)

    def negotiation_request(self) -> ApiVersionsRequest:
        """What to ask first on a new connection, in version `API_VERSIONS.versions[-1]`."""
        from ottla import __version__

        return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)

    def negotiated(self, version: int, answer: ApiVersionsResponse) -> int | None:
        """Takes the answer to a negotiation in `version`: None when done, else the version to ask again in.

        Raises:
            KafkaError: the broker refuses; with UNSUPPORTED_VERSION, even in version 0.
        """
        if answer.error_code == UnsupportedVersion.code and version > 0:
            offered = [entry.max_version for entry in answer.api_keys if entry.api_key == API_VERSIONS.key]
            return max(0, min([version - 1, *offered])) if offered else 0
        if answer.error_code:
            raise error(answer.error_code, f"{self._broker} refused ApiVersions")
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        return None
