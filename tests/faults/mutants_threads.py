"""Threads beside the loop: each promise broken once."""

from tests.faults.mutants import Mutant

_BESIDE = "direct::tests::beside::"

MUTANTS = (
    Mutant(
        "threads.the-loop-hears-of-no-turn",
        "rust/direct/serving.rs",
        "        self.rests.lock().push(rest);\n",
        "        drop(rest);\n",
        cargo=(f"{_BESIDE}the_loop_ends_a_turn_of_which_it_has_to_hear",),
    ),
    Mutant(
        "threads.one-serves-all-connections",
        "rust/net/hub/joint.rs",
        ".map_or(0, |(number, _, _)| *number)",
        ".map_or(0, |_| 1)",
        cargo=(f"{_BESIDE}what_a_lease_allows_is_served_without_the_loop",),
    ),
    Mutant(
        "threads.who-left-is-counted",
        "rust/net/hub/turns.rs",
        "        self.joint.left(self.number);\n",
        "",
        cargo=(f"{_BESIDE}what_a_lease_allows_is_served_without_the_loop",),
    ),
    Mutant(
        "threads.work-does-not-count",
        "rust/net/hub/joint.rs",
        "map(|(_, count, work)| (*work, *count)).min();\n        counts.retain(|(_, count, work)| Some((*work, ",
        "map(|(_, count, _)| (0, *count)).min();\n        counts.retain(|(_, count, _)| Some((0, ",
        cargo=("net::hub::joint::tests::who_has_worked_least_gets_the_next_one",),
    ),
    Mutant(
        "threads.all-that-come-together-go-to-one",
        "rust/net/hub/joint.rs",
        "*count <= fewest + fewest / 8 + slack",
        "*count < usize::MAX",
        cargo=("net::hub::joint::tests::many_that_come_together_are_divided",),
    ),
    Mutant(
        "threads.short-connections-go-to-all",
        "rust/net/hub/joint.rs",
        "2 + gone.sum::<u64>() as usize / 64",
        "2 + gone.sum::<u64>() as usize * 0",
        cargo=("net::hub::joint::tests::short_connections_go_round_a_long_one",),
    ),
    Mutant(
        "threads.a-turn-that-goes-on-is-no-work",
        "rust/net/hub/work.rs",
        "(self.turns_us.sum(now_us) + goes_on_us)",
        "(self.turns_us.sum(now_us) + goes_on_us * 0)",
        cargo=("net::hub::work::", f"{_BESIDE}who_comes_goes_to_the_thread_that_has_worked_least"),
    ),
    Mutant(
        "threads.die-as-often-as-they-like",
        "rust/direct/serving.rs",
        "if self.deaths.add(Instant::now()) {",
        "if false && self.deaths.add(Instant::now()) {",
        cargo=(f"{_BESIDE}a_thread_that_dies_twice_in_a_minute_is_the_brokers_end",),
    ),
    Mutant(
        "threads.what-one-staged-dies-with-it",
        "rust/direct/serving.rs",
        "let _ = catching(|| self.direct.hand_rest(&self.hubs, &mut turn));",
        "let _ = &mut turn;",
        cargo=(f"{_BESIDE}a_thread_that_dies_costs_its_connections",),
    ),
    Mutant(
        "threads.what-a-dead-one-held-is-counted",
        "rust/net/hub/anew.rs",
        "for (id, origin) in self.connections.taken_out() {",
        "for (id, origin) in self.connections.taken_out().drain(..0) {",
        cargo=("net::hub::anew::",),
    ),
    Mutant(
        "threads.what-a-dead-one-held-stays-charged",
        "rust/net/hub/anew.rs",
        "answers_changed(charged, 0)",
        "answers_changed(charged, charged)",
        cargo=("net::hub::anew::",),
    ),
    Mutant(
        "threads.wait-for-no-log",
        "rust/log/pending.rs",
        "self.writer.try_lock_for(patience)",
        "self.writer.try_lock_for(patience * 0)",
        cargo=("log::pending::tests::a_log_that_somebody_writes_to_is_waited_for_a_moment",),
    ),
    Mutant(
        "threads.the-last-one-asked-makes-room",
        "rust/net/hub/search.rs",
        "self.best = self.best.max(own);",
        "self.best = own.or(self.best);",
        cargo=("net::hub::search::tests::the_best_of_all_goes",),
    ),
    Mutant(
        "threads.answers-go-to-the-loops-hub",
        "rust/net/hub/hubs.rs",
        "        hub.unwrap_or(&self.loops).lock()\n",
        "        hub.filter(|_| false).unwrap_or(&self.loops).lock()\n",
        cargo=(f"{_BESIDE}what_is_handed_to_the_loop_keeps_its_place",),
    ),
    Mutant(
        "threads.two-hubs-have-the-lane",
        "rust/net/budget/mod.rs",
        "        if taken.is_err() {\n",
        "        if false && taken.is_err() {\n",
        cargo=("net::budget::tests::one_hub_has_the_lane",),
    ),
    Mutant(
        "threads.meters-of-threads-are-left-out",
        "rust/net/hub/hubs.rs",
        "sum.get_or_insert_with(|| meter.empty()).add(meter);",
        "sum.get_or_insert_with(|| meter.empty());",
        pytest=("tests/broker/connections/test_threads.py::test_all_threads_are_measured_together",),
    ),
)
