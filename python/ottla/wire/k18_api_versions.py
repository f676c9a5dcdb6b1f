"""ApiVersions: which APIs a broker speaks, in which versions.

A client's first request, allowed before it is authenticated. The answer's header is always of version 0, and an unknown
version is answered in the form of version 0 with error 35 (UNSUPPORTED_VERSION), in Kafka with the versions of this one
API (KIP-511).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class ApiVersionsRequest(Message):
    """A client that says who it is."""

    #: The client library, for metrics and logs (KIP-511): letters, digits, "-" and ".", the first and the last a letter
    #: or a digit. Anything else is INVALID_REQUEST.
    client_software_name: Annotated[str, V("3+", ignorable=True)] = ""
    #: Its version, under the same rule.
    client_software_version: Annotated[str, V("3+", ignorable=True)] = ""


class ApiVersionsResponseKey(Message):
    """An API and the versions of it that the broker speaks."""

    #: The API's number.
    api_key: Int16 = 0
    #: The first version.
    min_version: Int16 = 0
    #: The last version.
    max_version: Int16 = 0


class SupportedFeatureKey(Message):
    """A feature that this broker's software has (KIP-584)."""

    name: Annotated[str, V("3+")] = ""
    #: The first version of the feature that it has.
    min_version: Annotated[Int16, V("3+")] = 0
    #: The last version of the feature that it has.
    max_version: Annotated[Int16, V("3+")] = 0


class FinalizedFeatureKey(Message):
    """A feature that all brokers may use (KIP-584)."""

    name: Annotated[str, V("3+")] = ""
    #: The last version of the feature that brokers may use.
    max_version_level: Annotated[Int16, V("3+")] = 0
    #: The first version of the feature that brokers may use.
    min_version_level: Annotated[Int16, V("3+")] = 0


class ApiVersionsResponse(Message):
    """The APIs and features of one broker."""

    error_code: Int16 = 0
    #: In any order. A client that misses an API or a version has to do without.
    api_keys: list[ApiVersionsResponseKey] = []
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    #: Kafka 2.7 has none yet.
    supported_features: Annotated[list[SupportedFeatureKey], V("3+", tag=0)] = []
    #: Rises with each change of `finalized_features`, since answers of several brokers may differ for a moment. -1: not
    #: known, and then the list says nothing.
    finalized_features_epoch: Annotated[Int64, V("3+", tag=1, ignorable=True)] = -1
    #: As UpdateFeatures has set them.
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
