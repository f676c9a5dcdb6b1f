"""ApiVersions: which APIs a broker speaks, in which versions.

A client's first request. Version 3 names the client's software (KIP-511) and brings features (KIP-584). The answer's
header is always of version 0, and an unknown version is answered in the form of version 0 with error 35
(UNSUPPORTED_VERSION).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class ApiVersionsRequest(Message):
    client_software_name: Annotated[str, V("3+", ignorable=True)] = ""
    client_software_version: Annotated[str, V("3+", ignorable=True)] = ""


class ApiVersionsResponseKey(Message):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Message):
    name: Annotated[str, V("3+")] = ""
    min_version: Annotated[Int16, V("3+")] = 0
    max_version: Annotated[Int16, V("3+")] = 0


class FinalizedFeatureKey(Message):
    name: Annotated[str, V("3+")] = ""
    max_version_level: Annotated[Int16, V("3+")] = 0
    min_version_level: Annotated[Int16, V("3+")] = 0


class ApiVersionsResponse(Message):
    error_code: Int16 = 0
    api_keys: list[ApiVersionsResponseKey] = []
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], V("3+", tag=0)] = []
    finalized_features_epoch: Annotated[Int64, V("3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], V("3+", tag=2)] = []


API_VERSIONS = Api(
    18,
    "ApiVersions",
    "0-3",
    flexible=3,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    has_small_answers=True,
    needs="",
)
