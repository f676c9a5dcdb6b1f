"""AlterUserScramCredentials (key 51): sets and deletes credentials of users (KIP-554). Only the controller does it.

All changes of one user are made, or none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker import scram
from ottla.broker.pace import Pace
from ottla.broker.quotas.entities import encode_name
from ottla.broker.replies import reply
from ottla.controller import admin
from ottla.errors import (
    DuplicateResource,
    KafkaError,
    NotController,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ottla.kafka import SCRAM_ITERATIONS_MIN
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AdminContext


async def handle(broker: AdminContext, request: Request) -> None:
    version = request.api_version
    asked: AlterUserScramCredentialsRequest = ALTER_USER_SCRAM_CREDENTIALS.decode_request(version, request)
    results = []
    users: dict[str, _Changes] = {}
    for deletion in asked.deletions:
        users.setdefault(deletion.name, _Changes()).deletions.append(deletion)
    for upsertion in asked.upsertions:
        users.setdefault(upsertion.name, _Changes()).upsertions.append(upsertion)
    pace = Pace()
    for name, changes in users.items():
        await pace.turn()
        result = AlterUserScramCredentialsResult(user=name)
        try:
            if not broker.controller.is_active:
                raise NotController
            await _alter(broker, name, changes.deletions, changes.upsertions)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    response = AlterUserScramCredentialsResponse(results=results)
    reply(broker, request, ALTER_USER_SCRAM_CREDENTIALS, response)


@dataclass(slots=True)
class _Changes:
    """What a request says about one user."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


async def _alter(
    broker: AdminContext,
    name: str,
    deletions: list[ScramCredentialDeletion],
    upsertions: list[ScramCredentialUpsertion],
) -> None:
    if not name:
        raise UnacceptableCredential("Username must not be empty")
    if name in (".", ".."):
        raise UnacceptableCredential(f"The name {name!r} has no place in the coordination tree: choose another one")
    for row in upsertions:
        _mechanism(row.mechanism)
        if row.iterations < SCRAM_ITERATIONS_MIN:
            raise UnacceptableCredential(f"Too few iterations: {row.iterations}, at least {SCRAM_ITERATIONS_MIN}.")
        if row.iterations > scram.ITERATIONS_MAX:
            raise UnacceptableCredential(f"Too many iterations: {row.iterations}, at most {scram.ITERATIONS_MAX}.")
    kinds = [_mechanism(row.mechanism) for row in deletions] + [_mechanism(row.mechanism) for row in upsertions]
    if max(Counter(kinds).values()) > 1:
        raise DuplicateResource("A user credential cannot be altered twice in the same request")
    entity = encode_name(name)
    config = await admin.get_config(broker.tree, "users", entity)
    for deletion in deletions:
        if config.pop(_mechanism(deletion.mechanism).setting, None) is None:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
    for row in upsertions:
        kind = _mechanism(row.mechanism)
        config[kind.setting] = scram.credential(kind, row.salt, row.salted_password, row.iterations)
    await admin.set_config(broker.tree, "users", entity, config)


def _mechanism(number: int) -> scram.Mechanism:
    kind = scram.mechanism(number)
    if kind is None:
        raise UnsupportedSaslMechanism(f"Unknown SCRAM mechanism: {number}")
    return kind
