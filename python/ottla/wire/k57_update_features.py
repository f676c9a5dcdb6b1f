"""UpdateFeatures: finalizes features of the cluster (KIP-584). Only the controller does it."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class FeatureUpdateKey(Message):
    """A change of one feature."""

    #: Its name.
    feature: str = ""
    #: The last version that brokers may use from now on. Less than 1 takes the feature away.
    max_version_level: Int16 = 0
    #: Has to be true to lower the version or to take the feature away, and false to raise it.
    allow_downgrade: bool = False


class UpdateFeaturesRequest(Message):
    """Changes of features."""

    #: How long the controller waits until it has read back what it has written.
    timeout_ms: Int32 = 60_000
    #: Each by itself: one may be made and the next refused.
    feature_updates: list[FeatureUpdateKey] = []


class UpdatableFeatureResult(Message):
    """The result for one feature."""

    #: Its name.
    feature: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class UpdateFeaturesResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: NOT_CONTROLLER, for instance.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    results: list[UpdatableFeatureResult] = []


UPDATE_FEATURES = Api(
    57,
    "UpdateFeatures",
    "0",
    flexible=0,
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    items_max=FEW_ITEMS_MAX,
    needs="ALTER on CLUSTER",
)
