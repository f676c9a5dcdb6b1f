//! Runs of the model that once showed a fault, as they shrank.

use super::model::run;
use super::steps::Step;
use crate::log::log::OpenMode;
use crate::log::opening::Hints;
use crate::log::tests::Folder;
use crate::log::{AppendOrigin, Home, Log, LogConfig};
use crate::records::{BatchBuilder, BatchOptions};
use crate::storage::faulty::Operation;

/// The marker of a transaction was deleted with the log's front; a snapshot from before it stayed, and called the transaction open.
#[test]
fn a_snapshot_from_before_the_start() {
    run(&[
        Step::Turn {
            batches: vec![(8, None), (68, None), (0, None)],
            roll_at: 2,
        },
        Step::PowerCut {
            seed: 5950297720529727247,
        },
        Step::Append {
            records: 4,
            bytes: 91,
            producer: None,
        },
        Step::End {
            producer: 10,
            commit: false,
        },
        Step::Turn {
            batches: vec![(159, None), (146, None), (188, None)],
            roll_at: 3,
        },
        Step::Reopen { clean: false },
        Step::Turn {
            batches: vec![(163, Some(10)), (72, None), (6, None), (40, None)],
            roll_at: 3,
        },
        Step::End {
            producer: 10,
            commit: false,
        },
        Step::Flush,
        Step::PowerCut { seed: 0 },
        Step::PowerCut {
            seed: 55831177487560954,
        },
        Step::Append {
            records: 1,
            bytes: 2,
            producer: None,
        },
        Step::Reopen { clean: true },
        Step::Append {
            records: 5,
            bytes: 29,
            producer: None,
        },
        Step::Append {
            records: 2,
            bytes: 171,
            producer: None,
        },
        Step::FullTurn {
            batches: vec![(0, None), (0, None)],
            tear: false,
        },
        Step::DeleteBefore { part: 189 },
        Step::Append {
            records: 5,
            bytes: 173,
            producer: None,
        },
        Step::PowerCut {
            seed: 3209718930591513839,
        },
    ]);
}

/// A truncation forgot what stood before the log's start, a recovery remembered it: a new batch was taken for an old one.
#[test]
fn producers_from_before_the_start() {
    run(&[
        Step::Turn {
            batches: vec![(0, Some(0)), (0, Some(0))],
            roll_at: 0,
        },
        Step::Append {
            records: 1,
            bytes: 0,
            producer: None,
        },
        Step::DeleteBefore { part: 170 },
        Step::Truncate { part: 0 },
        Step::Turn {
            batches: vec![(0, Some(0))],
            roll_at: 0,
        },
        Step::Reopen { clean: false },
        Step::Turn {
            batches: vec![(0, Some(0))],
            roll_at: 0,
        },
    ]);
}

/// A clean stop left a truncation of the transaction index to the operating system, and a power cut undid it.
#[test]
fn a_truncation_before_a_clean_stop() {
    run(&[
        Step::NextEpoch,
        Step::End {
            producer: 10,
            commit: false,
        },
        Step::Reopen { clean: false },
        Step::Truncate { part: 0 },
        Step::Reopen { clean: true },
        Step::Append {
            records: 5,
            bytes: 101,
            producer: None,
        },
        Step::Turn {
            batches: vec![(162, None), (175, None), (35, None)],
            roll_at: 0,
        },
        Step::Turn {
            batches: vec![(0, None)],
            roll_at: 0,
        },
        Step::Reopen { clean: true },
        Step::PowerCut {
            seed: 8049101134475641555,
        },
    ]);
}

/// A deletion up to the inside of a batch, a truncation there, and a roll leave a gap between segments, which a recovery took for lost records.
#[test]
fn a_truncation_to_a_start_inside_a_batch() {
    run(&[
        Step::FullTurn {
            batches: vec![(0, None)],
            tear: false,
        },
        Step::End {
            producer: 10,
            commit: false,
        },
        Step::Flush,
        Step::Turn {
            batches: vec![
                (0, None),
                (0, None),
                (56, None),
                (136, None),
                (122, None),
                (13, None),
            ],
            roll_at: 0,
        },
        Step::Turn {
            batches: vec![(0, None), (140, None), (17, None)],
            roll_at: 3,
        },
        Step::DeleteBefore { part: 0 },
        Step::Append {
            records: 4,
            bytes: 174,
            producer: None,
        },
        Step::FullTurn {
            batches: vec![(0, None)],
            tear: false,
        },
        Step::Append {
            records: 3,
            bytes: 129,
            producer: None,
        },
        Step::Turn {
            batches: vec![
                (5, None),
                (130, None),
                (196, None),
                (38, None),
                (162, None),
                (147, None),
                (12, None),
                (87, None),
            ],
            roll_at: 8,
        },
        Step::Append {
            records: 1,
            bytes: 2,
            producer: None,
        },
        Step::Append {
            records: 4,
            bytes: 0,
            producer: None,
        },
        Step::DeleteBefore { part: 230 },
        Step::Truncate { part: 0 },
        Step::Append {
            records: 5,
            bytes: 189,
            producer: None,
        },
        Step::Reopen { clean: false },
        Step::Turn {
            batches: vec![(0, None)],
            roll_at: 0,
        },
    ]);
}

