//! The power goes at every change of the disk in the life of a compacted log: in every write, fsync, rename and removal of appends, cleanings,
//! truncations, deletions and openings. Afterwards the log is its model (see [`tests`](super::tests)).

use super::tests::{Model, Step, step};
use crate::log::faults::seeds;
use crate::records::{Codec, Outcome};

fn append(keys: &[u8], producer: Option<i64>) -> Step {
    Step::Append {
        keys: keys.to_vec(),
        tombstones: false,
        producer,
        codec: Codec::None,
    }
}

/// Everything that a compacted log does, several segments of it.
fn script() -> Vec<Step> {
    let transaction = |producer| Step::Transaction {
        keys: vec![1, 2, 3],
        producer,
    };
    let end = |producer, outcome| Step::End { producer, outcome };
    let clean = |forgets| Step::Clean {
        keys_max: 1000,
        forgets,
    };
    let mut steps = vec![append(&[1, 2, 3], None), Step::Flush];
    for turn in 0..5u8 {
        steps.extend([
            append(&[turn, 4, 5], Some(1)),
            transaction(10),
            append(&[1, turn], None),
        ]);
        if turn == 2 {
            steps.push(end(10, Outcome::Abort));
        }
    }
    steps.extend([
        end(10, Outcome::Commit),
        Step::Append {
            keys: vec![2, 4],
            tombstones: true,
            producer: None,
            codec: Codec::Lz4,
        },
        transaction(11),
        end(11, Outcome::Abort),
        Step::Roll,
        clean(false),
        append(&[1, 2, 6], Some(2)),
        append(&[6, 7], Some(1)),
        Step::Roll,
        clean(true),
        append(&[1, 7], None),
        Step::Truncate {
            part: 100,
            deep: false,
        },
        append(&[7, 8], Some(2)),
        Step::Roll,
        Step::Clean {
            keys_max: 2,
            forgets: true,
        },
        Step::DeleteBefore { part: 100 },
        Step::Reopen { clean: true },
        append(&[8, 9], Some(1)),
        clean(true),
        Step::Reopen { clean: false },
    ]);
    steps
}

fn run(steps: &[Step], at: usize, changes: u64, seed: u64) {
    let mut model = Model::new();
    for (number, step) in steps.iter().enumerate() {
        if number == at {
            model.run(&Step::PowerLoss { changes, seed });
        }
        model.run(step);
    }
}

#[test]
fn at_every_change_of_a_compacted_log() {
    let script = script();
    let mut model = Model::new();
    let before = model.storage.changes();
    for step in &script {
        model.run(step);
    }
    let changes_total = model.storage.changes() - before;
    assert!(changes_total > 150, "only {changes_total} changes");
    // Every third one: the next run begins elsewhere.
    seeds::each(1, |seed| {
        for changes in (seed % 3..changes_total).step_by(3) {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(changes);
            run(&script, 0, changes, seed);
        }
    });
}

#[test]
fn somewhere_in_random_histories() {
    let history = (
        proptest::collection::vec(step(), 1..60),
        proptest::prelude::any::<(u8, u8, u64)>(),
    );
    seeds::property(20, history, |(steps, (at, changes, seed))| {
        run(&steps, usize::from(at) % steps.len(), changes.into(), seed);
    });
}
