//! The power goes at every change of the disk: every write, fsync, rename, removal and creation, in turn, is the first that does not happen.
//!
//! What was on its way may have reached the disk in any part. Afterwards everything that was flushed is there, the log is a prefix of what was
//! appended, what stands beside the batches is what the batches give, and what was shown once survives a second power cut.

use super::model::Model;
use super::seeds;
use super::steps::{IN_TRANSACTIONS, Sent, Step, workload};

/// Runs `steps` as often as they change the disk, each time with the power going at another change. How often that was.
fn sweep(steps: &[Step], seed: u64) -> u64 {
    let mut whole = Model::new();
    let before = whole.storage.changes();
    for step in steps {
        whole.run(step);
    }
    let changes_total = whole.storage.changes() - before;
    for changes in 0..changes_total {
        let mut model = Model::new();
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(changes);
        model.run(&Step::PowerLoss { changes, seed });
        let mut is_checked = false;
        for step in steps {
            model.run(step);
            if model.power_cuts > 0 && !is_checked {
                model.check();
                is_checked = true;
            }
        }
        model.check();
    }
    changes_total
}

fn append(producer: Option<i64>) -> Step {
    Step::Append {
        records: 3,
        bytes: 90,
        producer,
    }
}

/// Everything that a log does, and each with something behind it that was flushed and something that was not.
fn script() -> Vec<Step> {
    let transactional = |at: i64| append(Some(IN_TRANSACTIONS + at));
    let end = |at: i64, commit| Step::End {
        producer: IN_TRANSACTIONS + at,
        commit,
    };
    let turn = |roll_at| Step::Turn {
        batches: (0..7)
            .map(|at| (at * 13, (at % 2 == 0).then_some(at as i64 / 2)))
            .collect(),
        roll_at,
    };
    vec![
        append(None),
        Step::Flush,
        transactional(0),
        turn(3),
        append(Some(1)),
        transactional(1),
        Step::Flush,
        end(0, false),
        Step::Roll,
        Step::NextEpoch,
        turn(100),
        append(Some(1)),
        end(1, true),
        Step::Flush,
        transactional(2),
        append(None),
        append(None),
        Step::Truncate { part: 190 },
        append(Some(0)),
        transactional(0),
        Step::Flush,
        Step::DeleteBefore { part: 120 },
        end(0, true),
        turn(5),
        Step::Reopen { clean: true },
        end(2, false),
        append(Some(2)),
        Step::Retry { producer: 2 },
        Step::Reopen { clean: false },
        append(Some(1)),
        Step::Truncate { part: 240 },
        Step::Flush,
        append(None),
    ]
}

/// The steps of a follower: it gets batches for more than one segment, is cut alone and as one of
/// many, goes on otherwise, follows another, and leads.
fn followed() -> Vec<Step> {
    let sent = |bytes, producer, commit| Sent {
        records: 2,
        bytes,
        producer,
        commit,
    };
    let fetch = || Step::Fetch {
        batches: vec![
            sent(20, None, None),
            sent(300, Some(1), None),
            sent(90, Some(IN_TRANSACTIONS), Some(false)),
            sent(1100, None, None),
            sent(300, Some(1), None),
            sent(90, Some(IN_TRANSACTIONS + 1), None),
        ],
    };
    vec![
        Step::Follow,
        fetch(),
        Step::Flush,
        fetch(),
        Step::CutOfMany { part: 150 },
        fetch(),
        Step::Follow,
        Step::Truncate { part: 200 },
        fetch(),
        Step::Flush,
        Step::CutOfMany { part: 90 },
        Step::Roll,
        fetch(),
        Step::CutOfMany { part: 120 },
        Step::Flush,
        Step::NextEpoch,
        append(Some(1)),
        Step::Retry { producer: 1 },
        Step::Flush,
        Step::Follow,
        Step::CutOfMany { part: 240 },
        Step::CutOfMany { part: 200 },
        Step::Reopen { clean: true },
        fetch(),
        Step::CutOfMany { part: 230 },
    ]
}

#[test]
fn at_every_change_of_a_follower() {
    let mut changes = 0;
    seeds::each(1, |seed| changes = sweep(&followed(), seed));
    assert!(changes > 100, "only {changes} changes");
}

#[test]
fn at_every_change_of_a_log_that_does_everything() {
    let mut changes = 0;
    seeds::each(1, |seed| changes = sweep(&script(), seed));
    assert!(changes > 100, "only {changes} changes");
}

/// `flush.messages=1`, and acks=all where no other broker has a copy: every append is flushed before it is answered.
#[test]
fn at_every_change_where_every_append_is_flushed() {
    let mut steps = Vec::new();
    for at in 0..12 {
        steps.push(append(Some(at % 2 * IN_TRANSACTIONS)));
        steps.push(Step::Flush);
        if at % 4 == 3 {
            steps.push(Step::End {
                producer: IN_TRANSACTIONS,
                commit: at % 8 == 3,
            });
            steps.push(Step::Flush);
        }
    }
    seeds::each(2, |seed| {
        sweep(&steps, seed);
    });
}

#[test]
fn at_every_change_of_random_workloads() {
    let workload = (
        proptest::collection::vec(workload(), 1..16),
        proptest::prelude::any::<u64>(),
    );
    seeds::property(20, workload, |(steps, seed)| {
        sweep(&steps, seed);
    });
}
