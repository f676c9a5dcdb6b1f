"""Promises to clients of the coordination tree's server: each broken once."""

from tests.faults.mutants import Mutant

_SERVER = "python/ottla/coordination/server/"
_REQUESTS, _LISTENER, _SESSIONS = _SERVER + "requests.py", _SERVER + "listener.py", _SERVER + "sessions.py"
_REQUESTED = "tests/coordination/server/test_requests.py::"
_LISTENED = "tests/coordination/server/test_listener.py::"
_LIVED = "tests/coordination/server/test_sessions.py::"

MUTANTS = (
    Mutant(
        "tree-server.the-end-of-a-node-is-told-twice",
        _REQUESTS,
        "for key in dict.fromkeys(one.session_id for one in self._watches.fired(event)):",
        "for key in [one.session_id for one in self._watches.fired(event)]:",
        pytest=(f"{_REQUESTED}test_who_watches_a_node_and_its_children_hears_once_that_it_is_gone",),
    ),
    Mutant(
        "tree-server.what-was-missed-is-armed",
        _REQUESTS,
        "is_new = node is not None and node.stat.mzxid > seen",
        "is_new = False",
        pytest=(f"{_REQUESTED}test_a_client_that_is_back_hears_what_it_has_missed",),
    ),
    Mutant(
        "tree-server.watches-outlive-their-connection",
        _REQUESTS,
        "            self._watches.drop_session(id(client))\n",
        "            pass\n",
        pytest=(f"{_REQUESTED}test_watches_go_with_their_connection",),
    ),
    Mutant(
        "tree-server.a-rollback-forgets-the-end-of-a-session",
        _REQUESTS,
        "        self._over.add(session.id)\n",
        "",
        pytest=(f"{_REQUESTED}test_what_was_rolled_back_of_an_ended_session_ends_later",),
    ),
    Mutant(
        "tree-server.a-client-of-another-file-is-taken",
        _REQUESTS,
        "if asked.last_zxid > self.database.zxid:",
        "if False:",
        pytest=(f"{_REQUESTED}test_bad_requests_that_cannot_be_answered",),
    ),
    Mutant(
        "tree-server.null-is-empty",
        _SERVER + "nodes.py",
        "return node.data if node.data or self._noted(path) == node.stat.mzxid else None",
        "return node.data",
        pytest=(f"{_REQUESTED}test_null_and_empty_are_two",),
    ),
    Mutant(
        "tree-server.a-note-outlives-its-data",
        _SERVER + "nodes.py",
        "or self._noted(path) == node.stat.mzxid else None",
        "or self._noted(path) else None",
        pytest=(f"{_REQUESTED}test_a_note_is_for_one_transaction",),
    ),
    Mutant(
        "tree-server.what-was-rolled-back-is-noted",
        _SERVER + "nodes.py",
        "        self._notes.clear()\n        super().rollback()\n",
        "        super().rollback()\n",
        pytest=(f"{_REQUESTED}test_what_was_rolled_back_is_not_noted",),
    ),
    Mutant(
        "tree-server.notes-of-what-is-gone-stay",
        _SERVER + "nodes.py",
        "        self._sql.execute(_PURGE)\n",
        "",
        pytest=(f"{_REQUESTED}test_empty_data_are_empty_after_a_restart",),
    ),
    Mutant(
        "tree-server.a-removed-watch-fires",
        _REQUESTS,
        "            self._watches.disarm(path, id(client), _heard, children=key[0])\n",
        "",
        pytest=(f"{_REQUESTED}test_watches_are_removed",),
    ),
    Mutant(
        "tree-server.any-password-resumes-a-session",
        _SESSIONS,
        "if session is None or not hmac.compare_digest(session.password, password):",
        "if session is None:",
        pytest=(f"{_LIVED}test_a_session_goes_over_to_a_client_that_knows_its_password",),
    ),
    Mutant(
        "tree-server.a-server-that-stood-still-ends-sessions",
        _LISTENER,
        "                self.service.sessions.stood_still(late)\n",
        "",
        pytest=(f"{_LISTENED}test_a_server_that_stood_still_ends_no_session",),
    ),
    Mutant(
        "tree-server.a-client-that-does-not-read-fills-the-memory",
        _LISTENER,
        "if self._ends or self._unread > UNREAD_BYTES_MAX or (frame := self._next(received)) is None:",
        "if self._ends or (frame := self._next(received)) is None:",
        pytest=(f"{_LISTENED}test_a_client_that_reads_nothing_is_not_listened_to",),
    ),
    Mutant(
        "tree-server.a-frame-of-any-size",
        _LISTENER,
        "if not 0 < size <= FRAME_BYTES_MAX:",
        "if False:",
        pytest=(f"{_LISTENED}test_what_is_no_frame_costs_its_connection_alone",),
    ),
    Mutant(
        "tree-server.told-before-it-is-committed",
        _LISTENER,
        "            self._held.append(frame)\n",
        "            self._unsent += frame\n            self._wake()\n",
        pytest=(f"{_LISTENED}test_without_room_clients_lose_their_connections_and_nothing_that_was_told",),
    ),
)
