"""Frames around bodies: request headers for clients, response headers for whoever reads answers.

The formats are described in rust/wire/headers.rs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla import _core
from ottla.wire import is_flexible

if TYPE_CHECKING:
    from typing_extensions import Buffer


def request_frame(api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: Buffer) -> bytes:
    """A whole request ready to send: size, header (of the version that API and version ask for), body."""
    return _core.request_frame(api_key, api_version, is_flexible(api_key, api_version), correlation_id, client_id, body)


def parse_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]:
    """Correlation id of a response, and the position in bytes where its body begins; `frame` is what follows the size.

    Raises RemoteProtocolError if the frame ends within its header.
    """
    return _core.parse_response_header(api_key, is_flexible(api_key, api_version), frame)


def request_header_version(api_key: int, api_version: int) -> int:
    """0 (no client id), 1 (client id) or 2 (tagged fields too)."""
    return _core.request_header_version(api_key, api_version, is_flexible(api_key, api_version))


def response_header_version(api_key: int, api_version: int) -> int:
    """1 where tagged fields follow the correlation id, else 0."""
    return _core.response_header_version(api_key, is_flexible(api_key, api_version))
