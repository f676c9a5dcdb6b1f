"""Fetch sessions: each promise broken once."""

from tests.faults.mutants import Mutant

MUTANTS = (
    Mutant(
        "sessions.rest-for-another-reader",
        "python/ottla/broker/fetch/session.py",
        "            self.live = dict(self.entries)\n",
        "",
        pytest=("tests/broker/fetch/test_fetch_session_rules.py::test_a_reader_of_another_kind_reads_what_rests",),
    ),
)
