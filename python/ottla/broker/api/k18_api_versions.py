"""ApiVersions (key 18): which APIs and versions this broker speaks.

An unknown version of this one request is answered (in version 0's form, with error 35) rather than refused; the hub
does that. Version 3: flexible, the client tells its software's name and version (KIP-511). No features are finalized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import InvalidRequest
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import ClusterContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: ClusterContext, request: Request) -> None:
    version = request.api_version
    if version >= 3:
        asked = API_VERSIONS.decode_request(version, request)
        if not (_SOFTWARE.fullmatch(asked.client_software_name) and _SOFTWARE.fullmatch(asked.client_software_version)):
            return reply(broker, request, API_VERSIONS, ApiVersionsResponse(error_code=InvalidRequest.code))
    keys = [
        ApiVersionsResponseKey(api_key=key, min_version=api.lowest, max_version=api.highest)
        for key, api in broker.advertised.items()
    ]
    return reply(broker, request, API_VERSIONS, ApiVersionsResponse(api_keys=keys))
