"""Flushes that are due (`flush.messages`): each promise broken once."""

from tests.faults.mutants import Mutant

DUE = "tests/broker/produce/test_due_flushes.py"

MUTANTS = (
    Mutant(
        "flushes.ack-of-one-before-the-flush-that-is-due",
        "python/ottla/replication/delayed_produce.py",
        "            elif self._acks and info.last_offset >= partition.log.settled_offset:\n",
        "            elif False:\n",
        pytest=(f"{DUE}::test_the_answer_waits_for_the_disk",),
    ),
    Mutant(
        "flushes.ack-of-all-before-the-flush-that-is-due",
        "python/ottla/replication/partition.py",
        "        return self.log.flushed_offset if self.needs_flush else self.log.settled_offset\n",
        "        return self.log.flushed_offset if self.needs_flush else self.log.end_offset\n",
        pytest=(f"{DUE}::test_what_others_have_waits_too",),
    ),
    Mutant(
        "flushes.follower-confirms-before-the-flush-that-is-due",
        "rust/replication/replica.rs",
        "        log.flush()?;\n",
        "        log.flush_async(Box::new(drop));\n",
        cargo=("replication::replica::tests::a_flush_that_is_due_is_done_when_an_append_returns",),
    ),
    Mutant(
        "flushes.acknowledges-what-a-due-flush-has-not-reached",
        "rust/direct/produce.rs",
        "            _ => last < log.settled_offset(),\n",
        "            _ => true,\n",
        pytest=(f"{DUE}::test_under_a_lease",),
    ),
)
