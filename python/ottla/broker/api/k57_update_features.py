"""UpdateFeatures (key 57): finalizes features of the cluster (KIP-584). Kafka 2.7 has none, so every one is unknown.
Only the controller says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import InvalidRequest, NotController
from ottla.slices import Slices
from ottla.wire.k57_update_features import (
    UPDATE_FEATURES,
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AdminContext


async def handle(broker: AdminContext, request: Request) -> None:
    version = request.api_version
    asked: UpdateFeaturesRequest = UPDATE_FEATURES.decode_request(version, request)
    response = UpdateFeaturesResponse(error_message=None)
    if broker.controller.is_active:
        slices = Slices()
        for row in asked.feature_updates:
            await slices.row()
            error = InvalidRequest(_wrong(row))
            response.results.append(
                UpdatableFeatureResult(feature=row.feature, error_code=error.code, error_message=str(error))
            )
    else:
        response.error_code = NotController.code
    reply(broker, request, UPDATE_FEATURES, response)


def _wrong(update: FeatureUpdateKey) -> str:
    if not update.feature:
        return "Feature name can not be empty."
    if update.max_version_level >= 1:
        return f"Could not apply finalized feature update because {update.feature!r} is not supported by the brokers."
    if update.allow_downgrade:
        return "Can not delete non-existing finalized feature."
    return (
        f"Can not provide maxVersionLevel: {update.max_version_level} less than 1 without setting the allowDowngrade "
        "flag to true in the request."
    )
