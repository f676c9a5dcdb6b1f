"""ApiVersions (key 18): which APIs and versions this broker speaks.

An unknown version of this one request is answered (in version 0's form, with error 35) rather than refused; the hub
does that. Version 3: flexible, the client tells its software's name and version (KIP-511). No features are finalized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import InvalidRequest
from ottla.wire.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse, ApiVersionsResponseKey

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import ClusterRooms

    ApiVersions: TypeAlias = "Call[ApiVersionsRequest, ApiVersionsResponse]"

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(call: ApiVersions, rooms: ClusterRooms) -> None:
    if call.version >= 3:
        asked = call.message
        if not (_SOFTWARE.fullmatch(asked.client_software_name) and _SOFTWARE.fullmatch(asked.client_software_version)):
            return call.reply(ApiVersionsResponse(error_code=InvalidRequest.code))
    keys = [
        ApiVersionsResponseKey(api_key=key, min_version=api.lowest, max_version=api.highest)
        for key, api in rooms.advertised.items()
    ]
    return call.reply(ApiVersionsResponse(api_keys=keys))
