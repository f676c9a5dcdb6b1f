"""Fetch whose records stay where they were received.

The declared schema would copy them out of the frame; the decoder in rust/wire/fetch/response.rs gives views of it. An
answer keeps its frame alive as long as one of its views is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla import _core
from ottla.wire import k01_fetch
from ottla.wire.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.schema import Api

if TYPE_CHECKING:
    # A tool of type checkers, not of users: the standard library has Buffer from Python 3.12 on.
    from typing_extensions import Buffer


class _Fetch(Api[FetchRequest, Any]):
    """The declared API with another decoder for the answers: they are `_core.FetchResponse`."""

    def decode_response(self, version: int, buffer: Buffer, start: int = 0) -> _core.FetchResponse:
        return _core.decode_fetch_response(buffer, version, start)


FETCH = _Fetch(
    k01_fetch.FETCH.key,
    k01_fetch.FETCH.name,
    f"{k01_fetch.FETCH.versions[0]}-{k01_fetch.FETCH.versions[-1]}",
    flexible=k01_fetch.FETCH.flexible_from,
    request=FetchRequest,
    response=k01_fetch.FetchResponse,
)

__all__ = ["FETCH", "FetchPartition", "FetchRequest", "FetchTopic"]
