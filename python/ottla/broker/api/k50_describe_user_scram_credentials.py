"""DescribeUserScramCredentials (key 50): for which mechanisms users have a credential (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker import scram
from ottla.broker.quotas.entities import all_entities, encode_name
from ottla.broker.quotas.limits import ABSENT
from ottla.controller.configs import get_config
from ottla.errors import DuplicateResource, KafkaError, ResourceNotFound, UnknownServerError
from ottla.slices import Slices
from ottla.wire.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    DescribeUserScramCredentials: TypeAlias = (
        "Call[DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse]"
    )


async def handle(call: DescribeUserScramCredentials, rooms: AdminRooms) -> None:
    asked = call.message
    results = []
    slices = Slices()
    if asked.users:
        counts = Counter(row.name for row in asked.users)
        for name, count in counts.items():
            await slices.row()
            config = await get_config(rooms.tree, "users", encode_name(name)) if scram.has_place(name) else {}
            results.append(_described(name, config, count))
    else:
        for entity, config in await all_entities(rooms.tree):
            await slices.row()
            if entity.client_id is ABSENT and entity.user is not None and _has_credential(config):
                results.append(_described(entity.user, config, 1))
        results.sort(key=lambda row: row.user)
    response = DescribeUserScramCredentialsResponse(results=results)
    call.reply(response)


def _has_credential(config: dict[str, str]) -> bool:
    return any(kind.setting in config for kind in scram.Mechanism)


def _described(name: str, config: dict[str, str], count: int) -> DescribeUserScramCredentialsResult:
    row = DescribeUserScramCredentialsResult(user=name)
    try:
        if not name:
            raise ResourceNotFound("Username must not be empty")
        if count > 1:
            raise DuplicateResource(
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        if not _has_credential(config):
            raise ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}")
        row.credential_infos = [
            CredentialInfo(mechanism=kind.value, iterations=credential.iterations)
            for kind, credential in scram.credentials_of(config).items()
        ]
    except KafkaError as error:
        row.error_code, row.error_message = error.code, str(error)
    except ValueError as error:
        row.error_code, row.error_message = UnknownServerError.code, f"/config/users has {error}"
    return row
