"""In which order a connection's answers leave, and what quotas make of them: each promise broken once."""

from tests.faults.mutants import Mutant

RATES = "tests/broker/quotas/test_quota_rates.py"
QUOTAS = "tests/broker/quotas/test_quotas.py"
DESCRIPTORS = ("net::tests::descriptors::",)
SEGMENT_ENDS = (
    "tests/broker/fetch/test_waiting_fetches.py::test_nobody_waits_at_the_end_of_a_segment_that_is_not_the_last"
)

MUTANTS = (
    Mutant(
        "slots.a-fetch-overtakes-produces",
        "rust/net/slots.rs",
        "            self.waiting == 0\n",
        "            self.blocking == 0\n",
        cargo=("net::slots::tests::who_may_pass_whom",),
    ),
    Mutant(
        "slots.a-produce-overtakes-appends",
        "rust/net/slots.rs",
        "        self.blocking += 1;\n",
        "        self.blocking += usize::from(!produce);\n",
        cargo=("net::slots::tests::who_may_pass_whom",),
    ),
    Mutant(
        "slots.other-requests-may-be-passed",
        "rust/net/slots.rs",
        "            produce: true,\n            passable: passable @ false,\n",
        "            passable: passable @ false,\n",
        cargo=("net::slots::tests::appended_means_nothing_for_other_requests",),
    ),
    Mutant(
        "slots.answers-leave-as-they-come",
        "rust/net/slots.rs",
        "        if !matches!(self.slots.front(), Some(Slot::Filled(_))) {\n            return None;\n        }\n",
        "        let filled = |slot: &Slot<A>| matches!(slot, Slot::Filled(_));\n"
        "        let ready = self.slots.iter().position(filled)?;\n"
        "        self.slots.rotate_left(ready);\n",
        cargo=("net::slots::tests::answers_leave_in_order",),
    ),
    Mutant(
        "quota.nobody-is-the-default",
        "python/ottla/broker/quotas/limits.py",
        '            (Entity(ABSENT, DEFAULT), ("", client_id)),\n',
        "",
        pytest=(f"{RATES}::test_the_most_specific_quota_holds",),
    ),
    Mutant(
        "quota.what-was-not-sent-counts",
        "python/ottla/broker/quotas/clients.py",
        "            self.not_fetched(client, size)\n",
        "            pass\n",
        pytest=(f"{RATES}::test_what_was_throttled_away_is_not_counted",),
    ),
    Mutant(
        "quota.produced-bytes-do-not-count",
        "python/ottla/broker/quotas/cost.py",
        "        if self._produced >= 0:\n",
        "        if self._produced > 2**31:\n",
        pytest=(f"{QUOTAS}::test_a_producer_is_answered_at_once_and_then_not_heard",),
    ),
    Mutant(
        "quota.fetched-bytes-do-not-count",
        "python/ottla/broker/fetch/context.py",
        "        by_size = quotas.fetched(client, size)\n",
        "        by_size = 0\n",
        pytest=(f"{QUOTAS}::test_a_throttled_consumer_gets_nothing_and_misses_nothing",),
    ),
    Mutant(
        "quota.time-is-not-limited",
        "python/ottla/broker/quotas/cost.py",
        "self._quotas.used_time(self._client, self.spent_s, at_ms)",
        "self._quotas.used_time(self._client, 0.0, at_ms)",
        pytest=(f"{QUOTAS}::test_time_is_limited_for_every_request",),
    ),
    # --- who may speak ---
    Mutant(
        "net.who-may-not-speak-is-served",
        "rust/net/session.rs",
        "        } else if !self.is_known {\n",
        "        } else if false {\n",
        cargo=("net::tests::sessions::nothing_but_a_greeting_is_handed_out",),
    ),
    Mutant(
        "net.a-greeting-has-no-end",
        "rust/net/hub/arrivals.rs",
        "Session::unknown(self.now_ms + greeting_ms)",
        "Session::unknown(self.now_ms + 1000 * greeting_ms)",
        cargo=("net::tests::sessions::who_says_nothing_or_too_little_ends_in_time",),
    ),
    Mutant(
        "net.a-greeting-may-be-large",
        "rust/net/session.rs",
        "limits.frame_bytes_max.min(GREETING_BYTES_MAX)",
        "limits.frame_bytes_max",
        cargo=("net::tests::sessions::a_greeting_is_no_large_frame",),
    ),
    Mutant(
        "net.what-a-transport-holds-is-forgotten",
        "rust/net/hub/turns.rs",
        "        let has_work = holds || connection.has_startable(&self.shared.limits);\n",
        "        let has_work = connection.has_startable(&self.shared.limits);\n",
        cargo=("net::tests::transports::what_is_held_is_served_without_another_word_of_the_client",),
    ),
    # --- when a Produce is answered ---
    Mutant(
        "produce.answered-before-its-turn-is-over",
        "python/ottla/replication/delayed_produce.py",
        "        if self._turn_is_over and not self._open:\n",
        "        if not self._open:\n",
        pytest=("tests/replication/test_delayed_produce.py",),
    ),
    Mutant(
        "produce.the-next-overtakes-an-append-on-a-thread",
        "python/ottla/replication/delayed_produce.py",
        "        if not self._under_way:\n            self._all_appended()\n",
        "        self._all_appended()\n",
        pytest=("tests/replication/test_delayed_produce.py",),
    ),
    Mutant(
        "broker.a-new-leader-finds-nothing-below-its-watermark",
        "python/ottla/broker/api/k02_list_offsets.py",
        "    if found is not None and found.offset < end:\n",
        "    if found is not None and found.offset < end and not is_behind:\n",
        pytest=("tests/broker/control/test_offsets_of_new_leaders.py",),
    ),
    Mutant(
        "broker.elections-elsewhere-say-nothing",
        "python/ottla/broker/api/k43_elect_leaders.py",
        "        for name in names:\n",
        "        for name in () if asked.topic_partitions is None else names:\n",
        pytest=("tests/broker/admin/test_elections_elsewhere.py",),
    ),
    # --- who is closed for whom ---
    Mutant(
        "connections.whoever-came-first-makes-room",
        "rust/net/hub/arrivals.rs",
        "            let held = acceptor.held_by(&one.origin);\n",
        "            let held = 0;\n",
        cargo=DESCRIPTORS,
    ),
    Mutant(
        "connections.who-is-owed-an-answer-makes-room",
        "rust/net/connection.rs",
        "is_client && !self.is_owed() && ",
        "is_client && ",
        cargo=DESCRIPTORS,
    ),
    Mutant(
        "connections.brokers-make-room",
        "rust/net/connection.rs",
        "        let is_client = !self.is_broker && !self.is_reserved;\n",
        "        let is_client = !self.is_broker;\n",
        cargo=DESCRIPTORS,
    ),
    Mutant(
        "connections.nobody-makes-room",
        "rust/net/hub/arrivals.rs",
        "!self.close_idlest() && ",
        "",
        cargo=DESCRIPTORS,
    ),
    # --- who waits for what does not come ---
    Mutant(
        "waiting.at-the-end-of-an-old-segment",
        "python/ottla/broker/fetch/read.py",
        "                result.is_due |= row.goes_on\n",
        "",
        pytest=(f"{SEGMENT_ENDS}[0-message-sets]",),
    ),
    Mutant(
        "waiting.at-the-end-of-a-segment-that-was-the-last",
        "python/ottla/broker/fetch/delayed_fetch.py",
        "                if read is None or read.goes_on:\n",
        "                if read is None:\n",
        pytest=(f"{SEGMENT_ENDS}[1-message-sets]",),
    ),
    Mutant(
        "waiting.at-the-end-of-an-old-segment-under-a-lease",
        "rust/direct/fetch.rs",
        "found.is_due |= goes_on;\n",
        "found.is_due &= goes_on;\n",
        pytest=(f"{SEGMENT_ENDS}[0-under-a-lease]",),
    ),
)
