"""AlterUserScramCredentials (key 51): sets and deletes credentials of users (KIP-554). Only the controller does it.

All changes of one user are made, or none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker import scram
from ottla.broker.quotas.entities import encode_name
from ottla.controller.configs import Entity, Wanted, get_configs, set_configs
from ottla.controller.writes import pieces_of
from ottla.coordination.znodes import MalformedNode
from ottla.errors import (
    ClusterAuthorizationFailed,
    DuplicateResource,
    InvalidConfig,
    KafkaError,
    NotController,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ottla.kafka import SCRAM_ITERATIONS_MIN
from ottla.slices import Slices
from ottla.wire.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    AlterUserScramCredentials: TypeAlias = "Call[AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse]"


async def handle(call: AlterUserScramCredentials, rooms: AdminRooms) -> None:
    asked = call.message
    users: dict[str, _Changes] = {}
    slices = Slices()
    for deletion in asked.deletions:
        await slices.row()
        users.setdefault(deletion.name, _Changes()).deletions.append(deletion)
    for upsertion in asked.upsertions:
        await slices.row()
        users.setdefault(upsertion.name, _Changes()).upsertions.append(upsertion)
    rights = call.rights
    is_forbidden = rights is not None and not rights.may(Operation.ALTER, Resource.CLUSTER)
    response = AlterUserScramCredentialsResponse()
    for some in pieces_of(list(users.items())):
        response.results += await _alter(rooms, dict(some), is_forbidden=is_forbidden)
    call.reply(response)


@dataclass(slots=True)
class _Changes:
    """The changes that a request asks for one user."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


async def _alter(
    rooms: AdminRooms, users: dict[str, _Changes], *, is_forbidden: bool
) -> list[AlterUserScramCredentialsResult]:
    errors: dict[str, KafkaError | None] = {}
    entities: dict[str, Entity] = {}
    wanted: dict[str, Wanted] = {}
    slices = Slices()
    for name, changes in users.items():
        await slices.row()
        errors[name] = None
        try:
            if not rooms.controller.is_active:
                raise NotController
            if is_forbidden:
                raise ClusterAuthorizationFailed
            _check(name, changes)
            entities[name] = Entity("users", encode_name(name))
        except KafkaError as error:
            errors[name] = error
    stored = await get_configs(rooms.tree, list(entities.values()))
    for (name, entity), config in zip(entities.items(), stored, strict=True):
        await slices.row()
        try:
            wanted[name] = Wanted(entity, _altered(config, users[name]))
        except KafkaError as error:
            errors[name] = error
    errors.update(zip(wanted, await set_configs(rooms.tree, list(wanted.values())), strict=True))
    return [
        AlterUserScramCredentialsResult(user=name)
        if error is None
        else AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=str(error))
        for name, error in errors.items()
    ]


def _check(name: str, changes: _Changes) -> None:
    if not name:
        raise UnacceptableCredential("Username must not be empty")
    if name in (".", ".."):
        raise UnacceptableCredential(f"The name {name!r} has no place in the coordination tree: choose another one")
    for row in changes.upsertions:
        _mechanism(row.mechanism)
        if row.iterations < SCRAM_ITERATIONS_MIN:
            raise UnacceptableCredential(f"Too few iterations: {row.iterations}, at least {SCRAM_ITERATIONS_MIN}.")
        if row.iterations > scram.ITERATIONS_MAX:
            raise UnacceptableCredential(f"Too many iterations: {row.iterations}, at most {scram.ITERATIONS_MAX}.")
    kinds = [_mechanism(row.mechanism) for row in changes.deletions]
    kinds += [_mechanism(row.mechanism) for row in changes.upsertions]
    if max(Counter(kinds).values()) > 1:
        raise DuplicateResource("A user credential cannot be altered twice in the same request")


def _altered(config: dict[str, str] | MalformedNode, changes: _Changes) -> dict[str, str]:
    """All settings that a user has then."""
    if isinstance(config, MalformedNode):
        raise InvalidConfig(str(config)) from config
    for deletion in changes.deletions:
        if config.pop(_mechanism(deletion.mechanism).setting, None) is None:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
    for row in changes.upsertions:
        kind = _mechanism(row.mechanism)
        config[kind.setting] = scram.credential(kind, row.salt, row.salted_password, row.iterations)
    return config


def _mechanism(number: int) -> scram.Mechanism:
    kind = scram.mechanism(number)
    if kind is None:
        raise UnsupportedSaslMechanism(f"Unknown SCRAM mechanism: {number}")
    return kind
