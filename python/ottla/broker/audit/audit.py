"""The audit log, as the broker calls it.

Each line has `time` (RFC 3339, UTC), `event`, `address`, `listener`, `allowed`, and what an event is about:

| event            | fields                                                                                |
|------------------|---------------------------------------------------------------------------------------|
| `authorization`  | `principal`, `client_id`, `api`, `operation`, `resource`, `name`, `rule`              |
| `authentication` | `user` (claimed, if it was refused), `client_id`, `mechanism`, `reason`               |

`left_out` is how often the same happened in the minute after the line. `others` stands for all that is left out of an
address that does too many different things.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ottla.broker.audit import settings
from ottla.broker.audit.file import AuditFile
from ottla.broker.audit.repeats import Fields, Repeats
from ottla.broker.audit.writer import Writer
from ottla.broker.hosts import host_of
from ottla.config import ConfigError
from ottla.logging_setup import VALUE_MAX, Secrets

if TYPE_CHECKING:
    from ottla._core import Disconnected
    from ottla.broker.session import Session
    from ottla.config import BrokerConfig

#: In the reasons of the hub for the end of a connection whose TLS handshake has failed.
HANDSHAKE: Final = "TLS handshake"
#: Characters of the name of a user that was refused: it may be anything.
CLAIMED_MAX: Final = 64
#: How often counts are looked at.
LOOK_S: Final = 5.0
#: The end of a broker waits so long for the disk.
CLOSE_S: Final = 5.0


class Asker(NamedTuple):
    """The client of a request, and the name of the API that it calls. The principal is without its type."""

    principal: str
    address: str
    listener: str
    client_id: str
    api: str


class Audit:
    """All methods are for the loop's thread. None of them waits for the disk, and none raises.

    notes_allowed: What is allowed is wanted, too.
    """

    def __init__(self, writer: Writer, *, notes_allowed: bool, secrets: Secrets) -> None:
        self.notes_allowed: Final = notes_allowed
        self._writer = writer
        self._secrets = secrets
        self._repeats = Repeats()

    @property
    def written_total(self) -> int:
        """Lines that are in the file."""
        return self._writer.written_total

    @property
    def lost_total(self) -> int:
        """Lines that are not, because the disk did not take them in time."""
        return self._writer.lost_total

    def authorization(
        self,
        asker: Asker,
        operation: str,
        resource: str,
        name: str,
        *,
        is_allowed: bool,
        rule: Callable[[], str],
    ) -> None:
        """A client was allowed something, or was denied it."""

        def fields() -> Fields:
            return {
                "event": "authorization",
                "principal": f"User:{_cut(asker.principal)}",
                "address": asker.address,
                "listener": asker.listener,
                "client_id": _cut(asker.client_id),
                "api": asker.api,
                "operation": operation,
                "resource": resource,
                "name": _cut(name),
                "allowed": is_allowed,
                "rule": _cut(rule()),
            }

        self._note("authorization", asker.address, (asker, operation, resource, name, is_allowed), fields)

    def authentication(
        self,
        address: str,
        listener: str,
        client_id: str,
        *,
        mechanism: str | None,
        user: str | None,
        reason: str | None = None,
    ) -> None:
        """A client has said who it is. `reason`: why it was not believed; None if it was. A name that is not believed
        may be anything, such as the password of somebody who mistook the field.
        """

        def fields() -> Fields:
            shown = None if user is None else _cut(self._secrets(user), VALUE_MAX if reason is None else CLAIMED_MAX)
            made: Fields = {
                "event": "authentication",
                "user": shown,
                "address": address,
                "listener": listener,
                "client_id": _cut(client_id),
                "mechanism": None if mechanism is None else _cut(mechanism, CLAIMED_MAX),
                "allowed": reason is None,
            }
            if reason is not None:
                because = reason if user is None or shown is None else reason.replace(user, shown)
                made["reason"] = _cut(self._secrets(because))
            return made

        if reason is not None or self.notes_allowed:
            self._note("authentication", address, (listener, mechanism, user, reason), fields)

    def certificate(
        self, session: Session, client_id: str, *, user: str | None = None, reason: str | None = None
    ) -> None:
        """A client has shown a certificate, which gives it a name; or has none, for a reason."""
        address = host_of(session.address[0])
        self.authentication(address, session.listener, client_id, mechanism="TLS", user=user, reason=reason)

    def disconnected(self, event: Disconnected, *, awaited: bool) -> None:
        """A connection has ended. `awaited`: its client had still to say who it is, and was not refused before."""
        reason = event.reason
        if reason is None:
            return
        is_handshake = HANDSHAKE in reason
        if is_handshake or awaited:
            self.authentication(
                host_of(event.peer_address[0]),
                event.listener,
                event.client_id or "",
                mechanism="TLS" if is_handshake else None,
                user=None,
                reason=reason,
            )

    async def run(self) -> None:
        """Writes the counts of what was left out, until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            self._put(self._repeats.due(trio.current_time()))

    def end(self) -> None:
        """Nothing follows: all counts are written."""
        self._put(self._repeats.due(float("inf")))

    def _note(self, event: str, address: str, thing: Hashable, fields: Callable[[], Fields]) -> None:
        self._put(self._repeats.told(event, address, thing, fields, trio.current_time()))

    def _put(self, lines: list[Fields]) -> None:
        for each in lines:
            moment = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._writer.put(json.dumps({"time": moment, **each}).encode() + b"\n")


def _cut(text: str, length_max: int = VALUE_MAX) -> str:
    return text if len(text) <= length_max else f"{text[:length_max]}... ({len(text):,} characters)"


@asynccontextmanager
async def kept(config: BrokerConfig) -> AsyncIterator[Audit | None]:
    """The audit log inside the `async with` block, or None if the settings want none. Raises ConfigError if its file
    cannot be written.
    """
    found = settings.of(config)
    if found is None:
        yield None
        return
    file = AuditFile(found.path, found.bytes_max, found.files_max)
    try:
        await trio.to_thread.run_sync(file.open)
    except OSError as error:
        raise ConfigError(settings.FILE, f"{settings.FILE}={found.path}: cannot be written: {error.strerror}") from None
    writer = Writer(file)
    made = Audit(writer, notes_allowed=found.notes_allowed, secrets=Secrets(config.secrets))
    try:
        yield made
    finally:
        made.end()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_S):
            await trio.to_thread.run_sync(writer.close, abandon_on_cancel=True)