/// Power that went while the log's front was deleted.
#[test]
fn a_deletion_that_the_power_interrupts() {
    run(&[
        Step::Turn {
            batches: vec![
                (0, None),
                (4, None),
                (34, None),
                (127, None),
                (162, None),
                (21, None),
                (12, None),
                (135, None),
                (56, Some(11)),
                (52, None),
                (72, None),
            ],
            roll_at: 11,
        },
        Step::Reopen { clean: false },
        Step::End {
            producer: 11,
            commit: false,
        },
        Step::Append {
            records: 2,
            bytes: 153,
            producer: None,
        },
        Step::Turn {
            batches: vec![(0, None)],
            roll_at: 1,
        },
        Step::PowerLoss {
            changes: 13,
            seed: 12640316451335701717,
        },
        Step::Turn {
            batches: vec![
                (0, None),
                (0, None),
                (0, None),
                (0, None),
                (0, None),
                (0, None),
                (0, None),
                (0, None),
            ],
            roll_at: 1,
        },
        Step::DeleteBefore { part: 134 },
        Step::Turn {
            batches: vec![(0, None)],
            roll_at: 0,
        },
    ]);
}

/// The producers of a log whose records were all deleted were forgotten by a clean stop, and not by
/// a crash.
#[test]
fn producers_of_a_log_without_records() {
    run(&[
        Step::End {
            producer: 10,
            commit: false,
        },
        Step::Append {
            records: 2,
            bytes: 0,
            producer: None,
        },
        Step::DeleteBefore { part: 85 },
        Step::PowerCut {
            seed: 16279363386417771728,
        },
        Step::Reopen { clean: true },
        Step::Append {
            records: 1,
            bytes: 0,
            producer: None,
        },
        Step::Reopen { clean: true },
    ]);
}

/// A transaction that was open before a gap in front of the log's start was forgotten once, and
/// found again by a recovery that began behind the gap.
#[test]
fn a_marker_lost_in_front_of_the_start() {
    let turn = |n: usize, r: usize| Step::Turn {
        batches: vec![(0, None); n],
        roll_at: r,
    };
    let app = |records: usize, bytes: usize, producer: Option<i64>| Step::Append {
        records,
        bytes,
        producer,
    };
    run(&[
        app(1, 0, None),
        Step::Roll,
        Step::Reopen { clean: false },
        turn(2, 2),
        Step::End {
            producer: 10,
            commit: false,
        },
        Step::PowerCut {
            seed: 16279613578879305984,
        },
        app(1, 0, None),
        Step::PowerLoss {
            changes: 0,
            seed: 14863650920046610212,
        },
        Step::Truncate { part: 0 },
        Step::Turn {
            batches: vec![(1, None), (97, None), (140, None)],
            roll_at: 3,
        },
        app(5, 131, None),
        Step::Turn {
            batches: vec![
                (180, None),
                (56, None),
                (184, None),
                (0, None),
                (132, None),
                (42, None),
            ],
            roll_at: 6,
        },
        Step::DeleteBefore { part: 192 },
        Step::Turn {
            batches: vec![(85, None), (44, None)],
            roll_at: 1,
        },
        Step::FullTurn {
            batches: vec![(0, None), (0, None)],
            tear: false,
        },
        Step::FullTurn {
            batches: vec![(0, None)],
            tear: false,
        },
        Step::Turn {
            batches: vec![
                (0, None),
                (0, None),
                (0, None),
                (0, None),
                (53, None),
                (3, None),
                (159, None),
            ],
            roll_at: 7,
        },
        Step::Turn {
            batches: vec![
                (147, None),
                (178, None),
                (39, None),
                (27, None),
                (125, None),
                (151, None),
            ],
            roll_at: 0,
        },
        Step::End {
            producer: 10,
            commit: false,
        },
        app(3, 0, Some(12)),
        Step::Break {
            operation: Operation::Write,
            skip: 0,
            tear: false,
        },
        Step::Truncate { part: 145 },
        Step::Reopen { clean: false },
        app(5, 135, None),
        app(2, 178, None),
        app(4, 150, None),
        Step::PowerLoss {
            changes: 18,
            seed: 6534922351306751759,
        },
        app(3, 148, None),
        app(3, 132, None),
        Step::End {
            producer: 12,
            commit: true,
        },
        app(1, 53, None),
        Step::DeleteBefore { part: 249 },
        turn(4, 0),
        Step::PowerCut {
            seed: 10043984808203980866,
        },
        turn(1, 0),
        turn(1, 0),
        turn(1, 0),
    ]);
}

/// The power took the end of a log, but not a snapshot of it; and later the one that was newer. What was lost was then taken for what was there.
#[test]
fn a_snapshot_of_what_the_power_took() {
    let folder = Folder::new();
    let file = |name: &str| folder.0.path().join("t-0").join(name);
    let send = |log: &Log, producer_id: i64, sequence: i32| {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: sequence,
            ..BatchOptions::default()
        });
        builder.append(0, None, Some(b"a value"), &[]).unwrap();
        let appended = log.append(&mut builder.finish().unwrap(), 0, AppendOrigin::Client, 0);
        appended.unwrap().base_offset
    };
    let log = folder.open(LogConfig::default(), false);
    for sequence in 0..5 {
        assert_eq!(send(&log, 1, sequence), i64::from(sequence));
    }
    log.close(true).unwrap();
    let segment = std::fs::File::options()
        .write(true)
        .open(file("00000000000000000000.log"))
        .unwrap();
    segment
        .set_len(segment.metadata().unwrap().len() / 5)
        .unwrap();

    let log = folder.open(LogConfig::default(), false);
    assert_eq!(log.end_offset(), 1);
    for sequence in 0..5 {
        send(&log, 2, sequence);
    }
    log.roll().unwrap();
    send(&log, 2, 5);
    log.close(false).unwrap();
    std::fs::remove_file(file("00000000000000000006.snapshot")).unwrap();

    let hints = Hints {
        recovery_point: 7,
        ..Hints::default()
    };
    let home = Home::real(folder.0.path());
    let log = Log::open(&home, "t-0", LogConfig::default(), hints, OpenMode::Append).unwrap();
    assert_eq!(send(&log, 1, 1), 7, "the producer goes on after its first");
}
