"""How long sessions live, and who may have them."""

from __future__ import annotations

from ottla.coordination.server.sessions import TIMEOUT_MS_MAX, TIMEOUT_MS_MIN, Sessions


def test_a_session_lives_while_it_is_heard() -> None:
    sessions: Sessions[str] = Sessions()
    one, other = sessions.begin(1, 5_000, "one", 100.0), sessions.begin(2, 5_000, "other", 100.0)
    one.heard(104.0)
    assert sessions.over(104.9) == []
    assert sessions.over(105.0) == [other]
    sessions.end(other)
    assert (sessions.over(108.9), len(sessions)) == ([], 1)
    assert sessions.over(109.0) == [one]


def test_no_session_is_over_because_nobody_could_be_heard() -> None:
    sessions: Sessions[str] = Sessions()
    session = sessions.begin(1, 5_000, "one", 100.0)
    sessions.stood_still(20.0)
    assert sessions.over(124.9) == []
    assert sessions.over(125.0) == [session]


def test_timeouts_have_bounds() -> None:
    sessions: Sessions[str] = Sessions()
    assert [sessions.begin(number, ms, "", 0.0).timeout_ms for number, ms in enumerate((-1, 5_000, 1 << 30))] == [
        TIMEOUT_MS_MIN,
        5_000,
        TIMEOUT_MS_MAX,
    ]


def test_a_session_goes_over_to_a_client_that_knows_its_password() -> None:
    sessions: Sessions[str] = Sessions()
    session, other = sessions.begin(1, 5_000, "first", 0.0), sessions.begin(2, 5_000, "other", 0.0)
    assert session.password != other.password
    assert sessions.resume(1, other.password, 5_000, "thief", 1.0) is None
    assert sessions.resume(1, b"", 5_000, "thief", 1.0) is None
    assert sessions.resume(3, session.password, 5_000, "late", 1.0) is None
    assert (session.client, sessions.over(5.0)) == ("first", [session, other])
    assert sessions.resume(1, session.password, 6_000, "second", 4.0) == (session, "first")
    assert (session.client, sessions.over(9.9)) == ("second", [other])
    sessions.end(session)
    assert sessions.resume(1, session.password, 5_000, "third", 5.0) is None
