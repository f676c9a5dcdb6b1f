"""UpdateFeatures: finalizes features of the cluster (KIP-584)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class FeatureUpdateKey(Message):
    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: bool = False


class UpdateFeaturesRequest(Message):
    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey] = []


class UpdatableFeatureResult(Message):
    feature: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class UpdateFeaturesResponse(Message):
    throttle_time_ms: Int32 = 0
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
