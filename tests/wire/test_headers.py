"""Request and response headers, byte by byte as the protocol guide describes them."""

import struct

import pytest

from ottla.errors import RemoteProtocolError
from ottla.wire import headers


def test_request_frame_of_each_header_version() -> None:
    assert headers.request_frame(7, 0, 5, "c", b"B") == struct.pack(">ihhi", 9, 7, 0, 5) + b"B"
    assert headers.request_frame(3, 1, 5, "c", b"B") == struct.pack(">ihhih", 12, 3, 1, 5, 1) + b"cB"
    assert headers.request_frame(3, 9, 5, "c", b"B") == struct.pack(">ihhih", 13, 3, 9, 5, 1) + b"c\0B"
    assert headers.request_frame(3, 1, 5, None, b"") == struct.pack(">ihhih", 10, 3, 1, 5, -1)


def test_response_header() -> None:
    assert headers.parse_response_header(3, 1, struct.pack(">i", 9) + b"B") == (9, 4)
    assert headers.parse_response_header(3, 9, struct.pack(">i", 9) + b"\0B") == (9, 5)
    assert headers.parse_response_header(3, 9, memoryview(struct.pack(">i", 9) + b"\1\5\2xyB")) == (9, 9)
    # Clients read the answer to ApiVersions before they know what the broker speaks.
    assert headers.parse_response_header(18, 3, struct.pack(">i", 9) + b"B") == (9, 4)


def test_a_cut_response_header_names_its_field() -> None:
    with pytest.raises(RemoteProtocolError, match="correlation_id at byte 0: 4 bytes are needed, 3 are left"):
        headers.parse_response_header(3, 1, b"\0\0\0")
    with pytest.raises(RemoteProtocolError, match=r"response_header\.tagged fields at byte 4"):
        headers.parse_response_header(3, 9, struct.pack(">i", 9))


def test_a_client_id_too_long_for_its_length_field() -> None:
    from ottla.errors import LocalProtocolError

    with pytest.raises(LocalProtocolError, match="client_id"):
        headers.request_frame(3, 1, 5, "c" * 40_000, b"")
