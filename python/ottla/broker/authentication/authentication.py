"""The conversations of all connections: from SaslHandshake over the tokens to the gate that opens.

| connection                     | SaslHandshake                  | SaslAuthenticate, or a token                     |
|--------------------------------|--------------------------------|--------------------------------------------------|
| of a listener without SASL     | ILLEGAL_SASL_STATE             | ILLEGAL_SASL_STATE                               |
| not known yet                  | begins; an unknown mechanism   | closed                                           |
|                                | ends the connection            |                                                  |
| in a conversation              | ends the connection            | goes on; the last one lets the client speak, a   |
|                                |                                | wrong one ends the connection                    |
| known, for ever                | ILLEGAL_SASL_STATE             | ILLEGAL_SASL_STATE                               |
| known, for a time (KIP-368)    | begins anew, once a second at  | ILLEGAL_SASL_STATE                               |
|                                | most: then ILLEGAL_SASL_STATE  |                                                  |

Everything else that a client sends before it is known the hub's gate refuses (`rust/net/session.rs`). A client that
is refused is told after `connection.failed.authentication.delay.ms`, so that guessing takes time; until then nothing
more is taken from it.

Source: SaslServerAuthenticator.java, KafkaChannel.maybeBeginServerReauthentication.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import trio

from ottla.broker.authentication import oauthbearer, plain
from ottla.broker.authentication.exchange import Exchange, Refused
from ottla.broker.authentication.keys import Keys
from ottla.broker.authentication.listeners import SCRAM, Sasl
from ottla.broker.authentication.oauthbearer import OAuthBearer
from ottla.broker.authentication.plain import Plain
from ottla.broker.authentication.scram import Scram
from ottla.broker.authentication.tokens import Rules, Signed, Unsigned
from ottla.broker.hosts import host_of
from ottla.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from ottla.logging_setup import HIDDEN
from ottla.wire.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from ottla._core import Hub
    from ottla.broker.audit.audit import Audit
    from ottla.broker.authentication.credentials import Credentials
    from ottla.broker.call import Call

    SaslHandshake: TypeAlias = "Call[SaslHandshakeRequest, SaslHandshakeResponse]"
    SaslAuthenticate: TypeAlias = "Call[SaslAuthenticateRequest, SaslAuthenticateResponse]"

logger = logging.getLogger("ottla.broker")

#: How long a client may take to say who it is. Kafka's clients wait for an answer as long.
GREETING_MS: Final = 30_000
#: The time between two proofs of one client, at least.
ANEW_S: Final = 1.0
#: Of PLAIN and SCRAM: names and passwords are short. Anybody may send a token, and have the loop look at it.
TOKEN_BYTES_MAX: Final = 16 << 10
#: The version of SaslAuthenticate from which on an answer tells how long a session is.
SESSIONS_SINCE: Final = 1
#: The version of SaslAuthenticate that stands for a token without a header, as clients before Kafka 1.0 send it.
TOKEN: Final = -1


@dataclass(slots=True)
class _Known:
    """A client that has proved who it is, and by which mechanism.

    has_end: True if its session ends, unless the client proves it again.
    """

    user: str
    mechanism: str
    has_end: bool
    asked_anew_at: float = float("-inf")


class Counts(NamedTuple):
    """Clients of a listener that said who they are, and those that were refused, since the start; and as often as
    clients did so again, whose session was to end. `without_again`: clients that succeeded, and are too old to say it
    again.
    """

    succeeded: int = 0
    failed: int = 0
    succeeded_again: int = 0
    failed_again: int = 0
    without_again: int = 0


@dataclass(slots=True)
class _Conversation:
    sasl: Sasl
    mechanism: str
    exchange: Exchange


class Authentication:
    """Of one broker. All methods are for the loop's thread.

    users: The names of the clients that are known, by connection.
    """

    def __init__(self, hub: Hub, credentials: Credentials, users: dict[int, str], audit: Audit | None = None) -> None:
        self.credentials: Final = credentials
        #: By listener.
        self.counts: dict[str, Counts] = {}
        self._hub = hub
        self._users = users
        self._audit = audit
        #: Connections that end because they were refused.
        self._refused: set[int] = set()
        self._listeners: dict[str, Sasl] = {}
        self._known: dict[int, _Known] = {}
        self._conversations: dict[int, _Conversation] = {}
        #: Of tokens, by where they are.
        self._keys: dict[str, Keys] = {}
        self._new_keys, self._to_read = trio.open_memory_channel[Keys](math.inf)

    async def run(self) -> None:
        """Reads the keys that sign tokens, until cancelled."""
        async with trio.open_nursery() as nursery:
            async for keys in self._to_read:
                nursery.start_soon(keys.run)

    def serve(self, listener: str, sasl: Sasl) -> None:
        """From now on clients of a listener, whose socket is open, have to say who they are."""
        self._listeners[listener] = sasl
        url = None if sasl.tokens is None else sasl.tokens.keys_url
        if sasl.tokens is not None and url is not None and url not in self._keys:
            self._keys[url] = Keys(url, sasl.tokens.refresh_ms)
            self._new_keys.send_nowait(self._keys[url])
        self.counts.setdefault(listener, Counts())
        self._hub.greet(listener, GREETING_MS)

    def served(self, listener: str) -> Sasl | None:
        """Returns how clients of a listener say who they are; None if they do not."""
        return self._listeners.get(listener)

    def disconnected(self, connection: int) -> None:
        """Forgets a connection that has ended."""
        self._refused.discard(connection)
        self._users.pop(connection, None)
        self._known.pop(connection, None)
        self._conversations.pop(connection, None)

    def awaits(self, connection: int, listener: str) -> bool:
        """True if the client of a connection has to say who it is, and neither has done so nor was refused."""
        is_over = connection in self._known or connection in self._refused
        return listener in self._listeners and not is_over

    def handshake(self, call: SaslHandshake) -> None:
        """Answers the request that chooses a mechanism."""
        connection = call.request.connection_id
        sasl = self._listeners.get(call.session.listener)
        mechanism = call.message.mechanism
        if sasl is None or not self._may_begin(connection):
            call.reply(SaslHandshakeResponse(error_code=IllegalSaslState.code))
            return
        answer = SaslHandshakeResponse(mechanisms=list(sasl.mechanisms))
        if connection in self._conversations:
            answer = SaslHandshakeResponse(error_code=IllegalSaslState.code)
            self._end(call, sasl, answer, "a SaslHandshake in the midst of another one")
        elif mechanism not in sasl.mechanisms:
            answer.error_code = UnsupportedSaslMechanism.code
            reason = f"mechanism {mechanism!r}, and {', '.join(sasl.mechanisms)} are served"
            self._end(call, sasl, answer, reason, mechanism)
        else:
            self._conversations[connection] = _Conversation(sasl, mechanism, self._exchange(sasl, mechanism))
            if call.version == 0:
                self._hub.take_tokens(connection)
            call.reply(answer)

    def _may_begin(self, connection: int) -> bool:
        known = self._known.get(connection)
        if known is None:
            return True
        now = trio.current_time()
        if not known.has_end or now - known.asked_anew_at < ANEW_S:
            return False
        known.asked_anew_at = now
        return True

    def _exchange(self, sasl: Sasl, mechanism: str) -> Exchange:
        if mechanism == plain.NAME:
            return Plain(sasl.passwords)
        if mechanism == oauthbearer.NAME:
            assert sasl.tokens is not None, "a listener with OAUTHBEARER has rules for it"
            return OAuthBearer(self._validator(sasl.tokens))
        kind = SCRAM[mechanism]
        return Scram(kind, partial(self.credentials.find, kind))

    def _validator(self, rules: Rules) -> Signed | Unsigned:
        return Unsigned(rules) if rules.keys_url is None else Signed(rules, self._keys[rules.keys_url])

    def authenticate(self, call: SaslAuthenticate) -> None:
        """Answers a token of a client."""
        connection = call.request.connection_id
        token = bytes(call.request) if call.version == TOKEN else call.message.auth_bytes
        conversation = self._conversations.get(connection)
        if conversation is None:
            self._out_of_place(call)
            return
        try:
            most = oauthbearer.TOKEN_BYTES_MAX if conversation.mechanism == oauthbearer.NAME else TOKEN_BYTES_MAX
            if len(token) > most:
                raise Refused(f"a token of {len(token)} bytes, at most {most} are looked at")
            answer = conversation.exchange.step(token)
            user = conversation.exchange.user
            if user is not None:
                self._check_same(connection, user, conversation.mechanism)
        except Refused as refused:
            self._refuse(call, conversation, refused)
            return
        lifetime_ms = 0
        if user is not None:
            self._count_success(call)
            lifetime_ms = self._let_speak(connection, conversation, user)
            self._note(call, conversation.mechanism, user)
        if call.version == TOKEN:
            call.request.reply(answer)
        else:
            call.reply(SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms))

    def _let_speak(self, connection: int, conversation: _Conversation, user: str) -> int:
        """Opens the gate. Returns the milliseconds for which it is open; 0: for ever."""
        mechanism = conversation.mechanism
        for_ms = conversation.sasl.session_ms[mechanism]
        ends_at_s = conversation.exchange.ends_at_s
        if ends_at_s is not None and for_ms > 0:
            # As in Kafka, a session without an end outlives its token. One that is over already is taken once more.
            for_ms = max(1, min(for_ms, int(1000 * (ends_at_s - time.time()))))
        before = self._known.get(connection)
        known = _Known(user, mechanism, for_ms > 0)
        if before is not None:
            known.asked_anew_at = before.asked_anew_at
        self._known[connection] = known
        self._users[connection] = user
        del self._conversations[connection]
        self._hub.let_speak(connection, for_ms or None)
        logger.debug("connection %d is '%s', by %s", connection, user, mechanism)
        return for_ms

    def _check_same(self, connection: int, user: str, mechanism: str) -> None:
        """Raises Refused if a client proves to be another user than before, or by another mechanism."""
        before = self._known.get(connection)
        if before is None:
            return
        if before.mechanism != mechanism:
            told = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{before.mechanism}'"
            )
            raise Refused(told, told)
        if before.user != user:
            told = f"Cannot change principals during re-authentication from User.{before.user}: User.{user}"
            raise Refused(told, told)

    def _count_success(self, call: SaslAuthenticate) -> None:
        """Counts a client before it is known. As in Kafka, it is one that can say again who it is if it asks for the
        session's time.
        """
        before = self.counts[call.session.listener]
        if call.request.connection_id in self._known:
            counts = before._replace(succeeded_again=before.succeeded_again + 1)
        else:
            is_old = call.version < SESSIONS_SINCE
            counts = before._replace(succeeded=before.succeeded + 1, without_again=before.without_again + is_old)
        self.counts[call.session.listener] = counts

    def _count_failure(self, call: SaslHandshake | SaslAuthenticate) -> None:
        before = self.counts[call.session.listener]
        if call.request.connection_id in self._known:
            counts = before._replace(failed_again=before.failed_again + 1)
        else:
            counts = before._replace(failed=before.failed + 1)
        self.counts[call.session.listener] = counts

    def _out_of_place(self, call: SaslAuthenticate) -> None:
        """A token without a handshake."""
        if call.session.listener not in self._listeners:
            told = f"Listener {call.session.listener} needs no authentication: use security.protocol=PLAINTEXT."
        elif call.request.connection_id in self._known:
            told = "SaslAuthenticate request received after successful authentication"
        else:
            call.refuse("SaslAuthenticate without a SaslHandshake")
            return
        call.reply(SaslAuthenticateResponse(error_code=IllegalSaslState.code, error_message=told))

    def _refuse(self, call: SaslAuthenticate, conversation: _Conversation, refused: Refused) -> None:
        when = "re-authentication" if call.request.connection_id in self._known else "authentication"
        mechanism = conversation.mechanism
        told = refused.told
        if told is None:
            told = f"Authentication failed during {when} due to invalid credentials with SASL mechanism {mechanism}"
        answer = SaslAuthenticateResponse(error_code=SaslAuthenticationFailed.code, error_message=told)
        reason, claimed = f"{when} by {mechanism} failed: {refused}", conversation.exchange.claimed
        passwords = conversation.sasl.passwords
        if claimed is not None and claimed not in passwords and claimed in passwords.values():
            # Somebody mistook the fields.
            reason, claimed = reason.replace(claimed, HIDDEN), HIDDEN
        self._end(call, conversation.sasl, answer, reason, mechanism, claimed)

    def _note(
        self,
        call: SaslHandshake | SaslAuthenticate,
        mechanism: str | None,
        user: str | None,
        reason: str | None = None,
    ) -> None:
        """Writes into the audit log who has come in, or for what reason not."""
        if self._audit is not None:
            address = host_of(call.session.address[0])
            listener, client_id = call.session.listener, call.client_id
            self._audit.authentication(address, listener, client_id, mechanism=mechanism, user=user, reason=reason)

    def _end(
        self,
        call: SaslHandshake | SaslAuthenticate,
        sasl: Sasl,
        answer: SaslHandshakeResponse | SaslAuthenticateResponse,
        reason: str,
        mechanism: str | None = None,
        claimed: str | None = None,
    ) -> None:
        """Answers when the delay is over, and closes the connection. A token gets no answer: it has no error code."""
        self._conversations.pop(call.request.connection_id, None)
        self._count_failure(call)
        self._refused.add(call.request.connection_id)
        self._note(call, mechanism, claimed, reason)

        async def later() -> None:
            await trio.sleep(sasl.failure_delay_ms / 1000)
            if call.version == TOKEN:
                call.refuse(reason)
            else:
                call.reply(answer)  # type: ignore[arg-type]  # each to its own call
                self._hub.refuse(call.request.connection_id, reason)

        call.in_background(later)
