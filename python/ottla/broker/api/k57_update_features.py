"""UpdateFeatures (key 57): finalizes features of the cluster (KIP-584). Kafka 2.7 has none, so every one is unknown.
Only the controller says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import InvalidRequest, NotController
from ottla.slices import Slices
from ottla.wire.k57_update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    UpdateFeatures: TypeAlias = "Call[UpdateFeaturesRequest, UpdateFeaturesResponse]"


async def handle(call: UpdateFeatures, rooms: AdminRooms) -> None:
    asked = call.message
    response = UpdateFeaturesResponse(error_message=None)
    if rooms.controller.is_active:
        slices = Slices()
        for row in asked.feature_updates:
            await slices.row()
            error = InvalidRequest(_wrong(row))
            response.results.append(
                UpdatableFeatureResult(feature=row.feature, error_code=error.code, error_message=str(error))
            )
    else:
        response.error_code = NotController.code
    call.reply(response)


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
