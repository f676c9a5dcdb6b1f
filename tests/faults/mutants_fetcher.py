"""Mutants of the replica fetcher: see `mutants.py`."""

from tests.faults.mutants import Mutant

TURNS = "replication::tests::turns::"
FETCHING = "replication::tests::fetching::"
ERRORS = "replication::tests::errors::"
THROTTLED = "replication::tests::throttled::"
CONNECTIONS = "replication::tests::connections::"

MUTANTS = (
    Mutant(
        "replication.a-removal-does-not-wait-for-the-append",
        "rust/replication/table.rs",
        "while state.append_of.as_ref().is_some_and(|of| keys.contains(of)) {",
        "while false {",
        cargo=(TURNS + "a_removal_waits_for_the_append_of_its_partition_alone",),
    ),
    Mutant(
        "replication.an-answer-to-an-earlier-epoch-is-appended",
        "rust/replication/table.rs",
        "        if entry.generation != generation {\n            return Begun::Late;\n        }\n",
        "",
        cargo=(TURNS + "an_answer_to_an_earlier_epoch_is_dropped",),
    ),
    Mutant(
        "replication.what-a-late-row-said-is-never-told-again",
        "rust/replication/fetcher.rs",
        "        if is_late {\n",
        "        if false {\n",
        cargo=(TURNS + "an_answer_to_an_earlier_epoch_is_dropped",),
    ),
    Mutant(
        "replication.records-of-another-offset-are-appended",
        "rust/replication/fetcher.rs",
        "if replica.end_offset() != asked.offset {",
        "if false {",
        cargo=(TURNS + "an_answer_for_an_offset_that_is_not_the_end_any_more_is_dropped",),
    ),
    Mutant(
        "replication.the-log-starts-before-the-high-watermark-moves",
        "rust/replication/fetcher.rs",
        "        if row.high_watermark >= 0 {\n",
        "        replica.move_start_offset(row.log_start_offset)?;\n        if row.high_watermark >= 0 {\n"
        "            replica.set_high_watermark(row.high_watermark);\n            return Ok(());\n        }\n"
        "        if row.high_watermark >= 0 {\n",
        cargo=(FETCHING + "records_are_appended_then_the_high_watermark_moves_then_the_start",),
    ),
    Mutant(
        "replication.a-diverging-log-is-appended-to",
        "rust/replication/fetcher.rs",
        "if let Some((epoch, offset)) = row.diverging_epoch {",
        "if let Some((epoch, offset)) = row.diverging_epoch.filter(|_| false) {",
        cargo=(ERRORS + "a_diverging_log",),
    ),
    Mutant(
        "replication.the-epoch-of-the-last-record-is-not-sent",
        "rust/replication/fetcher.rs",
        "last_fetched_epoch: row.last_epoch,",
        "last_fetched_epoch: -1,",
        cargo=(FETCHING + "records_are_appended_then_the_high_watermark_moves_then_the_start",),
    ),
    Mutant(
        "replication.a-session-outlives-its-connection",
        "rust/replication/fetcher.rs",
        "        self.connection.end();\n        self.session.begin_anew();\n",
        "        self.connection.end();\n",
        cargo=(CONNECTIONS + "a_connection_that_ends_in_an_answer_is_made_anew_with_a_new_session",),
    ),
    Mutant(
        "replication.memory-is-taken-for-what-is-announced",
        "rust/replication/connection.rs",
        "wanted = Some(SIZE_BYTES + size);",
        "wanted = Some(SIZE_BYTES + size);\n                bytes.reserve(size);",
        cargo=(CONNECTIONS + "a_frame_that_announces_too_much_costs_no_memory",),
    ),
    Mutant(
        "replication.a-follower-fetches-what-is-throttled",
        "rust/replication/table.rs",
        "if !until_room.is_zero() && entry.lags() && self.is_throttled(key) {",
        "if false {",
        cargo=(THROTTLED + "what_lags_is_left_out_while_the_quota_is_exceeded",),
    ),
    Mutant(
        "replication.a-follower-in-sync-is-throttled",
        "rust/replication/table.rs",
        "if !until_room.is_zero() && entry.lags() && self.is_throttled(key) {",
        "if !until_room.is_zero() && self.is_throttled(key) {",
        cargo=(THROTTLED + "what_lags_is_left_out_while_the_quota_is_exceeded",),
    ),
    Mutant(
        "replication.what-is-fetched-does-not-count",
        "rust/replication/fetcher.rs",
        "if self.table.is_throttled(key) {",
        "if false {",
        cargo=(THROTTLED + "the_rate_is_kept",),
    ),
    Mutant(
        "replication.a-large-answer-is-forgotten-with-its-samples",
        "rust/replication/quota.rs",
        "const DEBT_TIMES: u32 = 10;",
        "const DEBT_TIMES: u32 = 1;",
        cargo=("replication::quota::tests::the_rate_is_kept_whatever_one_answer_has_and_however_seldom_somebody_asks",),
    ),
    Mutant(
        "replication.a-quota-forgets-what-nobody-used-yet",
        "rust/replication/quota.rs",
        "let credit = now.saturating_duration_since(paid_until).min(size);",
        "let credit = now.saturating_duration_since(paid_until).min(size * 0);",
        cargo=("replication::quota::tests::what_is_not_used_may_be_used_within_the_time_of_a_sample",),
    ),
    Mutant(
        "replication.large-answers-of-all-at-once",
        "rust/replication/connection.rs",
        "if is_large && answer.place.is_none() {",
        "if false && is_large {",
        cargo=(CONNECTIONS + "a_large_answer_waits_for_a_place_and_small_ones_do_not",),
    ),
    Mutant(
        "replication.a-large-answer-keeps-its-place",
        "rust/replication/fetcher.rs",
        "        answer.leave_place(own_bytes);\n",
        "",
        cargo=(CONNECTIONS + "a_large_answer_that_does_not_end_leaves_its_place",),
    ),
)
