"""Fetch sessions that are lent, and served without Python: each promise broken once."""

from tests.faults.mutants import Mutant

RUST = "direct::tests::sessions"
PYTEST = "tests/broker/leases/test_lent_sessions.py"

MUTANTS = (
    Mutant(
        "sessions.of-any-epoch",
        "rust/direct/session.rs",
        " && self.epoch == epoch",
        "",
        cargo=(f"{RUST}::what_is_not_plain_is_handed_on_and_changes_nothing",),
        pytest=(f"{PYTEST}::test_what_is_wrong_is_answered_by_python_and_the_session_goes_on",),
    ),
    Mutant(
        "sessions.tell-it-again",
        "rust/direct/session.rs",
        "                entry.told = told;\n",
        "",
        cargo=(f"{RUST}::an_answer_names_what_the_client_does_not_know",),
    ),
    Mutant(
        "sessions.tell-records-only",
        "rust/direct/session.rs",
        "answer.records.length() > 0 || told != entry.told",
        "answer.records.length() > 0",
        cargo=(f"{RUST}::an_answer_names_what_the_client_does_not_know",),
    ),
    Mutant(
        "sessions.starve-the-last",
        "rust/direct/session.rs",
        "        quiet.append(&mut named);\n",
        "        named.append(&mut quiet);\n        let quiet = named;\n",
        cargo=(f"{RUST}::who_is_named_comes_last_in_the_next_answer",),
    ),
    Mutant(
        "sessions.served-behind-their-end",
        "rust/direct/session.rs",
        "!self.is_over && ",
        "",
        cargo=(f"{RUST}::a_thread_that_has_found_it_before_its_end_hands_on",),
    ),
    Mutant(
        "sessions.two-fetches-at-once",
        "rust/direct/session.rs",
        " && self.waiting.is_none()",
        "",
        cargo=(f"{RUST}::a_fetch_that_waits_is_answered_once_by_whatever_comes_first",),
    ),
    Mutant(
        "sessions.taken-back-while-one-waits",
        "rust/direct/sessions.rs",
        "state.waiting.take().and_then(|fetch| fetch.upgrade())",
        "None::<Arc<Parked<O>>>",
        cargo=(f"{RUST}::a_fetch_that_waits_is_answered_once_by_whatever_comes_first",),
    ),
    Mutant(
        "sessions.of-any-lease",
        "rust/direct/sessions.rs",
        "self.readable(key, epoch, asking)?",
        "self.leases.get(key.0, key.1)?",
        cargo=(f"{RUST}::each_request_asks_for_the_leases_of_all_its_partitions",),
    ),
    Mutant(
        "sessions.changed-by-what-is-handed-on",
        "rust/direct/sessions.rs",
        "            (state.epoch, state.entries) = before;\n",
        "            drop(before);\n",
        cargo=(f"{RUST}::what_is_not_plain_is_handed_on_and_changes_nothing",),
    ),
    Mutant(
        "sessions.of-another-isolation-level",
        "rust/direct/sessions.rs",
        " || session.reader != asking.reader",
        "",
        cargo=(f"{RUST}::what_is_not_plain_is_handed_on_and_changes_nothing",),
    ),
    Mutant(
        "sessions.rest-for-another-reader",
        "python/ottla/broker/fetch/session.py",
        "            self.live = dict(self.entries)\n",
        "",
        pytest=("tests/broker/fetch/test_fetch_session_rules.py::test_a_reader_of_another_kind_reads_what_rests",),
    ),
    Mutant(
        "sessions.lent-while-python-has-a-request",
        "python/ottla/broker/fetch/lending.py",
        " or session.unanswered",
        "",
        pytest=(f"{PYTEST}::test_it_is_not_lent_before_python_has_answered_all_of_it",),
    ),
    Mutant(
        "sessions.lent-by-their-end",
        "python/ottla/broker/fetch/session.py",
        "        self.is_closed = True\n        if self.parked is not None:\n            self.parked.expire()\n",
        "        if self.parked is not None:\n            self.parked.expire()\n        self.is_closed = True\n",
        pytest=(f"{PYTEST}::test_one_that_ends_while_python_has_a_request_is_gone",),
    ),
    Mutant(
        "sessions.give-way-while-they-are-used",
        "python/ottla/broker/fetch/session.py",
        "            oldest = self._sort()\n",
        "            pass\n",
        pytest=("tests/broker/fetch/test_fetch_session_rules.py::test_one_that_is_lent_is_used_where_nobody_sees_it",),
    ),
)
