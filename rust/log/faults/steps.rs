//! The steps that may happen to a log in [`model`](super::model).

use proptest::prelude::*;

use crate::storage::faulty::Operation;

#[derive(Clone, Debug)]
pub enum Step {
    /// Records of that many bytes each, by one of three producers, one of three in its transaction, or none.
    Append {
        records: usize,
        bytes: usize,
        producer: Option<i64>,
    },
    /// Small batches in one turn of the loop, which are written together; in the middle somebody else may take the log's writer.
    Turn {
        batches: Vec<(usize, Option<i64>)>,
        roll_at: usize,
    },
    /// The same while the disk is full: the first write that comes fails, or is torn, and the log goes on.
    FullTurn {
        batches: Vec<(usize, Option<i64>)>,
        tear: bool,
    },
    /// Ends a producer's transaction, if it has one or not.
    End {
        producer: i64,
        commit: bool,
    },
    /// The same while the disk is full: that write or the next one fails, and the log goes on.
    FullEnd {
        producer: i64,
        commit: bool,
        skip: u64,
    },
    /// Sends the producer's last batch again.
    Retry {
        producer: i64,
    },
    /// As a follower: what a leader sent at once, of this epoch and of the one before.
    Fetch {
        batches: Vec<Sent>,
    },
    /// Another leader is to be followed.
    Follow,
    Truncate {
        part: u8,
    },
    /// As one of many: whoever comes next makes the cut durable.
    CutOfMany {
        part: u8,
    },
    DeleteBefore {
        part: u8,
    },
    Roll,
    Flush,
    NextEpoch,
    Reopen {
        clean: bool,
    },
    PowerCut {
        seed: u64,
    },
    /// The power goes after so many more changes of the disk, in whatever is done then.
    PowerLoss {
        changes: u64,
        seed: u64,
    },
    Break {
        operation: Operation,
        skip: u64,
        tear: bool,
    },
}

/// A batch of a leader, and behind it perhaps the end of its producer's transaction.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub records: usize,
    pub bytes: usize,
    pub producer: Option<i64>,
    pub commit: Option<bool>,
}

/// Producers from this id on write in transactions.
pub const IN_TRANSACTIONS: i64 = 10;

pub fn in_transactions() -> std::ops::Range<i64> {
    IN_TRANSACTIONS..IN_TRANSACTIONS + 3
}

fn producer() -> impl Strategy<Value = i64> {
    prop_oneof![0..3i64, in_transactions()]
}

/// Most are small, some larger than a segment.
fn sent() -> impl Strategy<Value = Sent> {
    let bytes = prop_oneof![9 => 0..200usize, 1 => 500..1000usize];
    let commit = prop::option::of(any::<bool>());
    let parts = (1..5usize, bytes, prop::option::of(producer()), commit);
    parts.prop_map(|(records, bytes, producer, commit)| Sent {
        records,
        bytes,
        producer,
        commit,
    })
}

pub fn step() -> impl Strategy<Value = Step> {
    let operation = prop_oneof![
        4 => Just(Operation::Write),
        1 => Just(Operation::SetLength),
        2 => Just(Operation::SyncData),
        1 => Just(Operation::SyncDirectory),
        1 => Just(Operation::Rename),
        1 => Just(Operation::Open),
        1 => Just(Operation::Read),
    ];
    let batches = || prop::collection::vec((0..200usize, prop::option::of(producer())), 1..12);
    prop_oneof![
        10 => (batches(), 0..20usize).prop_map(|(batches, roll_at)| Step::Turn { batches, roll_at }),
        3 => (batches(), any::<bool>()).prop_map(|(batches, tear)| Step::FullTurn { batches, tear }),
        20 => (1..6usize, 0..200usize, prop::option::of(producer()))
            .prop_map(|(records, bytes, producer)| Step::Append { records, bytes, producer }),
        8 => (in_transactions(), any::<bool>()).prop_map(|(producer, commit)| Step::End { producer, commit }),
        2 => (in_transactions(), any::<bool>(), 0..3u64)
            .prop_map(|(producer, commit, skip)| Step::FullEnd { producer, commit, skip }),
        2 => (0..3i64).prop_map(|producer| Step::Retry { producer }),
        8 => prop::collection::vec(sent(), 1..10).prop_map(|batches| Step::Fetch { batches }),
        1 => Just(Step::Follow),
        2 => any::<u8>().prop_map(|part| Step::Truncate { part }),
        2 => any::<u8>().prop_map(|part| Step::CutOfMany { part }),
        2 => any::<u8>().prop_map(|part| Step::DeleteBefore { part }),
        1 => Just(Step::Roll),
        3 => Just(Step::Flush),
        1 => Just(Step::NextEpoch),
        3 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
        3 => any::<u64>().prop_map(|seed| Step::PowerCut { seed }),
        2 => (0..40u64, any::<u64>()).prop_map(|(changes, seed)| Step::PowerLoss { changes, seed }),
        1 => (operation, 0..4u64, any::<bool>())
            .prop_map(|(operation, skip, tear)| Step::Break { operation, skip, tear }),
    ]
}

/// The steps of a log while nothing is broken.
pub fn workload() -> impl Strategy<Value = Step> {
    step().prop_filter("it breaks something", |step| {
        !matches!(
            step,
            Step::FullTurn { .. }
                | Step::FullEnd { .. }
                | Step::PowerCut { .. }
                | Step::PowerLoss { .. }
                | Step::Break { .. }
        )
    })
}
